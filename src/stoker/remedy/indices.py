"""The script's own order of one epoch, handed to whatever loads it, one after the other.

Each entry of the sampler is pulled once, on the thread that asks, so the samples and their order
are the script's own whoever loads them. Standard library only.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from typing import Any


class Indices:
    """What the sampler gives in one epoch, and how far it was handed on and delivered."""

    def __init__(self, source: Iterator[Any]) -> None:
        self._source = source
        self._ahead: deque[Any] = deque()  # pulled, or taken back, and not handed on
        self._given: deque[Any] = deque()  # handed on, and not delivered
        self._is_closed = False
        self._has_ended = False
        self._lock = threading.RLock()

    @property
    def is_over(self) -> bool:
        """True when the sampler has ended and all that it gave was handed on."""
        return self._has_ended and not self._ahead

    @property
    def in_flight(self) -> tuple[Any, ...]:
        """What was handed on and not delivered, the oldest first."""
        return tuple(self._given)

    def take(self) -> Any:
        """The next entry. Raises StopIteration at the end, and while closed."""
        with self._lock:
            if self._is_closed:
                raise StopIteration
            entry = self._ahead.popleft() if self._ahead else self._pull()
            self._given.append(entry)
            return entry

    def pull_ahead(self, count: int) -> None:
        """Have so many entries in hand, for a thread that takes them later."""
        with self._lock:
            while len(self._ahead) < count and not self._has_ended:
                try:
                    self._ahead.append(self._pull())
                except StopIteration:
                    return

    def delivered(self) -> None:
        """The oldest entry in flight has reached the script."""
        with self._lock:
            if self._given:
                self._given.popleft()

    def close(self) -> None:
        """Give no more for now: who loads comes to its end."""
        with self._lock:
            self._is_closed = True

    def reopen(self) -> None:
        """Go on giving; entries in flight that nobody will deliver come first."""
        with self._lock:
            self._ahead.extendleft(reversed(self._given))
            self._given.clear()
            self._is_closed = False

    def moved(self) -> Indices:
        """What `reopen` would go on with, in other hands: these give nothing more, whoever still
        takes from them.
        """
        with self._lock:
            self.reopen()
            others = Indices(self._source)
            others._ahead, self._ahead = self._ahead, deque()
            others._has_ended, self._has_ended = self._has_ended, True
            self._is_closed = True
        return others

    def _pull(self) -> Any:
        try:
            return next(self._source)
        except StopIteration:
            self._has_ended = True
            raise


class Tap:
    """The sampler as a loader sees it: whatever `Indices` it is connected to.

    An iterator of a loader stays with those that it began with: one that is stuck, and goes on when
    the next has begun, takes nothing of what is that one's.
    """

    def __init__(self, length: int | None) -> None:
        self._length = length
        self._indices: Indices | None = None

    def connect(self, indices: Indices) -> None:
        """Take from these from now on."""
        self._indices = indices

    def __iter__(self) -> Iterator[Any]:
        return _Taking(self._indices) if self._indices is not None else iter(())

    def __len__(self) -> int:
        if self._length is None:
            raise TypeError("the script's sampler has no length")
        return self._length


class _Taking(Iterator[Any]):
    """All that these give; asked again behind a pause they may go on."""

    def __init__(self, indices: Indices) -> None:
        self._indices = indices

    def __next__(self) -> Any:
        return self._indices.take()
