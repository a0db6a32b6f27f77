"""What another queue gives a loader that delivers unevenly: its own batches, simulated.

The closed form knows means, and no queue changes those. So the batches that were timed run through
a simulated loader of the script's settings, and then of others. The queue as it is must come out as
it was measured, else nothing is promised.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from stoker.diagnose.facts import Facts
from stoker.diagnose.wording import percent
from stoker.records.diagnosis import FixCode
from stoker.records.profile import THREADS
from stoker.remedy.queueing import SHARE_OF_FREE
from stoker.stats import Spread, difference, ratio
from stoker.theory.calibrate import receive_at
from stoker.theory.draws import Draws, doubted, draw, noise, spread_of
from stoker.theory.replay import Replay, Way, fewest_batches, replay

ONLY_A_TRIAL = "only a trial shows it: stoker doctor --try"
# Batches that torch prefetches for each worker, and how many times as many a deeper queue holds.
USUAL_DEPTH, _DEEPER = 2, 4
# An epoch begins with an empty queue and ends with one: shorter than so many queues it is not what
# is simulated, which has no ends.
_QUEUES_AN_EPOCH = 4


@dataclass(frozen=True)
class Queued:
    """Seconds of a step with another queue, and what that gives over the queue as it is."""

    step_s: Spread
    speedup: Spread


@dataclass(frozen=True)
class Simulation:
    """The fixes of the queue, each by itself, and both together; empty where `why_not` says why.

    `batches`: how many were timed; `waits`: the share of the step that is waited in the queue as it
    is, simulated, and `waits_seen` as it was measured.
    """

    why_not: str = ""
    batches: int = 0
    waits: Spread | None = None
    waits_seen: Spread | None = None
    by_fix: Mapping[FixCode, Queued] = field(default_factory=dict)
    together: Queued | None = None


def deeper(facts: Facts) -> int:
    """Batches ahead for each worker of a deeper queue: four times as many as now.

    Fewer where shared memory has no room for them, by the rule of the remedy; as many as now where
    it has none at all.
    """
    now, free = facts.loader.prefetch_factor or USUAL_DEPTH, facts.host.shm_free_bytes
    each = facts.workers * facts.loader.batch_bytes
    if free is None or not each or facts.loader.start_method == THREADS:
        return _DEEPER * now
    room = int(SHARE_OF_FREE * free / max(1, facts.host.ranks) / each)
    return max(now, min(_DEEPER * now, room))


def simulate(facts: Facts) -> Simulation:
    """The loader with its own batches: the queue as it is, deeper, in any order, and both."""
    ways = _ways(facts)
    why_not = _too_little(facts, tuple(ways.values()))
    if why_not:
        return Simulation(why_not=f"{why_not}; {ONLY_A_TRIAL}")
    timed, per_step = facts.profile.batches, facts.loader.batches_per_step
    assert timed is not None
    # The training process itself takes a batch that lies ready; that too is time inside next().
    receive = receive_at(facts.profile, facts.workers)
    consume = difference(facts.contended, receive.scaled(-1.0)).scaled(1 / per_step)
    found = replay(timed.seconds, consume, tuple(ways.values()), workers=facts.workers)
    now, *others = found
    waits = spread_of((now.wait_s * per_step + receive.median) / (now.step_s * per_step))
    seen = ratio(facts.waits, facts.inside)
    if not waits.overlaps(seen):
        return Simulation(
            why_not=(
                f"simulated with {len(timed.seconds)} of its own batches the loop would wait for "
                f"{percent(waits.median)} of the step, and it waited for {percent(seen.median)}; "
                f"{ONLY_A_TRIAL}"
            )
        )
    edge = draw(facts.edge, noise("edge"))
    missed = abs(float(now.step_s[0]) * per_step / facts.inside.median - 1)

    def queued(then: Replay) -> Queued:
        before, after = (one.step_s * per_step + edge for one in (now, then))
        return Queued(spread_of(after), _gain(before, after, missed, len(timed.seconds)))

    outcomes = dict(zip(list(ways)[1:], map(queued, others), strict=True))
    return Simulation(
        batches=len(timed.seconds),
        waits=waits,
        waits_seen=seen,
        by_fix={codes[0]: one for codes, one in outcomes.items() if len(codes) == 1},
        together=next((one for codes, one in outcomes.items() if len(codes) > 1), None),
    )


def _gain(before: Draws, after: Draws, missed: float, count: int) -> Spread:
    """What the simulation says, as wide as it misses what was measured of the queue as it is."""
    gain = doubted(spread_of(before / after), missed=missed)
    return Spread(gain.median, gain.low, gain.high, count)


def _ways(facts: Facts) -> dict[tuple[FixCode, ...], Way]:
    """The queue as it is, then those that can be had, under the fixes that make them."""
    now = Way(facts.loader.prefetch_factor or USUAL_DEPTH, facts.loader.in_order)
    ways: dict[tuple[FixCode, ...], Way] = {(): now}
    deep = Way(deeper(facts), now.in_order)
    if deep != now:
        ways[(FixCode.PREFETCH_DEPTH,)] = deep
    if facts.workers > 1 and now.in_order:
        ways[(FixCode.UNORDERED,)] = Way(now.prefetch_factor, in_order=False)
        if deep != now:
            both = Way(deep.prefetch_factor, in_order=False)
            ways[FixCode.PREFETCH_DEPTH, FixCode.UNORDERED] = both
    return ways


def _too_little(facts: Facts, ways: tuple[Way, ...]) -> str:
    """Why nothing can be simulated; empty where it can."""
    timed = facts.profile.batches
    if timed is None or not facts.workers:
        return "no single batches were timed"
    least = fewest_batches(ways, facts.workers)
    if len(timed.seconds) < least:
        return f"{len(timed.seconds)} single batches were timed, and {least} would tell"
    epochs = facts.profile.epochs
    longest = facts.workers * max(way.prefetch_factor for way in ways)
    if epochs is not None and epochs.batches and epochs.batches < _QUEUES_AN_EPOCH * longest:
        return f"an epoch of {epochs.batches} batches is over before such a queue is in its stride"
    return ""
