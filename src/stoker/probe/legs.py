"""The schedule: which leg comes next, for how long, and when enough has been measured.

A plan is a generator. It yields a Window, the loop runs it step by step and sends back what it
measured; between two windows the plan may drain loaders on the spot. It touches neither torch nor a
clock, so tests run it on a fake loop. Standard library only.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

WANTED_HALF_WIDTH = 0.03  # of the mean: the legs are done
# A mean of fewer rounds has no usable interval: with 6 the t-quantile is still 2.6 against 1.96.
FEWEST_ROUNDS = 6
# Share of the budget for the interleaved legs; the rest is for the legs that run once.
MAIN_SHARE = 0.7
# Threads of a worker that never compute: its queues' feeders and the watchers of its libraries.
USUAL_THREADS = 4
# A trial takes this share at the most; it is on top of the budget's other legs.
TRIAL_SHARE = 0.25
APART_SHARE = 0.2  # at most, for more and more workers before the legs have settled
ONCE_SHARE = 0.12  # at least, for the examinations of single samples and files
_WORTH_A_TRIAL = 1.1
# Legs of which a device says how long it had nothing to do: the script's own steps, and its alone.
DEVICE_LEGS = frozenset("RD")
# Longest stretch spent in one window, so that every leg is met again before the machine has moved.
WINDOW_S = 2.5
WARMUP_S = 1.0
UNKNOWN_STEPS = 1 << 30  # more than any window has
# Twice the workers that give less than this much have met an end: of cores, slots or bandwidth.
_STILL_HELPS = 1.25
# Fewer that take this share of the time or less: then it is asked which stage has the rest.
_FEWER_HELP = 0.85
_MOST_DOUBLINGS = 8  # times the script's own workers
# Single batches that tell how unevenly a loader delivers: of one in ten slow ones 20.
_UNEVEN_BATCHES = 200
_UNEVEN = 1.05
# On a core for so much of a step the host may be what the device waits for.
_LAUNCHING = 0.5
_SIZE_ROUNDS = 3
WARMUP_STEPS = 8


@dataclass(frozen=True)
class Window:
    """So many steps of one leg; `skip` of them at the start are run but not measured.

    "B" is the loop as it is and "V" the loop on batches of a loader with `workers` workers: the two
    sides of a paired trial. `variant` names what else is changed of that loader; of the kept
    batches of "F" it says whether they are served whole or halved.
    """

    leg: str
    steps: int
    workers: int = 0
    variant: str = ""
    skip: int = 0
    epochs: int = 0  # go on until this many whole epochs were seen too
    limit_s: float = math.inf

    def left(self, run: int, boundaries: int) -> int:
        """Steps until everything was seen that it is for; 0 or less when it was."""
        return UNKNOWN_STEPS if boundaries < self.epochs else self.steps + self.skip - run


@dataclass
class Measured:
    """What a window gave: seconds waited and computed per batch, skipped ones left out."""

    wait: list[float] = field(default_factory=list)
    compute: list[float] = field(default_factory=list)
    drained: list[float] = field(default_factory=list)
    edges: list[float] = field(default_factory=list)  # waits for first batches of an epoch
    boundaries: int = 0
    inside: dict[str, Any] | None = None  # leg P: what the stack samples say

    @property
    def periods(self) -> list[float]:
        """Seconds per batch."""
        return [w + c for w, c in zip(self.wait, self.compute, strict=True)]


class Loop(Protocol):
    """What the plan may ask of the loop it is run in."""

    workers: int
    depth: int  # batches the loader may hold ready: workers × prefetch factor
    epoch_length: int | None
    has_device: bool
    owned_cores: float
    wants_stages: bool

    @property
    def kept_round(self) -> int:
        """Kept batches after which their sizes repeat; 1 where they hardly differ."""
        ...

    @property
    def can_halve(self) -> bool:
        """Whether half a batch may be served in place of a whole one."""
        ...

    @property
    def native_threads(self) -> int:
        """Threads of all workers together, as seen in leg L."""
        ...

    def elapsed_s(self) -> float:
        """Seconds since the plan began."""
        ...

    def start_s(self, workers: int) -> float:
        """Seconds that it takes to start so many workers, as far as was seen; 0 for none."""
        ...

    def drain(self, what: str, workers: int, *, batches: int, limit_s: float) -> list[float]:
        """Periods of batches from a loader of that many workers, the ramp left out.

        The limit counts from the end of the ramp. `what` is "L" (the script's loader), "S"
        (the same with its stages timed), "T" (the same, one native thread a worker) or "N" (a
        data set without work).
        """
        ...

    def end_trial(self) -> None:
        """The loader of the "V" windows is needed no longer."""
        ...

    def once(self, limit_s: float) -> None:
        """The examinations that need no loop, within the time."""
        ...


Plan = Generator[Window, Measured, str]
# Asked for one by one, each answered by what was measured in it.
Windows = Generator[Window, Measured, None]


class Tryout(Protocol):
    """What is tried when the legs are through, in place of the trial of a number of workers."""

    def __call__(self, periods: Mapping[int, float], *, period: float, step: float) -> Windows:
        """Windows in turn. `periods`: of the loader alone, for each number of workers."""
        ...


def half_width_share(values: Sequence[float], block: int) -> float:
    """Half the 95 % interval of the mean over rounds of `block` values, as a share of the mean."""
    rounds = [sum(values[i : i + block]) / block for i in range(0, len(values) - block + 1, block)]
    n = len(rounds)
    if n < FEWEST_ROUNDS:
        return math.inf
    mean = sum(rounds) / n
    variance = sum((r - mean) ** 2 for r in rounds) / (n - 1)
    return 1.96 * math.sqrt(variance / n) / mean if mean > 0 else math.inf


def count_for(period: float, seconds: float, least: int) -> int:
    """Batches that fill the seconds, within reason."""
    return max(least, min(1000, round(seconds / max(period, 1e-6))))


def mean(values: Sequence[float]) -> float:
    """The mean; 0 of nothing."""
    return sum(values) / len(values) if values else 0.0


class _Kept:
    """Everything measured so far, leg by leg."""

    def __init__(self, block: int) -> None:
        self.block = block
        self.cycles = 0
        self.values: dict[str, list[float]] = {}

    def add(self, leg: str, values: Sequence[float]) -> None:
        self.values.setdefault(leg, []).extend(values)

    def settled(self) -> bool:
        """True when every leg met so far is within the wanted interval."""
        return all(
            half_width_share(values, self.block) <= WANTED_HALF_WIDTH
            for values in self.values.values()
        )

    def is_uneven(self) -> bool:
        """True where the loader is fast enough on average, and yet the loop waits for some batches.

        Then its single batches are what tells more, and they are timed in legs C and L.
        """
        real, beside, alone = (mean(self.values.get(leg, ())) for leg in "RCL")
        is_late = half_width_share(self.values.get("R", ()), self.block) > WANTED_HALF_WIDTH
        return is_late and 0 < alone < beside and real > _UNEVEN * beside


class _Counts:
    """The loader alone with other worker counts: do more help, do fewer, is none as good?

    `periods` holds seconds a batch for each count, the script's own among them. Counts are doubled
    as long as that helps, so that slots of a store and cores show their end.
    """

    def __init__(self, loop: Loop, budget_s: float, alone: float) -> None:
        self._loop = loop
        self._budget_s = budget_s
        self.periods = {loop.workers: alone}

    def more(self, *, until_s: float) -> None:
        """More workers, doubled from where the last call stopped."""
        owned = max(1, round(self._loop.owned_cores))
        before, count = self._loop.workers, 2 * self._loop.workers or owned
        while count <= max(_MOST_DOUBLINGS * self._loop.workers, 2 * owned):
            now = self._drained(count, until_s=until_s)
            if now is None or self.periods[before] / now < _STILL_HELPS:
                return
            before, count = count, 2 * count

    def fewer(self) -> None:
        """Half of them, then none: what the data set opens here, forked workers would inherit."""
        if self._loop.workers:
            self._drained(max(1, self._loop.workers // 2), until_s=self._budget_s)
            self._drained(0, until_s=self._budget_s)

    def hindered(self) -> tuple[int, ...]:
        """The fewer workers that are the fastest, where more of them stand in each other's way."""
        own = self.periods[self._loop.workers]
        fewer = [count for count in self.periods if count < self._loop.workers]
        best = min(fewer, key=self.periods.__getitem__, default=None)
        return (best,) if best is not None and self.periods[best] <= _FEWER_HELP * own else ()

    def none_in_any_case(self) -> None:
        """Without workers, for a moment at the least."""
        self._drained(0, until_s=self._budget_s, least_s=0.03 * self._budget_s)

    def _drained(self, count: int, *, until_s: float, least_s: float = 0.0) -> float | None:
        """The period with that many workers, measured unless it is known or time is short."""
        if count in self.periods:
            return self.periods[count]
        left = until_s - self._loop.elapsed_s() - self._loop.start_s(count)
        if left < 0.08 * self._budget_s and not least_s:
            return None
        limit = max(least_s, min(left / 2, 0.12 * self._budget_s))
        found = mean(self._loop.drain("L", count, batches=4 * max(1, count), limit_s=limit))
        if found:
            self.periods[count] = found
        return found or None


def forecast_step(count: int, periods: Mapping[int, float], step: float) -> float:
    """Seconds of a step with that many workers, as the loader alone and the step alone promise."""
    return max(periods[count], step) if count else periods[count] + step


def _worth_trying(workers: int, periods: Mapping[int, float], *, step: float) -> int | None:
    """The fewest workers whose forecast step is within 5 % of the best, if they promise a gain."""
    steps = {count: forecast_step(count, periods, step) for count in periods}
    choice = min(count for count in periods if steps[count] <= 1.05 * min(steps.values()))
    return choice if steps[workers] > _WORTH_A_TRIAL * steps[choice] else None


def _try_workers(
    loop: Loop, periods: Mapping[int, float], period: float, *, step: float, budget_s: float
) -> Windows:
    """Baseline and variant in turn, twice: what the machine does meanwhile strikes both alike."""
    workers = _worth_trying(loop.workers, periods, step=step)
    if workers is None or loop.start_s(workers) >= TRIAL_SHARE * budget_s:
        return
    limit = TRIAL_SHARE * budget_s / 4
    for _ in range(2):
        for leg, count in (("B", loop.workers), ("V", workers)):
            steps = count_for(period, limit / 2, 4 * max(1, count))
            yield Window(leg, steps=steps, workers=count, skip=2 * count + 1, limit_s=limit)
    loop.end_trial()


def plan(
    loop: Loop, budget_s: float, most_steps: int | None = None, tryout: Tryout | None = None
) -> Plan:
    """Warm up, then R, D, H, C, L in turn until settled or out of time, then the legs run once.

    `tryout` has a time of its own, on top of the budget. Returns why it ended: "converged",
    "budget" or "steps".
    """
    period = yield from _warm_up(budget_s)
    kept = _Kept(max(1, loop.workers))
    main_s = MAIN_SHARE * budget_s
    counts: _Counts | None = None
    apart_s = 0.0
    ended = "budget"
    while True:
        began = loop.elapsed_s()
        period = yield from _cycle(loop, kept, period, main_s)
        cycle_s = loop.elapsed_s() - began
        kept.cycles += 1
        if counts is None:
            began = loop.elapsed_s()
            counts = _tell_apart(loop, kept, period, budget_s)
            apart_s = loop.elapsed_s() - began
        if most_steps is not None and len(kept.values["R"]) >= most_steps:
            ended = "steps"
            break
        if kept.cycles >= 2 and kept.settled():
            ended = "converged"
            break
        if loop.elapsed_s() - apart_s + cycle_s > main_s or loop.elapsed_s() > budget_s:
            break
    launching = yield from _once_each(loop, kept, counts, period, budget_s)
    step = mean(kept.values["D"]) or period
    used_s = loop.elapsed_s()
    if tryout is not None:
        yield from tryout(counts.periods, period=period, step=step)
    else:
        yield from _try_workers(loop, counts.periods, period, step=step, budget_s=budget_s)
        used_s = loop.elapsed_s()
    yield from _two_sizes(loop, launching, step, budget_s)
    # Single samples tell what can be stored: never left out, they take a second or two. Last:
    # what the data set opens for them here, workers would inherit.
    loop.once(max(budget_s - used_s, ONCE_SHARE * budget_s))
    return ended


def is_crowded(loop: Loop) -> bool:
    """True where the workers have more threads that compute than twice the cores."""
    return loop.native_threads > 2 * loop.owned_cores + USUAL_THREADS * loop.workers


def _tell_apart(loop: Loop, kept: _Kept, period: float, budget_s: float) -> _Counts:
    """The legs that tell causes apart: as soon as there is a period, for scripts may end early."""
    alone = mean(kept.values["L"]) or period
    counts = _Counts(loop, budget_s, alone)
    null: list[float] = []

    def has_time() -> bool:
        return loop.elapsed_s() + loop.start_s(loop.workers) < budget_s

    if loop.workers and has_time():
        null = loop.drain("N", loop.workers, batches=4 * loop.depth + 20, limit_s=0.03 * budget_s)
    if is_crowded(loop):
        # In turn with leg L, which was drained a moment ago: the machine strikes both alike.
        for what in ("T", "L", "T"):
            if has_time():
                loop.drain(what, loop.workers, batches=4 * loop.workers, limit_s=0.04 * budget_s)
    if mean(null) > alone / 2:
        counts.none_in_any_case()
    counts.more(until_s=min(budget_s, loop.elapsed_s() + APART_SHARE * budget_s))
    return counts


def _once_each(
    loop: Loop, kept: _Kept, counts: _Counts, period: float, budget_s: float
) -> Generator[Window, Measured, float]:
    """The legs that look inside; the share of a step for which the host is on a core."""
    step = mean(kept.values["D"]) or period
    counts.more(until_s=budget_s)
    counts.fewer()
    if kept.is_uneven():
        loop.drain("L", loop.workers, batches=_UNEVEN_BATCHES, limit_s=0.1 * budget_s)
    for count in (loop.workers, *counts.hindered()) if loop.wants_stages else ():
        if loop.elapsed_s() + loop.start_s(count) < (1 + ONCE_SHARE) * budget_s:
            batches = count_for(period, WINDOW_S / 4, 2 * max(1, count))
            loop.drain("S", count, batches=batches, limit_s=0.06 * budget_s)
    # where the host is inside the step; after the legs that the sampler could disturb
    seen = yield Window("P", steps=count_for(step, 1.0, 8), limit_s=0.08 * budget_s)
    states = (seen.inside or {}).get("states", {})
    return float(sum(states.get(state, 0.0) for state in ("python", "library")))


def _two_sizes(loop: Loop, launching: float, step: float, budget_s: float) -> Windows:
    """Whole batches and halves in turn: what of a step is fixed, whatever its batch holds?

    Asked where the host seems to launch for most of a step, on a device. Last of all windows: a
    device may choose other ways for another size, and is then no longer what it was.
    """
    if launching < _LAUNCHING or not loop.has_device or not loop.can_halve:
        return
    for _ in range(_SIZE_ROUNDS):
        for variant in ("whole", "half"):
            steps = count_for(step, 0.4, 8)
            yield Window("F", steps=steps, skip=2, variant=variant, limit_s=0.02 * budget_s)


def _warm_up(budget_s: float) -> Generator[Window, Measured, float]:
    """The first steps, and more of them where they are short; seconds of a batch at their end."""
    first = yield Window("W", steps=WARMUP_STEPS, limit_s=WARMUP_S + 0.15 * budget_s)
    period = mean(first.periods[1:]) or mean(first.periods) or 0.1
    more = count_for(period, WARMUP_S - sum(first.periods), 0)
    if more:
        rest = yield Window("W", steps=more, limit_s=0.15 * budget_s)
        period = mean(rest.periods) or period
    return period


def has_short_epochs(loop: Loop, period: float, main_s: float) -> bool:
    """True where an epoch ends within a window or two: then whole ones are watched."""
    return loop.epoch_length is not None and loop.epoch_length * period < main_s / 6


def _cycle(
    loop: Loop, kept: _Kept, period: float, main_s: float
) -> Generator[Window, Measured, float]:
    """Each interleaved leg once; seconds of a batch under R."""
    block = kept.block
    rounds = FEWEST_ROUNDS * block
    is_short = has_short_epochs(loop, period, main_s)
    real = yield Window(
        "R",
        steps=count_for(
            period, WINDOW_S / 2 if is_short else WINDOW_S, max(rounds, 2 * loop.depth)
        ),
        skip=loop.depth + block if loop.workers else 1,  # what lay ready, and a round to settle
        epochs=2 if is_short else 0,
        limit_s=main_s / 2,
    )
    kept.add("R", real.periods)
    period = mean(real.periods) or period

    def whole(steps: int) -> int:
        """As many or more, of whole rounds: each window is of the same sizes then."""
        return -(-steps // loop.kept_round) * loop.kept_round

    first = yield Window("D", steps=whole(count_for(period, 0.2, 4)), skip=2, limit_s=main_s / 8)
    fast = mean(first.compute) or period
    rest = yield Window("D", steps=whole(count_for(fast, 0.6, 4)), limit_s=main_s / 8)
    kept.add("D", first.compute + rest.compute)
    if loop.has_device:
        steps = whole(count_for(fast, 1.0, 8))
        host = yield Window("H", steps=steps, skip=2, limit_s=main_s / 8)
        kept.add("H", host.compute)
    if loop.workers:
        # long enough that a slow loader delivers some rounds beyond what lay ready
        seconds = max(WINDOW_S / 2, (loop.depth + 4 * block) * period)
        steps = whole(count_for(fast, seconds, 8))
        contended = yield Window("C", steps=steps, skip=2, limit_s=main_s / 6)
        kept.add("C", contended.compute)
    batches = count_for(period, WINDOW_S / 2, rounds)
    kept.add("L", loop.drain("L", loop.workers, batches=batches, limit_s=main_s / 5))
    return period
