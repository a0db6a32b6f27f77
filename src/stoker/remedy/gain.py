"""How many times as fast a run became, with the interval that its own steps justify; pure.

Steps are no independent numbers: workers deliver in rounds, and one part of a run is not like the
next. So the means of stretches are compared, each a whole round and of a long run far longer.
Standard library only.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass

# Stretches that are kept apart: as many, or half of them, however long a run is.
_MOST = 128
# Student's factor of a 95 % interval for 1, 2, 3, … degrees of freedom, and about that of more.
_STUDENT = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23)
_STUDENT_END, _STUDENT_SLOPE = 1.96, 2.6


@dataclass(frozen=True)
class Mean:
    """A mean step in seconds, half of its 95 % interval (None: too few to tell), of how many."""

    seconds: float
    half_s: float | None
    count: int


@dataclass(frozen=True)
class Gain:
    """How many times as fast, and its 95 % interval; None where the steps were too few for one.
    `count`: of the steps without, or with remedies, whichever were fewer.
    """

    median: float
    low: float | None
    high: float | None
    count: int

    @property
    def is_open(self) -> bool:
        """True where it may be none at all."""
        return self.low is not None and self.high is not None and self.low <= 1.0 <= self.high

    @property
    def text(self) -> str:
        """The number with its interval."""
        if self.low is None or self.high is None:
            return f"{self.median:.2f}x, too few steps for an interval"
        return f"{self.median:.2f}x, {self.low:.2f}–{self.high:.2f}"


class Stretches:
    """Steps in the order in which they came, as sums of stretches of one length."""

    def __init__(self, steps: Iterable[float] = ()) -> None:
        self._sums: list[float] = []
        self._length = 1  # steps of a stretch; twice as many whenever the stretches are too many
        self._open_s = 0.0
        self._open = 0
        self.count = 0
        self.sum_s = 0.0
        for seconds in steps:
            self.add(seconds)

    def add(self, seconds: float) -> None:
        """One more step."""
        self.count += 1
        self.sum_s += seconds
        self._open += 1
        self._open_s += seconds
        if self._open < self._length:
            return
        self._sums.append(self._open_s)
        self._open, self._open_s = 0, 0.0
        if len(self._sums) == _MOST:
            self._sums = [a + b for a, b in zip(self._sums[::2], self._sums[1::2], strict=True)]
            self._length *= 2

    def mean(self, round_steps: int = 1) -> Mean | None:
        """Of all steps; None without any. `round_steps`: so many, of a round, are of one piece."""
        if not self.count:
            return None
        together = -(-round_steps // self._length)
        length = together * self._length
        whole = range(0, len(self._sums) - together + 1, together)
        means = [sum(self._sums[at : at + together]) / length for at in whole]
        half_s = None
        if len(means) > 1:
            half_s = _student(len(means) - 1) * statistics.stdev(means) / math.sqrt(len(means))
        return Mean(self.sum_s / self.count, half_s, self.count)


def gain(own: Mean, remedied: Mean) -> Gain | None:
    """Of a step with remedies over one without; None where either takes no time."""
    if min(own.seconds, remedied.seconds) <= 0:
        return None
    ratio, count = own.seconds / remedied.seconds, min(own.count, remedied.count)
    if own.half_s is None or remedied.half_s is None:
        return Gain(ratio, None, None, count)
    width = math.hypot(own.half_s / own.seconds, remedied.half_s / remedied.seconds)
    return Gain(ratio, ratio / (1 + width), ratio * (1 + width), count)


def _student(freedom: int) -> float:
    if freedom <= len(_STUDENT):
        return _STUDENT[freedom - 1]
    return _STUDENT_END + _STUDENT_SLOPE / freedom
