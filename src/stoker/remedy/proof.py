"""What the trials of a loader's remedies have shown so far, and which way comes next; pure.

First all remedies are tried together. Where they are kept, each of several is tried against the
others without it: what does not help is not hidden by what does. Behind that the steps are watched,
and all is tried again where they become slower than the script's own were.
"""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from stoker.remedy.apply import Plan
from stoker.remedy.filling import Filling
from stoker.remedy.orders import Orders
from stoker.remedy.request import Request
from stoker.remedy.staging import HELD
from stoker.remedy.trial import NO_LOSS, WORTH, Found, Trial, Way

# One remedy of several is tried by itself as long as a window of that takes no longer.
_DEAREST_WINDOW_S = 30.0
# Steps are watched in stretches of so many windows of a trial, and no fewer steps than that.
_WATCHED_WINDOWS, _WATCHED_STEPS = 10, 100
# Left out of each are its longest steps, in which a script has saved its weights, say.
_LONGEST_SHARE = 0.02
_SLOW_STRETCHES = 2  # in a row before the remedies are tried again


@dataclass(frozen=True)
class Kept:
    """All remedies together help."""

    found: Found


@dataclass(frozen=True)
class Useless:
    """They don't."""

    found: Found


@dataclass(frozen=True)
class Dropped:
    """This one doesn't: as fast without it."""

    request: Request
    found: Found


@dataclass(frozen=True)
class Doubted:
    """Steps with the remedies have become slower than the script's own were: tried once more."""

    step_s: float


Verdict = Kept | Useless | Dropped | Doubted

# A trial of one remedy compares all of them with the others alone.
_SIDES = {Way.REMEDIED: Way.REMEDIED, Way.PARED: Way.OWN}


