"""Room for samples that are any Python objects: what a data set of the user's gives."""

from __future__ import annotations

import numpy as np

from stoker.loader.slots import Fields

ITEM, KEY = "item", "key"


class ObjectSlot:
    """One batch of objects, under the name "item", and what each was asked for by, under "key"."""

    def __init__(self, rows: int) -> None:
        self.fields: Fields = {name: np.empty(rows, object) for name in (ITEM, KEY)}


class ObjectSlots:
    """Gives a new block each time: references cost nothing to make anew, their objects do."""

    held_bytes = 0  # what the objects hold is not known

    def acquire(self, rows: int) -> ObjectSlot:
        """A block to fill."""
        return ObjectSlot(rows)

    def release(self, slot: ObjectSlot) -> None:
        """Nothing to do."""

    def lend(self, slot: ObjectSlot, rows: int) -> Fields:
        """The objects."""
        return {name: field[:rows] for name, field in slot.fields.items()}
