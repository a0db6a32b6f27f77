"""From what leg Q read to records: costs of a read, rates with more readers, the kind of store.

Runs in the parent; touches no file.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from stoker.probe.storage.fit import fit_reads
from stoker.probe.storage.phase import COLD, WARM, Phase
from stoker.probe.storage.reading import Access, Burst
from stoker.probe.storage.scaling import classify_scaling
from stoker.records.profile import ReadCost
from stoker.records.storage import RatePoint, ReadFit, StoreScaling
from stoker.stats import Spread, bootstrap, median_spread

# Stretches that a rate is cut into: enough for an interval and for a change in time to show.
_STRETCHES = 24
# For the change in time none is shorter, or a pause of the machine would look like one.
_SHORTEST_STRETCH_S = 0.02
# Readers in one process share Python's lock, for a while in each request. When they keep it this
# busy together, it is the limit, although each of them seems to wait.
_LOCK_BUSY = 0.8


class LegReads(NamedTuple):
    """What leg Q found. `never_cold` says why there is nothing cold."""

    cost: ReadCost
    scaling: StoreScaling | None
    points: tuple[RatePoint, ...]
    fit: ReadFit | None
    never_cold: str | None
    skipped: tuple[str, ...]


def evaluate_reads(raw: Mapping[str, Any], *, needed_per_s: float | None = None) -> LegReads | None:
    """Records of what `leg.measure_reads` gave (also after JSON); None without files.

    `needed_per_s` is the rate of reads that the loader wants, if known.
    """
    if not raw["files"]:
        return None
    phases = [as_phase(values) for values in raw["phases"]]
    cold = accesses(phases, "whole", COLD)
    warm = accesses(phases, "whole", WARM)
    fit = fit_accesses([*cold, *accesses(phases, "part", COLD)])
    together = [phase for phase in phases if phase.name == "together"]
    points = rate_points([phase for phase in phases if phase.temperature == COLD])
    size = float(raw["bytes_per_read"])
    scaling = None
    if together and points:
        fixed = fit.fixed_share(size) if fit else None
        scaling = classify_scaling(points, fixed_share=fixed, needed_per_s=needed_per_s)
        if scaling.fall is not None:
            # What a read costs from now on, not what it did before the allowance was used up.
            lasting = [phase for phase in together if phase.readers == together[0].readers]
            cold = accesses(lasting[-1:], "together", COLD) or cold
    opens = [access.open_s for access in cold or warm]
    return LegReads(
        cost=ReadCost(
            files=raw["files"],
            bytes_per_read=size,
            cold_s=access_spread(cold),
            warm_s=access_spread(warm),
            open_s=median_spread(opens).median if opens else None,
            latency_s=fit.latency.median if fit and fit.latency else None,
            bytes_per_s=fit.bytes_per_s.median if fit and fit.bytes_per_s else None,
            resident_share=raw["resident_share"],
        ),
        scaling=scaling,
        points=points,
        fit=fit,
        never_cold=raw["never_cold"],
        skipped=tuple(raw["skipped"]),
    )


def as_phase(values: Sequence[Any]) -> Phase:
    """A phase from the lists that JSON makes of it (or from itself)."""
    name, temperature, readers, bursts, share = values
    return Phase(name, temperature, readers, tuple(_as_burst(burst) for burst in bursts), share)


def _as_burst(values: Sequence[Any]) -> Burst:
    readers, served, wall_s, cpu_s, runqueue_s, failures, machine_s = values
    return Burst(
        readers,
        tuple(Access(*access) for access in served),
        wall_s,
        cpu_s,
        runqueue_s,
        tuple(failures),
        machine_s,
    )


def accesses(phases: Sequence[Phase], name: str, temperature: str) -> list[Access]:
    """All accesses of the phases with that name and temperature."""
    return [
        access
        for phase in phases
        if phase.name == name and phase.temperature == temperature
        for burst in phase.bursts
        for access in burst.accesses
    ]


def access_spread(served: Sequence[Access]) -> Spread | None:
    """Median seconds of an access, opening included; None for none."""
    times = [access.open_s + access.read_s for access in served]
    return median_spread(times) if times else None


def fit_accesses(served: Sequence[Access]) -> ReadFit | None:
    """Latency (opening included) and bandwidth of single accesses by one reader."""
    return fit_reads(
        [access.length for access in served],
        [access.open_s + access.read_s for access in served],
    )


def rate_points(phases: Sequence[Phase]) -> tuple[RatePoint, ...]:
    """One point a phase, in the order in which they were measured.

    Left out are phases whose readers did not all get to two requests: they tell of the start.
    """
    return tuple(
        _rate_point(phase)
        for phase in phases
        if sum(len(burst.accesses) for burst in phase.bursts) >= 2 * phase.readers
    )


def access_rate(phase: Phase) -> Spread:
    """Accesses a second of all readers of a phase."""
    served = sum(len(burst.accesses) for burst in phase.bursts)
    period = bootstrap(_all_periods(phase, max(phase.readers, served // _STRETCHES)))
    # The centre is the rate over everything; the stretches tell only how it varied.
    rate = served / sum(burst.wall_s for burst in phase.bursts)
    return Spread(
        rate,
        max(0.0, rate * period.median / period.high),
        rate * period.median / period.low if period.low > 0 else math.inf,
        served,
    )


def _rate_point(phase: Phase) -> RatePoint:
    served = [access for burst in phase.bursts for access in burst.accesses]
    rate = access_rate(phase)
    level = max(
        phase.readers, len(served) // _STRETCHES, math.ceil(rate.median * _SHORTEST_STRETCH_S)
    )
    return RatePoint(
        readers=phase.readers,
        requests_per_s=rate,
        bytes_per_request=sum(access.length for access in served) / len(served),
        series=tuple(1 / period for period in _all_periods(phase, level)),
        cpu_share=_own_work_share(phase),
        queued=_at_a_time(phase, [burst.runqueue_s for burst in phase.bursts]),
        foreign_cores=_foreign_cores(phase),
    )


def _at_a_time(phase: Phase, seconds: Sequence[float]) -> float:
    """How many of what was counted in seconds there were at a time."""
    return sum(seconds) / max(sum(burst.wall_s for burst in phase.bursts), 1e-9)


def _foreign_cores(phase: Phase) -> float | None:
    """Cores that others kept busy: what the whole machine spent, less the readers' own."""
    whole = [burst.machine_s for burst in phase.bursts if burst.machine_s is not None]
    if len(whole) < len(phase.bursts):
        return None
    own = sum(burst.cpu_s for burst in phase.bursts)
    return max(0.0, _at_a_time(phase, [*whole, -own]))


