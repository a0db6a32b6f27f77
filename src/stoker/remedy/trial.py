"""Whether the remedies help, judged from the script's own steps; pure, without a clock.

Windows of steps under the script's own settings and under the remedies are compared. With a step
time from a diagnosis the remedies go first, and the own settings only if these are no faster.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum


class Way(Enum):
    """How batches are loaded."""

    OWN = "own"
    REMEDIED = "remedied"


# A gain below this is within what two stretches of one run differ by.
_WORTH = 0.02
# Where the gain is not in the step (persistent workers) the step may not be slower than this.
_NO_LOSS = 0.05
# A window: enough steps for rounds of several workers, and not more of a slow loop than needed.
_LEAST_STEPS = 12
WINDOW_S = 2.0
_MOST_STEPS = 100
# First steps of a process: libraries tune themselves, compile and warm up.
_WARM_UP = 4
_ROUNDS = 2  # windows of each way before the verdict when the first pair leaves it open


@dataclass(frozen=True)
class Window:
    """Seconds of the steps of one stretch."""

    way: Way
    steps: tuple[float, ...]

    @property
    def mean_s(self) -> float:
        """Mean step."""
        return statistics.fmean(self.steps)


@dataclass(frozen=True)
class Found:
    """The verdict and what it rests on: mean steps, where measured here."""

    is_kept: bool
    own_s: float | None
    remedied_s: float


@dataclass
class Trial:
    """Says which way comes next, from the steps so far."""

    baseline_s: float | None = None
    depth: int = 0  # batches that may lie ready: a fuller queue than later flatters a window
    is_about_epochs: bool = False  # the gain is expected between epochs
    window_s: float = WINDOW_S
    windows: list[Window] = field(default_factory=list)
    found: Found | None = None
    _open: list[float] = field(default_factory=list)
    _skipped: int = 0
    _way: Way = field(init=False)

    def __post_init__(self) -> None:
        self._way = Way.OWN if self.baseline_s is None else Way.REMEDIED

    @property
    def way(self) -> Way:
        """How the next batches should be loaded."""
        if self.found is not None:
            return Way.REMEDIED if self.found.is_kept else Way.OWN
        return self._way

    def step(self, way: Way, seconds: float) -> None:
        """One step of the script, from batch to batch, under that way."""
        if self.found is not None or way is not self._way:
            return  # what was on its way when the way changed
        warm_up = _WARM_UP if not self.windows else 2
        if self._skipped < warm_up + (self.depth if way is Way.REMEDIED else 0):
            self._skipped += 1
            return
        self._open.append(seconds)
        if not self._is_full():
            return
        self.windows.append(Window(way, tuple(self._open)))
        self._open, self._skipped = [], 0
        self._judge()

    def _is_full(self) -> bool:
        steps = len(self._open)
        least = max(_LEAST_STEPS, 2 * self.depth)
        most = min((len(window.steps) for window in self.windows), default=_MOST_STEPS)
        return steps >= least and (sum(self._open) >= self.window_s or steps >= most)

    @property
    def own_s(self) -> float | None:
        """The mean step under the own settings, as far as it was seen."""
        own = self._all(Way.OWN)
        return statistics.fmean(own) if own else None

    def _judge(self) -> None:
        own = self._all(Way.OWN)
        remedied = self._all(Way.REMEDIED)
        if remedied and not own:
            mean = statistics.fmean(remedied)
            baseline = self.baseline_s
            if baseline is not None and mean <= (1 - _WORTH) * baseline:
                self.found = Found(is_kept=True, own_s=None, remedied_s=mean)
            else:
                self._way = Way.OWN
            return
        if own and not remedied:
            self._way = Way.REMEDIED
            return
        self._compare(own, remedied)

    def _compare(self, own: Sequence[float], remedied: Sequence[float]) -> None:
        before, after = statistics.fmean(own), statistics.fmean(remedied)
        limit = before * (1 + _NO_LOSS if self.is_about_epochs else 1 - _WORTH)
        pairs = min(sum(w.way is way for w in self.windows) for way in Way)
        doubt = 2 * math.hypot(_error(own), _error(remedied))
        # What is slower gets no second stretch, however unsure: it is at the training's expense.
        is_slower = after > max(before, limit)
        if is_slower or abs(after - limit) > doubt or pairs >= _ROUNDS:
            self.found = Found(is_kept=after <= limit, own_s=before, remedied_s=after)
            return
        counts = {way: sum(w.way is way for w in self.windows) for way in Way}
        self._way = Way.OWN if counts[Way.OWN] <= counts[Way.REMEDIED] else Way.REMEDIED

    def _all(self, way: Way) -> list[float]:
        return [step for window in self.windows if window.way is way for step in window.steps]


def _error(steps: Sequence[float]) -> float:
    """The standard error of a mean step; infinite for one."""
    if len(steps) < 2:
        return math.inf
    return statistics.stdev(steps) / math.sqrt(len(steps))
