"""What a loader hands out: the fields of a batch by name."""

from __future__ import annotations

from typing import Any


class Batch(dict[str, Any]):
    """A batch's fields: `batch["image"]` or `batch.image`.

    A real dict, because training libraries ask for one before they move a batch to a device.
    """

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(
                f"this batch has no field {name!r}; it has {', '.join(self)}"
            ) from None
