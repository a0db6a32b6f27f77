"""How a forecast changes along one axis, and where it turns: grids, crossovers, sensitivity."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

import msgspec

from stoker.errors import InputError
from stoker.records.scenario import Forecast, Resource, Scenario
from stoker.stats import Spread
from stoker.theory.pipeline import forecast, gain

# Where the two sides differ by less than this they are one: floating point, not physics.
_SAME = 1e-9
# "+10% of each resource" is the customary elasticity; the closed form makes it exact.
STEP_UP = 1.10


class Point(msgspec.Struct, frozen=True):
    """One value of the axis and what it gives."""

    value: float
    forecast: Forecast


class Crossover(msgspec.Struct, frozen=True):
    """Where the limit changes along an axis."""

    value: float
    before: Resource
    after: Resource


class BatchCrossover(msgspec.Struct, frozen=True):
    """step(B) = o + g·B against host(B) = c·B.

    `batch` is B* = o / (c − g), above which the host is the slower one; None: never, because the
    host is no slower a sample. `plateau` is the utilisation that ever larger batches approach.
    """

    batch: float | None
    plateau: float
    fixed_s: float
    device_s: float
    host_s: float


def grid(low: float, high: float, *, points: int, whole: bool) -> tuple[float, ...]:
    """Values from low to high, geometric when they span more than a factor of 20, else even.

    With `whole` they are integers without repeats. Raises InputError for an empty range.
    """
    if not (0 <= low < high < math.inf) or points < 2:
        raise InputError(
            f"{low:g}..{high:g} in {points} points is no range",
            looked_at="the range of the sweep",
            run_next="give LOW..HIGH with 0 <= LOW < HIGH, like batch=1..1024",
        )
    if whole and high - low + 1 <= points:
        return tuple(float(value) for value in range(math.ceil(low), math.floor(high) + 1))
    share = [index / (points - 1) for index in range(points)]
    if low > 0 and high / low > 20:
        values = [low * (high / low) ** part for part in share]
    else:
        values = [low + (high - low) * part for part in share]
    if not whole:
        return tuple(values)
    return tuple(dict.fromkeys(float(round(value)) for value in values))


def sweep(scenario_at: Callable[[float], Scenario], values: Iterable[float]) -> tuple[Point, ...]:
    """The forecast at each value."""
    return tuple(Point(value, forecast(scenario_at(value))) for value in values)


def crossovers(
    scenario_at: Callable[[float], Scenario], points: Sequence[Point], *, whole: bool
) -> tuple[Crossover, ...]:
    """Where the limit changes, each found by halving the interval between two points.

    With `whole` the value is the first integer at which the new limit holds.
    """
    found = []
    for left, right in pairwise(points):
        if left.forecast.limit is right.forecast.limit:
            continue
        low, high, after = left.value, right.value, right.forecast.limit
        tolerance = 1.0 if whole else _SAME * max(1.0, abs(high))
        while high - low > tolerance:
            middle = float(math.floor((low + high) / 2)) if whole else (low + high) / 2
            limit = forecast(scenario_at(middle)).limit
            if limit is left.forecast.limit:
                low = middle
            else:
                high, after = middle, limit
        found.append(Crossover(high, left.forecast.limit, after))
    return tuple(found)


def batch_crossover(fixed_s: float, device_s: float, host_s: float) -> BatchCrossover:
    """B* and the plateau for a step of fixed_s + device_s·B and a host of host_s·B seconds.

    Raises InputError for what is negative, and for a device that needs no time a sample.
    """
    if fixed_s < 0 or device_s <= 0 or host_s < 0:
        raise InputError(
            f"a step of {fixed_s} + {device_s} B against {host_s} B has no crossover",
            looked_at="seconds a step and seconds a sample",
            run_next="give a positive time a sample, and no negative ones",
        )
    if host_s <= device_s * (1 + _SAME):
        return BatchCrossover(None, 1.0, fixed_s, device_s, host_s)
    return BatchCrossover(
        fixed_s / (host_s - device_s), device_s / host_s, fixed_s, device_s, host_s
    )


def batch_crossover_of(
    scenario_at: Callable[[float], Scenario], low: int, high: int
) -> BatchCrossover:
    """B* and the plateau of scenarios of two batch sizes, straight between and beyond them.

    The host's side is the longest of every bound but the step itself, at the larger size.
    """
    small, large = forecast(scenario_at(low)).terms, forecast(scenario_at(high)).terms
    consume = [terms[-1].seconds.median for terms in (small, large)]
    device_s = (consume[1] - consume[0]) / (high - low)
    fixed_s = max(0.0, consume[0] - device_s * low)
    host_s = max(term.seconds.median for term in large[:-1]) / high
    return batch_crossover(fixed_s, device_s, host_s)


class Effect(NamedTuple):
    """What 10% more of one resource does to the step: the share that is saved."""

    what: str
    saved: Spread
    after: Scenario


def sensitivity(scenario: Scenario) -> tuple[Effect, ...]:
    """Where to invest: the step's share saved by 10% more of each, the largest first.

    A worker count grows by a tenth but at least by one. What is unknown is left out.
    """
    effects = []
    for what, after in _one_tenth_more(scenario):
        faster = gain(scenario, after)
        ends = sorted(1 - 1 / end for end in (faster.low, faster.high))
        effects.append(Effect(what, Spread(1 - 1 / faster.median, ends[0], ends[1]), after))
    return tuple(sorted(effects, key=lambda effect: -effect.saved.median))


def _one_tenth_more(scenario: Scenario) -> list[tuple[str, Scenario]]:
    work, loader, machine = scenario.workload, scenario.loader, scenario.machine
    more = max(1, round(loader.workers * (STEP_UP - 1)))

    def with_machine(**fields: float) -> Scenario:
        changed = msgspec.structs.replace(machine, **fields)
        return msgspec.structs.replace(scenario, machine=changed)

    def with_work(**fields: object) -> Scenario:
        changed = msgspec.structs.replace(work, **fields)
        return msgspec.structs.replace(scenario, workload=changed)

    more_workers = msgspec.structs.replace(loader, workers=loader.workers + more)
    more_cores = with_machine(cores=machine.cores * STEP_UP)
    variants = [
        (
            f"{more} more worker{'s' if more > 1 else ''}",
            msgspec.structs.replace(scenario, loader=more_workers),
        ),
        ("10% more cores", more_cores),
        (
            "10% more cores and workers",
            msgspec.structs.replace(more_cores, loader=more_workers),
        ),
        (
            "a 10% faster accelerator",
            with_work(device_s=work.device_s.scaled(1 / STEP_UP)),
        ),
    ]
    variants += [
        (
            f"a 10% cheaper {cost.stage}",
            with_work(
                stages=tuple(
                    other
                    if other is not cost
                    else msgspec.structs.replace(
                        cost, per_sample=cost.per_sample.scaled(1 / STEP_UP)
                    )
                    for other in work.stages
                )
            ),
        )
        for cost in work.stages
        if cost.resource is Resource.CORES
    ]
    for what, name, value in (
        ("10% more storage bandwidth", "storage_bytes_per_s", machine.storage_bytes_per_s),
        ("10% more storage reads", "storage_reads_per_s", machine.storage_reads_per_s),
    ):
        if value is not None:
            variants.append((what, with_machine(**{name: value * STEP_UP})))
    if machine.link_bytes_per_s is not None:
        faster = with_machine(link_bytes_per_s=machine.link_bytes_per_s * STEP_UP)
        changed = msgspec.structs.replace(work, transfer_s=work.transfer_s.scaled(1 / STEP_UP))
        variants.append(("a 10% faster link", msgspec.structs.replace(faster, workload=changed)))
    return variants
