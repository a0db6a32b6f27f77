"""Whether the remedies help, judged from the script's own steps; pure, without a clock.

Windows of steps under the script's own settings and under the remedies are compared. With a step
time from a diagnosis the remedies go first, and the own settings only if these are no faster. While
a cache is being filled only a great loss counts; then the comparison begins.
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
    PARED = "pared"  # with the remedies but for one, which is on trial


# A gain below this is within what two stretches of one run differ by.
WORTH = 0.02
# Where the gain is not in the step (persistent workers) the step may not be slower than this.
NO_LOSS = 0.05
# While caches fill a step may take so many times as long, but for two windows in a row: the first
# samples of each worker are made twice.
_MOST_WHILE_FILLING = 1.5
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

    baseline_s: float | None = None  # of a step within an epoch
    depth: int = 0  # batches that may lie ready: a fuller queue than later flatters a window
    own_depth: int = 0  # the same for the own way
    is_about_epochs: bool = False  # the gain is expected between epochs
    is_filling: bool = False  # caches have not had their chance yet
    window_s: float = WINDOW_S
    begins_with: Way | None = None  # None: the remedies where there is a baseline
    own_steps: list[float] = field(default_factory=list)  # of all windows of the own way so far
    windows: list[Window] = field(default_factory=list)
    found: Found | None = None
    _open: list[float] = field(default_factory=list)
    _skipped: int = 0
    _way: Way = field(init=False)

    def __post_init__(self) -> None:
        usual = Way.OWN if self.baseline_s is None else Way.REMEDIED
        self._way = self.begins_with or usual

    def filled(self) -> None:
        """The caches have had their chance: from here on windows count, of either way."""
        self.is_filling = False
        self.windows.clear()
        self._open, self._skipped = [], 0
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
        if self._skipped < warm_up + (self.depth if way is Way.REMEDIED else self.own_depth):
            self._skipped += 1
            return
        self._open.append(seconds)
        if not self._is_full():
            return
        self.windows.append(Window(way, tuple(self._open)))
        if way is Way.OWN:
            self.own_steps += self._open
        self._open, self._skipped = [], 0
        self._judge()

    @property
    def least_steps(self) -> int:
        """Of a window."""
        return max(_LEAST_STEPS, 2 * self.depth)

    def _is_full(self) -> bool:
        steps = len(self._open)
        most = min((len(window.steps) for window in self.windows), default=_MOST_STEPS)
        return steps >= self.least_steps and (sum(self._open) >= self.window_s or steps >= most)

    @property
    def own_s(self) -> float | None:
        """The mean step under the own settings, as far as it was seen."""
        return statistics.fmean(self.own_steps) if self.own_steps else None

    def _judge(self) -> None:
        if self.is_filling:
            self._judge_filling()
            return
        own = self._all(Way.OWN)
        remedied = self._all(Way.REMEDIED)
        if remedied and not own:
            mean = statistics.fmean(remedied)
            baseline = self.baseline_s
            if baseline is not None and mean <= self._limit(baseline):
                self.found = Found(is_kept=True, own_s=None, remedied_s=mean)
            else:
                self._way = Way.OWN
            return
        if own and not remedied:
            self._way = Way.REMEDIED
            return
        self._compare(own, remedied)

    def _judge_filling(self) -> None:
        own_s, last = self.own_s, self.windows[-2:]
        usual = self.baseline_s if own_s is None else own_s
        limit = math.inf if usual is None else _MOST_WHILE_FILLING * usual
        is_bad = [window.way is Way.REMEDIED and window.mean_s > limit for window in last]
        if is_bad != [True, True]:
            self._way = Way.REMEDIED
            self.windows = [*(w for w in self.windows[:-1] if w.way is Way.OWN), last[-1]]
        elif own_s is None:
            self._way = Way.OWN  # another hour than that of the diagnosis
        else:
            self.found = Found(is_kept=False, own_s=own_s, remedied_s=last[-1].mean_s)

    def _compare(self, own: Sequence[float], remedied: Sequence[float]) -> None:
        before, after = statistics.fmean(own), statistics.fmean(remedied)
        limit = self._limit(before)
        counts = {way: sum(w.way is way for w in self.windows) for way in (Way.OWN, Way.REMEDIED)}
        doubt = 2 * math.hypot(_error(own), _error(remedied))
        # What is slower gets no second stretch, however unsure: it is at the training's expense.
        is_slower = after > max(before, limit)
        if is_slower or abs(after - limit) > doubt or min(counts.values()) >= _ROUNDS:
            self.found = Found(is_kept=after <= limit, own_s=before, remedied_s=after)
            return
        self._way = Way.OWN if counts[Way.OWN] <= counts[Way.REMEDIED] else Way.REMEDIED

    def _limit(self, own_s: float) -> float:
        """The longest step that is worth it, beside one of the own way."""
        return own_s * (1 + NO_LOSS if self.is_about_epochs else 1 - WORTH)

    def _all(self, way: Way) -> list[float]:
        return [step for window in self.windows if window.way is way for step in window.steps]


def _error(steps: Sequence[float]) -> float:
    """The standard error of a mean step; infinite for one."""
    if len(steps) < 2:
        return math.inf
    return statistics.stdev(steps) / math.sqrt(len(steps))