def _all_periods(phase: Phase, stretch: int) -> list[float]:
    return [period for burst in phase.bursts for period in _periods(burst, stretch)]


def _periods(burst: Burst, stretch: int) -> list[float]:
    """Seconds a request over consecutive stretches of equally many; a short burst is one."""
    count = len(burst.accesses)
    if count < 2 * stretch:
        return [burst.wall_s / count]
    ends = [0.0] + [burst.accesses[last].ended_s for last in range(stretch - 1, count, stretch)]
    # The remainder belongs to the last stretch, which is still a mean over its own count.
    return [max(later - earlier, 1e-9) / stretch for earlier, later in pairwise(ends)]


def _own_work_share(phase: Phase) -> float:
    """Share of the readers' time on a core, waiting for one, or waiting for Python's lock."""
    busy_s = sum(
        access.open_s + access.read_s for burst in phase.bursts for access in burst.accesses
    )
    cpu_s = sum(burst.cpu_s for burst in phase.bursts)
    waited_s = sum(burst.runqueue_s for burst in phase.bursts)
    wall_s = sum(burst.wall_s for burst in phase.bursts)
    own = min(1.0, (cpu_s + waited_s) / max(busy_s, 1e-9))
    together = min(1.0, cpu_s / max(wall_s, 1e-9))
    return max(own, together) if together >= _LOCK_BUSY else own
