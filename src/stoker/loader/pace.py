"""How many threads and how many batches ahead: decided from what the last stretch showed.

A pure state machine: it starts nothing and reads no clock. It begins at once with what it is
given, so that trying never delays the first batch.
"""

from __future__ import annotations

from typing import NamedTuple

# Less waiting than this is what a wake-up costs, and not worth a thread.
_WAITED_SHARE = 0.02
# Above this the makers stood still for lack of room: more of them would stand still too.
_BLOCKED_SHARE = 0.10
# A further thread must bring this much, or it is taken back: below it, it costs more CPU than
# it gives (two threads of a memory-bound gather give 1.25 times one).
_WORTH_IT = 1.05
# A stretch long enough that one late wake-up does not decide.
_STRETCH_S = 0.25
_STRETCH_BATCHES = 8


class Limits(NamedTuple):
    """What may be used: threads and batches ahead, from and up to."""

    threads: int
    most_threads: int
    depth: int
    most_depth: int


class Pace:
    """Threads and depth of a loader, better after every stretch until neither helps."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.threads = limits.threads
        self.depth = limits.depth
        self._before: float | None = None  # samples a second before the last thread came
        self._no_more_threads = False
        self._clear()

    def observe(self, samples: int, *, period_s: float, waited_s: float, blocked_s: float) -> bool:
        """Note one batch: its period, how long the loop waited for it, and how long threads had
        no room, summed over them. True when threads or depth changed.
        """
        self._batches += 1
        self._samples += samples
        self._period_s += period_s
        self._waited_s += waited_s
        self._blocked_s += blocked_s
        if self._batches < _STRETCH_BATCHES or self._period_s < _STRETCH_S:
            return False
        was = self.threads, self.depth
        self._decide()
        self._clear()
        return was != (self.threads, self.depth)

    def _decide(self) -> None:
        rate = self._samples / self._period_s
        if self._before is not None:
            if rate < self._before * _WORTH_IT:
                self.threads -= 1
                self._no_more_threads = True
            self._before = None
        elif self._waited_s > _WAITED_SHARE * self._period_s:
            if self._blocked_s > _BLOCKED_SHARE * self._period_s * self.threads:
                self.depth = min(self.depth + 1, self._limits.most_depth)
            elif self.threads < self._limits.most_threads and not self._no_more_threads:
                self._before = rate
                self.threads += 1

    def _clear(self) -> None:
        self._batches = self._samples = 0
        self._period_s = self._waited_s = self._blocked_s = 0.0
