"""Samples out of a pack in place of the data set's own: read where they would be decoded.

Compared with the data set before the first batch, and again now and then while it serves; a pack
that no longer agrees is not read any more, by no process.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from stoker.errors import StokerError
from stoker.random_state import undisturbed
from stoker.remedy.private_random import own_generators
from stoker.remedy.request import Request
from stoker.remedy.settings import Change, Refusal, Settings, Subject
from stoker.remedy.shared_store import SharedStore
from stoker.stand_in import StandIn, sample_of

if TYPE_CHECKING:
    from stoker.pack.served import Served

# Compared anew are the first samples that a loader or worker asks for, and one of so many.
_FIRST, _ONE_OF = 2, 256
# All of them can't be compared: then nothing would be saved.
_DATA = f"same order; same samples as far as they are compared, one of {_ONE_OF} while it serves"


class PackedSamples:
    """The layer: a pack that was found to belong to the data set."""

    def __init__(self, served: Served) -> None:
        self._pack, self._recipe = served.pack, served.recipe
        # No blobs, only the flag that all processes see: 1 more than the sample that differed.
        self._store = SharedStore(slots=0, budget=1)

    def around(self, dataset: Any) -> Any:
        """The data set, whose samples come out of the pack."""
        from stoker.pack.served import Served

        watched = _Watched(Served(dataset, self._pack, self._recipe), dataset, self._store)
        return StandIn(dataset, watched.one, watched.many)

    def renew(self) -> None:
        """The data set is another than before; whoever serves it is made anew, and compares."""

    def problem(self) -> str | None:
        """Why the pack is not read any more; None while it is."""
        if not self._store.flag:
            return None
        return (
            f"sample {self._store.flag - 1} is another than the one that was packed: from here on "
            f"samples are the data set's own again; {_ONE_OF} or so before it may have been old"
        )

    def held(self) -> int | None:
        """Nothing is filled: a pack is there as a whole."""
        return None


class _Watched:
    """The pack, and now and then a look at whether the data set still gives the same."""

    def __init__(self, served: Served, dataset: Any, store: SharedStore) -> None:
        self._served = served
        self._dataset = dataset
        self._store = store
        self._asked = 0

    def one(self, index: Any) -> Any:
        """A sample."""
        return self._sample(index, lambda: self._dataset[index])

    def many(self, indices: list[Any]) -> list[Any]:
        """The samples of a batch."""
        if self._store.flag:
            return list(self._dataset.__getitems__(indices))
        return [self._sample(index, partial(sample_of, self._dataset, index)) for index in indices]

    def _sample(self, index: Any, own: Callable[[], Any]) -> Any:
        if not self._store.flag:
            self._look_at(index)
        return own() if self._store.flag else self._served[index]

    def _look_at(self, index: Any) -> None:
        """Compare the sample when its turn has come."""
        try:
            number = operator.index(index)  # samplers give NumPy's and torch's integers, too
        except TypeError:
            return  # no number in the pack: the data set's own
        self._asked += 1
        # Spread over the data set by its number: no random generator is touched for it.
        if self._asked <= _FIRST or number * 2654435761 % 2**32 < 2**32 // _ONE_OF:
            put_back = undisturbed()
            try:
                if self._served.problem_at(index) is not None:
                    self._store.set_flag(number + 1)
            finally:
                put_back()


def pack(subject: Subject, settings: Settings, request: Request) -> Change | Refusal:
    """Read what the pack in that folder holds, where it is what the data set gives."""
    from stoker.pack.served import COMPARED, in_place_of

    if subject.is_iterable:
        return Refusal("an iterable data set gives no sample by its number")
    folder = request.folder or ""
    # What the transforms draw from generators of their own would be drawn by the comparison.
    draws = own_generators(subject.dataset) is None
    try:
        served = in_place_of(subject.dataset, folder, check_draws=draws)
    except StokerError as error:
        return Refusal(error.happened)
    # Behind generators of their own only what is stored could be compared.
    what = "whole samples" if draws else "samples as they are stored"
    count = min(COMPARED, len(served.pack.usable))
    rest = f", done anew: {served.recipe.rest}" if served.recipe.rest else ""
    told = f"samples come out of the pack{rest} ({count:,} {what} compared: the same bytes)"
    return Change(settings, told, _DATA, layer=PackedSamples(served))
