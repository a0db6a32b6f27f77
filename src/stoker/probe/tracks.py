"""Which loader is which: one Track for each loader of the script, over all its epochs.

A loader that is built anew for every epoch keeps its track: it says the same of itself as one that
is gone by now. Knows loaders only as objects that can be referenced weakly. Standard library only.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any


class Track:
    """One loader of the script, over all its epochs."""

    def __init__(self, loader: Any, facts: dict[str, Any]) -> None:
        self.loader = loader  # a copy: the script may drop its own while it iterates
        self.facts = facts
        self.length: int | None = facts["batches"]
        self.workers: int = facts["workers"]
        self.batches = 0  # handed out in all
        self.fetched = 0  # of them, those that it made itself; the others were kept or on trial
        self.served = 0  # handed out in this epoch
        self.is_open = False  # in the midst of an epoch, or left in one
        self.learns = True  # False once fetched with gradients off: a validation loader

    def count(self, *, is_fetched: bool) -> None:
        """One more batch was handed out."""
        self.batches += 1
        self.served += 1
        self.fetched += is_fetched

    def is_like(self, other: Track) -> bool:
        """True when the two differ in nothing but how much they hold."""
        return _kind(self.facts) == _kind(other.facts)


def _kind(facts: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in facts.items() if name not in ("batches", "samples")}


class Tracks:
    """All tracks of a process, found by loader or by iterator."""

    def __init__(
        self, describe: Callable[[Any], dict[str, Any]], copy: Callable[[Any], Any]
    ) -> None:
        """`describe` gives what a loader says of itself, `copy` one that can stand in for it."""
        self._describe = describe
        self._copy = copy
        self._of_loader: weakref.WeakKeyDictionary[Any, Track] = weakref.WeakKeyDictionary()
        self._of_iterator: weakref.WeakKeyDictionary[Any, Track] = weakref.WeakKeyDictionary()
        self._all: list[tuple[Track, weakref.ref[Any]]] = []

    def follow(self, loader: Any, iterator: Any, *, learns: bool) -> Track:
        """The track of a loader that `iter()` was just called on.

        `learns` says whether gradients are on: a training loader does not take the place of a
        validation loader, alike as they may be. Raises TypeError for what can't be followed.
        """
        track = self._of_loader.get(loader) or self._successor(loader, learns)
        self._of_loader[loader] = track
        self._of_iterator[iterator] = track
        return track

    def of_iterator(self, iterator: Any) -> Track | None:
        """The track that an iterator belongs to; None for one that is not followed."""
        return self._of_iterator.get(iterator)

    def _successor(self, loader: Any, learns: bool) -> Track:
        facts = self._describe(loader)
        for place, (track, origin) in enumerate(self._all):
            if origin() is None and track.facts == facts and track.learns == learns:
                track.loader = self._copy(loader)
                self._all[place] = (track, weakref.ref(loader))
                return track
        track = Track(self._copy(loader), facts)
        track.learns = learns
        self._all.append((track, weakref.ref(loader)))
        return track
