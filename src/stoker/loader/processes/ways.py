"""Who makes which part of a batch: as torch does it, or whoever is free.

What torch's workers would make depends on the worker only where random numbers are drawn or its
number is asked for. The first batches go torch's way, and show it; then, where it can't be seen,
samples go to whichever worker is free. A pure state machine, kept over epochs.
"""

from __future__ import annotations

from typing import Any

# A task costs some 15 µs on either side: samples that take less than this come several at once.
_TASK_NS = 400_000
# So that the last samples of a batch are shared too.
_PARTS_A_WORKER = 4


class Ways:
    """What is known about the work so far. `is_free`: it is known to be any worker's."""

    def __init__(self, workers: int, *, is_free: bool = False) -> None:
        self.workers = workers
        self._replied: set[int] = set()
        self._sample_ns = 0.0
        self.is_drawn = False
        self.is_free = is_free
        self.layout: Any = None
        self._has_misfits = False

    @property
    def sentence(self) -> str:
        """How it is, for people."""
        if self.is_drawn:
            return "whole batches, as torch gives them out, because random numbers are drawn"
        if self.has_rows:
            return "samples go to whichever worker is free"
        if self.is_free:
            return "whole batches go to whichever worker is free"
        return "not known yet"

    @property
    def has_rows(self) -> bool:
        """True when each sample may be made by another worker."""
        return self.is_free and self.layout is not None and not self._has_misfits

    def replied(self, worker: int, count: int, spent_ns: int, layout: Any) -> bool:
        """Note a whole batch; negative time: it was drawn for. True when the layout is new."""
        self.noticed(spent_ns)
        self._sample_ns = abs(spent_ns) / max(count, 1)
        self._replied.add(worker)
        is_new = self.layout is None and layout is not None
        if is_new:
            self.layout = layout
        if len(self._replied) == self.workers and not self.is_drawn:
            self.is_free = True
        return is_new

    def noticed(self, spent_ns: int) -> None:
        """Note from any answer whether random numbers were drawn."""
        if spent_ns < 0:
            self.is_drawn, self.is_free = True, False

    def misfitted(self) -> None:
        """A sample was unlike the first: no more rows."""
        self._has_misfits = True

    def chunk(self, count: int, depth: int, capacity: int) -> int:
        """Samples of one task. `capacity`: the records that fit the pipes."""
        least = -(-count * depth * 2 // capacity)  # the tasks of all batches have to find room
        cheap = int(_TASK_NS / self._sample_ns) if self._sample_ns else 1
        fair = count // (_PARTS_A_WORKER * self.workers)
        return max(1, least, min(cheap, fair))