class Proof:
    """The trials of one loader, and of those like it that a script makes later."""

    def __init__(self, trial: Trial, filling: Filling | None = None) -> None:
        """`filling`: of the caches among the remedies."""
        trial.is_filling = filling is not None
        self._trial = trial
        self._doubtful: deque[Request] = deque()
        self._tried: set[Request] = set()
        self._filling = filling
        self._paring: Trial | None = None
        self._watch: Watch | None = None
        self._watched_s = _WATCHED_WINDOWS * trial.window_s
        self.dropped: set[Request] = set()
        self.has_found = False  # a verdict on all remedies, be it the first of several

    @classmethod
    def of(cls, plan: Plan, orders: Orders, *, samples: int | None, batches: int | None) -> Proof:
        """Of these remedies. `samples` of the data set, `batches` of an epoch; None where it has no
        length.
        """
        settings, own = plan.settings, plan.subject.settings
        fills = any(layer.held() is not None for layer in settings.layers)
        return cls(
            Trial(
                baseline_s=orders.inside_s,
                depth=settings.depth + (HELD if settings.is_fed else 0),
                window_s=orders.window_s,
                # A script without workers starts none at an epoch: no time is lost there.
                is_about_epochs=settings.persistent and own.workers > 0 and not own.persistent,
            ),
            Filling(samples, batches) if fills else None,
        )

    @property
    def way(self) -> Way:
        """How the next batches should be loaded."""
        if self._paring is None:
            return self._trial.way
        return Way.REMEDIED if self._paring.way is Way.REMEDIED else Way.PARED

    @property
    def left_out(self) -> Request | None:
        """The remedy that `Way.PARED` does without; None while none is on trial."""
        return self._doubtful[0] if self._paring is not None else None

    @property
    def is_at_rest(self) -> bool:
        """True while no other way is to come than this one."""
        return self._trial.found is not None and self._paring is None

    @property
    def own_steps(self) -> list[float]:
        """Steps under the script's own settings, as far as they were seen."""
        return self._trial.own_steps

    @property
    def lost_s(self) -> float:
        """What a step with the kept remedies takes longer than without them, if that is beyond what
        two stretches differ by.
        """
        found, usual = self._trial.found, self._usual_s
        if found is None or usual is None or found.remedied_s <= (1 + WORTH) * usual:
            return 0.0
        return found.remedied_s - usual

    @property
    def is_filling(self) -> bool:
        """True while caches have not had their chance."""
        return self._filling is not None

    def filled(self, samples: int, held: int | None) -> None:
        """A batch of so many samples came through the caches, which hold so much by now; None: they
        take in nothing any more.
        """
        if self._filling is None or self._trial.found is not None:
            return
        if held is not None:
            self._filling.given(samples, held)
        if held is None or self._filling.is_over:
            self._filling = None
            self._trial.filled()

    def step(self, way: Way, seconds: float) -> Verdict | None:
        """One step of the script, from batch to batch, under that way."""
        if self._paring is not None:
            return self._pared(self._paring, way, seconds)
        if self.is_at_rest:
            return self._watched(way, seconds)
        self._trial.step(way, seconds)
        found = self._trial.found
        if found is None:
            return None
        self.has_found = True
        if not found.is_kept:
            return Useless(found)
        self._next()
        return Kept(found)

    def doubt(self, requests: Iterable[Request]) -> None:
        """Behind `Kept` or `Dropped`: each of these the others can do without, and it is tried."""
        found, depth, least = self._trial.found, self._trial.depth, self._trial.least_steps
        if found is None or found.remedied_s * (depth + least) > _DEAREST_WINDOW_S:
            return
        self._doubtful = deque(one for one in requests if one not in self._tried)
        self._next()

    # -- behind the first verdict ------------------------------------------------------------------

    def _next(self) -> None:
        trial = self._trial
        self._paring = None
        if self._doubtful:
            self._paring = Trial(
                depth=trial.depth,
                own_depth=trial.depth,
                window_s=trial.window_s,
                begins_with=Way.REMEDIED,
            )
        elif self._usual_s is not None:
            self._watch = Watch(self._usual_s, self._watched_s)

    def _pared(self, paring: Trial, way: Way, seconds: float) -> Verdict | None:
        if way not in _SIDES:
            return None
        paring.step(_SIDES[way], seconds)
        if paring.found is None:
            return None
        request = self._doubtful.popleft()
        self._tried.add(request)
        self._next()
        if paring.found.is_kept:
            return None
        self.dropped.add(request)
        return Dropped(request, paring.found)

    def _watched(self, way: Way, seconds: float) -> Verdict | None:
        if way is not Way.REMEDIED or self._watch is None or not self._watch.step(seconds):
            return None
        step_s, trial = self._watch.step_s, self._trial
        self._watch = None
        self._watched_s *= 2  # a training whose steps grow by themselves is asked ever more rarely
        self._trial = Trial(
            depth=trial.depth,
            is_about_epochs=trial.is_about_epochs,
            window_s=trial.window_s,
            own_steps=trial.own_steps,
        )
        return Doubted(step_s)

    @property
    def _usual_s(self) -> float | None:
        """A step under the script's own settings, as the trial has seen it, or the diagnosis."""
        found = self._trial.found
        if found is not None and found.own_s is not None:
            return found.own_s
        return self._trial.baseline_s


class Watch:
    """Steps behind a verdict, compared with what the script's own took."""

    def __init__(self, own_s: float, stretch_s: float) -> None:
        self._own_s = own_s
        self._stretch_s = stretch_s
        self._steps: list[float] = []
        self._sum_s = 0.0
        self._slow = 0
        self.step_s = 0.0  # the mean step of the last stretch

    def step(self, seconds: float) -> bool:
        """One more; True when the steps have been slower for long."""
        self._steps.append(seconds)
        self._sum_s += seconds
        if len(self._steps) < _WATCHED_STEPS or self._sum_s < self._stretch_s:
            return False
        usual = sorted(self._steps)[: round((1 - _LONGEST_SHARE) * len(self._steps))]
        self.step_s = statistics.fmean(usual)
        self._slow = self._slow + 1 if self.step_s > (1 + NO_LOSS) * self._own_s else 0
        self._steps, self._sum_s = [], 0.0
        return self._slow >= _SLOW_STRETCHES
