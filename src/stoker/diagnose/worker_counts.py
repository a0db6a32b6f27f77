"""Other worker counts, as they were measured or as the measured efficiency lets expect."""

from __future__ import annotations

from stoker.diagnose.case import Case, with_loader, with_machine, with_work
from stoker.records.profile import Leg
from stoker.records.scenario import Resource, Scenario, StageCost
from stoker.stats import Spread
from stoker.theory.calibrate import at_workers
from stoker.theory.pipeline import forecast

_MOST_WORKERS_PER_CORE = 8


def with_workers(case: Case, workers: int) -> Scenario:
    """The same run with that many workers, at the efficiency that was measured for them."""
    return at_workers(case.facts.profile, case.scenario, workers)


def best_workers(case: Case) -> int:
    """The number that was tried and won; else the fewest within 2 % of the best forecast."""
    tried = {
        trial.value: trial.speedup.median
        for trial in case.facts.profile.trials
        if trial.what == "workers" and trial.speedup.low > 1 and trial.value > case.facts.workers
    }
    if tried:
        return min(count for count, gain in tried.items() if gain >= 0.97 * max(tried.values()))
    steps = {
        count: forecast(with_workers(case, count)).step_s.median
        for count in range(1, _most_workers(case) + 1)
    }
    best = min(steps.values())
    return next(count for count, step in steps.items() if step <= 1.02 * best)


def _most_workers(case: Case) -> int:
    """The largest number to think of: of those that wait for a store no more than were measured.

    Cores are counted, but what a store gives to more readers than it was tried with nobody knows.
    """
    usual = round(_MOST_WORKERS_PER_CORE * max(1.0, case.facts.cores_usable))
    if not case.facts.workers or not _mostly_waits(case.scenario):
        return usual
    measured = max((leg.workers for leg in case.facts.profile.scaling), default=0)
    return min(usual, max(case.facts.workers, measured))


def _mostly_waits(scenario: Scenario) -> bool:
    seconds = dict.fromkeys(Resource, 0.0)
    for cost in scenario.workload.stages:
        seconds[cost.resource] += cost.per_sample.median
    return seconds[Resource.STORAGE] > seconds[Resource.CORES]


def overlap(case: Case) -> Scenario | None:
    """Worker processes where there were none; one of its own for what is no loader."""
    if case.facts.workers:
        return None
    return with_workers(case, 1 if case.facts.loader.watched else best_workers(case))


def more_workers(case: Case) -> Scenario | None:
    """More of them, where that is forecast to help."""
    best = best_workers(case)
    return with_workers(case, best) if best > case.facts.workers > 0 else None


def fewer_workers(case: Case) -> Scenario | None:
    """Fewer workers, or none, as they were measured."""
    facts = case.facts
    fewer = [leg for leg in facts.profile.scaling if leg.workers < facts.workers]
    if not fewer:
        return None
    best = min(fewer, key=lambda leg: forecast(measured_at(case, leg.workers)).step_s.median)
    return measured_at(case, best.workers)


def measured_at(case: Case, workers: int) -> Scenario:
    """A worker count with the loader's measured period there, whatever makes it so."""
    leg = case.facts.at_workers(workers)
    return measured_leg(case, leg) if leg is not None else with_workers(case, workers)


def measured_leg(case: Case, leg: Leg) -> Scenario:
    """The scenario with the loader of a leg, as it was measured there."""
    workers = leg.workers
    cost = StageCost(
        stage=f"loading with {workers} workers",
        resource=Resource.CORES,
        per_sample=leg.period.scaled(max(1, workers) / case.scenario.workload.batch_size),
        source=f"measured: leg {leg.code}{workers}",
    )
    bare = with_work(case.scenario, stages=(cost,), training_cpu_s=Spread.exact(0.0))
    bare = with_machine(bare, cores=max(bare.machine.cores, float(workers)))
    return with_loader(bare, workers=workers, efficiency=1.0, hand_off_s=0.0)


def fewest(case: Case) -> int:
    """The count that `fewer_workers` ends at."""
    after = fewer_workers(case)
    return after.loader.workers if after is not None else case.facts.workers
