"""The next batches taken from the workers while the script's step runs: `stoker.loader.feed`.

What the script does on its own thread stays there: the sampler is read where a batch is asked for,
further than the feeding thread can come until the next one is. Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from stoker import clocks
from stoker.loader.feed import FeedIterator
from stoker.remedy.indices import Indices

# One batch lies ready while the script has another, and a third waits for its place: more would
# only hold memory.
_DEPTH = 1
HELD = _DEPTH + 1
# torch looks at its workers every five seconds.
_LEAVE_S = 6.0


class Early(Protocol):
    """Begins the copies of a batch that is fetched early."""

    def begin(self, batch: Any) -> None:
        """Copy what the script is known to copy."""
        ...


class EarlyLane:
    """A lane on which the batch stays the host's: the script asks for its copies by itself."""

    def __init__(self, early: Early) -> None:
        self._early = early

    def send(self, batch: Any) -> Any:
        """Begin the copies."""
        self._early.begin(batch)
        return batch

    def receive(self, sent: Any) -> Any:
        """The batch, as the script's own loader gives it."""
        return sent


class Fed(Iterator[Any]):
    """The batches of an iterator, taken ahead."""

    def __init__(self, inner: Iterator[Any], indices: Indices, early: Early, *, lead: int) -> None:
        """`lead`: entries that `inner` takes ahead; they are pulled on the script's thread."""
        self.inner = inner  # whoever ends the workers finds them there
        self._indices = indices
        self._lead = lead
        indices.pull_ahead(lead)
        self._batches = FeedIterator(inner, EarlyLane(early), _DEPTH)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        self._indices.pull_ahead(self._lead)
        return next(self._batches)

    def close(self) -> None:
        """End the thread, whose batches are lost: nothing is taken from the sampler any more."""
        self._batches.close()

    def leave(self) -> bool:
        """The same where nobody goes on with these indices: wait for a stuck worker only so long.
        True when the thread has ended.
        """
        began = clocks.wall_s()
        self._batches.close(_LEAVE_S)
        return clocks.wall_s() - began < _LEAVE_S
