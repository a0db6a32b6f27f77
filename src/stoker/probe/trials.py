"""The schedule of `--try`: every candidate in turn with the loop as it is, until a gain is known.

Windows "B" and "V" as in the trial of a number of workers; each "V" stands between two "B", so
that what the machine does meanwhile strikes both alike. Chooses what to build on, greedily; who is
tied with whom is concluded later. Standard library only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from stoker.probe.legs import (
    FEWEST_ROUNDS,
    MAIN_SHARE,
    WANTED_HALF_WIDTH,
    Loop,
    Measured,
    Window,
    Windows,
    count_for,
    forecast_step,
    half_width_share,
    has_short_epochs,
    is_crowded,
    mean,
)
from stoker.probe.offers import Candidate, Offers, maker

# The time of all trials over that of the legs: a dozen candidates of a few dozen steps of 0.1 s.
TRY_SHARE = 2.0
# One side of one round: enough rounds of a few workers, and short against a drifting machine.
_WINDOW_S = 1.2
_MOST_STEPS = 24  # needed for the rounds of many workers
_ROUNDS = 2
# Rounds more, while time is left, for what may be the best and isn't known well enough to choose
# it: an interval wider than this has no promise, or soon none.
_MORE_ROUNDS = 4
_KNOWN = 0.1
_FEWEST_EDGES = 4  # beginnings of epochs, where the gain lies in them
# What is slower by a third is no choice, however wide the interval after a first round.
_HOPELESS = 0.75
# Gains this close to each other are one: the smaller change is built on.
_EQUAL = 0.03
_MOST_UPS = 3  # numbers of workers above the loop's own


@dataclass
class _Side:
    """One side of a pair: what its windows gave, put together."""

    periods: list[float] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    edges: list[float] = field(default_factory=list)
    _latest: Measured | None = None

    def add(self, measured: Measured) -> None:
        if measured is self._latest:
            return  # the window that ended a round also begins the next
        self._latest = measured
        self.periods += measured.periods
        self.waits += measured.wait
        self.edges += measured.edges

    def step_s(self, epoch: int | None) -> float:
        """A step, with its share of the beginning of an epoch of so many batches."""
        share = max(0.0, mean(self.edges) - mean(self.waits)) / epoch if epoch else 0.0
        return mean(self.periods) + share


@dataclass
class _Pair:
    """A candidate beside the loop as it is: what both have given so far."""

    candidate: Candidate
    own_workers: int
    own: _Side = field(default_factory=_Side)
    variant: _Side = field(default_factory=_Side)

    def gain(self, epoch: int | None) -> float:
        """How many times as fast; over whole epochs where both sides have seen one begin."""
        whole = epoch if self.own.edges and self.variant.edges else None
        return self.own.step_s(whole) / max(self.variant.step_s(whole), 1e-9)

    def doubt(self) -> float:
        """Half the 95 % interval of the gain, as a share of it, without the beginnings."""
        sides = ((self.own, self.own_workers), (self.variant, self.candidate.workers))
        return math.hypot(*(half_width_share(side.periods, max(1, n)) for side, n in sides))


class Trials:
    """A `legs.Tryout`."""

    def __init__(
        self,
        loop: Loop,
        offers: Callable[[], Offers | None],
        write: Callable[..., None],
        *,
        budget_s: float,
    ) -> None:
        """`offers` is asked when the legs are through; `budget_s` is that of the legs."""
        self._loop = loop
        self._make = offers
        self._write = write
        self._budget_s = budget_s
        self._until_s = 0.0
        self._period = 0.0
        self._forecast: dict[int, float] = {}
        self._epochs = 0  # that a window has to see
        self._own = Measured()  # the latest window of the loop as it is
        self._gains: dict[str, float] = {"": 1.0}
        self._workers = {"": loop.workers}
        self._pairs: list[_Pair] = []

    def __call__(self, periods: Mapping[int, float], *, period: float, step: float) -> Windows:
        """All candidates, best guesses first, within `TRY_SHARE` of the budget."""
        offers = self._make()
        if offers is None:
            self._write("note", text="nothing was tried: there is no DataLoader to be changed")
            return
        self._until_s = self._loop.elapsed_s() + TRY_SHARE * self._budget_s
        self._period = period
        self._forecast = {count: forecast_step(count, periods, step) for count in periods}
        self._epochs = int(has_short_epochs(self._loop, period, MAIN_SHARE * self._budget_s))
        self._own = yield self._own_window()
        yield from self._each(self._asked(lambda: self._first(offers.further(""))))
        base = self._best()
        counts = self._counts()
        yield from self._each(self._asked(lambda: offers.counts(base, counts)))
        base = self._best()
        further = self._asked(lambda: offers.further(base))
        yield from self._each(further)
        gained = [one.name for one in further if self._gain(one.name) > self._worth(base)]
        if len(gained) > 1:
            yield from self._each(self._asked(lambda: offers.together(gained)))
        yield from self._look_again()

    # -- which -------------------------------------------------------------------------------------

    def _first(self, single: Sequence[Candidate]) -> list[Candidate]:
        """What the legs have shown to be the place of a loss: the others build on it."""
        crowded = is_crowded(self._loop)
        return [
            one
            for one in single
            if (one.needs_epochs and self._epochs) or (one.thins_threads and crowded)
        ]

    def _counts(self) -> list[int]:
        """Other numbers of workers, more and fewer, the best guess first."""
        own, owned = self._loop.workers, max(1, round(self._loop.owned_cores))
        ups = [count for count in self._forecast if count > own] or [max(2 * own, owned)]
        ups.sort(key=self._promise)
        downs = [own // 2, 0] if own else [max(1, ups[0] // 2)]
        found = {*ups[:_MOST_UPS], *downs} - {own}
        return sorted(found, key=self._promise)

    def _promise(self, count: int) -> tuple[int, int]:
        """The shorter step first; of equal ones the fewer workers."""
        return round(self._guess(count) / max(self._period, 1e-9) / _EQUAL), count

    def _best(self) -> str:
        """What to build on: of the fastest the one with the fewest workers and changes."""
        most = max(self._gains.values())
        near = [name for name, gain in self._gains.items() if gain >= most * (1 - _EQUAL)]
        return min(near, key=lambda name: (name != "", self._workers[name], name.count(",")))

    def _gain(self, name: str) -> float:
        return self._gains.get(name, 0.0)

    def _worth(self, base: str) -> float:
        return self._gains[base] * (1 + _EQUAL)

    def _asked(self, ask: Callable[[], list[Candidate]]) -> list[Candidate]:
        """Candidates, written down before any is tried; a data set may raise anything."""
        try:
            found = [one for one in ask() if one.name not in self._gains]
        except Exception as error:  # noqa: BLE001 - no reason to end the script's examination
            self._write("note", text=f"choosing what to try failed: {error!r}")
            return []
        for one in found:
            refused = one.refused
            if not refused and one.needs_epochs and not self._epochs:
                refused = "epochs are too long here to see one begin"
            self._write("candidate", **asdict(one) | {"refused": refused})
        return [one for one in found if not one.refused]

    # -- one by one --------------------------------------------------------------------------------

    def _each(self, candidates: Sequence[Candidate]) -> Windows:
        for candidate in candidates:
            if candidate.name in self._gains or (candidate.needs_epochs and not self._epochs):
                continue
            if not self._can_begin(candidate):
                self._write("untried", name=candidate.name, why="no time was left for it")
                continue
            yield from self._one(candidate)
            self._loop.end_trial()

    def _one(self, candidate: Candidate) -> Windows:
        pair = _Pair(candidate, self._loop.workers)
        self._workers[candidate.name] = candidate.workers
        for _ in range(_ROUNDS):
            if not (yield from self._round(pair)):
                return
            if self._is_decided(pair) or not self._has_time(candidate):
                break
        self._pairs.append(pair)

    def _round(self, pair: _Pair) -> Generator[Window, Measured, bool]:
        """A window of the candidate between two of the loop as it is; False where it gave none."""
        pair.own.add(self._own)
        measured = yield self._variant_window(pair.candidate)
        if not measured.periods:
            return False  # it failed, or was too slow for a single step; the notes say which
        pair.variant.add(measured)
        self._own = yield self._own_window()
        pair.own.add(self._own)
        self._gains[pair.candidate.name] = pair.gain(
            self._loop.epoch_length if self._epochs else None
        )
        return True

    def _look_again(self) -> Windows:
        """The time that is left goes to who may be the best and is not known well enough."""
        for _ in range(_MORE_ROUNDS):
            pair = max(
                self._in_doubt(), key=lambda one: self._gain(one.candidate.name), default=None
            )
            if pair is None or not self._can_begin(pair.candidate):
                return
            if not (yield from self._round(pair)):
                self._pairs.remove(pair)
            self._loop.end_trial()

    def _in_doubt(self) -> list[_Pair]:
        most = max(self._gains.values())
        return [
            pair
            for pair in self._pairs
            if self._gain(pair.candidate.name) * (1 + min(1.0, pair.doubt())) > most
            and (pair.doubt() > _KNOWN or len(pair.variant.edges) < self._epochs * _FEWEST_EDGES)
        ]

    def _is_decided(self, pair: _Pair) -> bool:
        gain, doubt = self._gain(pair.candidate.name), pair.doubt()
        if gain < _HOPELESS:
            return True
        if self._epochs:
            return False  # a single beginning of an epoch tells little
        return doubt <= WANTED_HALF_WIDTH or gain * (1 + doubt) < 1 - WANTED_HALF_WIDTH

    def _can_begin(self, candidate: Candidate) -> bool:
        return self._loop.elapsed_s() + self._needed_s(candidate) <= self._until_s

    def _has_time(self, candidate: Candidate) -> bool:
        return self._loop.elapsed_s() + 2 * self._window_s(candidate.depth) <= self._until_s

    # -- windows -----------------------------------------------------------------------------------

    def _guess(self, count: int) -> float:
        """Seconds of a step with that many workers."""
        return self._forecast.get(count, self._period)

    def _steps(self, workers: int, period: float) -> int:
        least = min(_MOST_STEPS, FEWEST_ROUNDS * max(1, workers))
        return count_for(period, _WINDOW_S, least)

    def _own_window(self) -> Window:
        loop = self._loop
        steps, skip = self._steps(loop.workers, self._period), loop.depth + max(1, loop.workers)
        return self._window("B", steps, skip, Candidate(name="", workers=loop.workers))

    def _variant_window(self, candidate: Candidate) -> Window:
        period = min(self._guess(candidate.workers), self._period)
        steps = self._steps(candidate.workers, period)
        skip = candidate.depth + max(1, candidate.workers) + candidate.warm
        return self._window("V", steps, skip, candidate)

    def _window(self, leg: str, steps: int, skip: int, candidate: Candidate) -> Window:
        left, period = max(0.0, self._until_s - self._loop.elapsed_s()), self._period
        epochs_s = 2 * self._epochs * period * (self._loop.epoch_length or 0)
        # What comes too slowly is cut, and judged by the steps that there were.
        limit = 2 * (steps + skip) * period + epochs_s + self._loop.start_s(candidate.workers)
        return Window(
            leg,
            steps=steps,
            workers=candidate.workers,
            variant=candidate.name,
            skip=skip,
            epochs=self._epochs,
            limit_s=min(limit + 2 * _WINDOW_S, left + _WINDOW_S),
        )

    def _window_s(self, depth: int) -> float:
        """Seconds that a window of a candidate is thought to take."""
        steps = self._steps(self._loop.workers, self._period) + depth
        whole = self._epochs * (self._loop.epoch_length or 0)
        return max(steps, whole) * self._period

    def _needed_s(self, candidate: Candidate) -> float:
        """Seconds of a first round."""
        rest = self._loop.depth + candidate.warm
        return self._loop.start_s(candidate.workers) + 2 * self._window_s(candidate.depth + rest)


def asked_for(
    loop: Loop,
    offers: Callable[[], Offers | None],
    write: Callable[..., None],
    *,
    alone: bool,
    budget_s: float,
) -> Trials | None:
    """The trials of a loop; None where nothing was handed down, or where it is not `alone`."""
    if maker() is None:
        return None
    if not alone:
        write("note", text="nothing was tried: several processes train here together")
        return None
    return Trials(loop, offers, write, budget_s=budget_s)
