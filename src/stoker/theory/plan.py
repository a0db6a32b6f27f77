"""From a target back to resources: what keeps one accelerator at a utilisation, at the least cost.

The closed form of `pipeline` solved for each capacity in turn. It is a maximum of terms, so the
cheapest capacities that reach a step time are the smallest of each, and no trade is left between
them (the dual of the linear programme of Kuchnik et al., Plumber, MLSys 2022, section 4).
"""

from __future__ import annotations

import math
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from stoker.errors import InputError
from stoker.records.scenario import Resource, Scenario
from stoker.theory.pipeline import forecast

if TYPE_CHECKING:
    from stoker.theory.question import Question

_HOURS_A_DAY = 24
# Other workers have another efficiency, so what they need is asked again; a few times settle it.
_ROUNDS = 8


class Added(StrEnum):
    """What a step costs beyond the accelerator's own work when loading costs nothing."""

    TRANSFER = "transfer"
    CONTENTION = "contention"
    RECEIVING = "receiving"
    EPOCHS = "epoch boundaries"


class Needs(msgspec.Struct, frozen=True, kw_only=True):
    """The least of every resource for one accelerator; None where the workload does not say.

    `cached_share` is what the page cache must serve because the store that is there is too slow;
    0 when it is fast enough.
    """

    step_s: float
    samples_per_s: float
    au: float
    cores: float
    workers: int
    storage_bytes_per_s: float | None
    storage_reads_per_s: float | None
    link_bytes_per_s: float | None
    cached_share: float | None


class Lack(msgspec.Struct, frozen=True):
    """One resource of a host against what is needed, for one accelerator; has None: unknown."""

    what: str
    unit: str
    needs: float
    has: float | None

    @property
    def is_short(self) -> bool:
        """True when the host is known to have too little."""
        return self.has is not None and self.has < self.needs * (1 - 1e-9)


def target_step(
    scenario: Scenario, *, au: float | None = None, samples_per_s: float | None = None
) -> float:
    """Seconds a step that a target allows, reachable or not. Raises InputError for no target."""
    work = scenario.workload
    if (au is None) == (samples_per_s is None):
        raise InputError(
            "one target is needed: a utilisation or samples/s",
            looked_at="--au and --samples-per-s",
            run_next="give exactly one of them",
        )
    if au is not None:
        if not 0 < au <= 1:
            raise InputError(
                f"a utilisation of {au} is none: it lies between 0 and 1",
                looked_at="the target",
                run_next="give for example --au 0.95",
            )
        return work.device_s.median / au
    return work.batch_size / _positive(samples_per_s)


def step_for(
    scenario: Scenario, *, au: float | None = None, samples_per_s: float | None = None
) -> float:
    """Seconds a step that a target allows: a utilisation or samples/s of one accelerator.

    Raises InputError for a target that no loading can reach, saying what stands in its way.
    """
    work = scenario.workload
    step_s = target_step(scenario, au=au, samples_per_s=samples_per_s)
    least = fastest_step(scenario)
    if step_s < least * (1 - 1e-9):
        raise InputError(
            f"the target needs a step of {step_s:.4g} s, and {least:.4g} s is the shortest: "
            f"{work.device_s.median:.4g} s on the accelerator, the rest transfer, contention and "
            "epoch boundaries",
            looked_at="the step with endless workers, cores and storage",
            run_next=f"an AU of {work.device_s.median / least:.3f} "
            f"({work.batch_size / least:,.0f} samples/s) is the most that loading can give",
        )
    return step_s


def fastest_step(scenario: Scenario) -> float:
    """Seconds a step when loading costs nothing."""
    return scenario.workload.device_s.median + sum(_added(scenario).values())


def most_added(scenario: Scenario) -> Added | None:
    """The largest part of the fastest step beyond the accelerator's own; None without any."""
    parts = _added(scenario)
    largest = max(parts, key=lambda part: parts[part])
    return largest if parts[largest] > 0 else None


def _added(scenario: Scenario) -> dict[Added, float]:
    work, loader = scenario.workload, scenario.loader
    return {
        Added.TRANSFER: 0.0 if loader.transfer_overlapped else work.transfer_s.median,
        Added.CONTENTION: work.contention_s.median if loader.workers > 0 else 0.0,
        Added.RECEIVING: loader.receive_s.median if loader.workers > 0 else 0.0,
        Added.EPOCHS: work.epoch_edge_s.median,
    }


class Sought(NamedTuple):
    """What a target needs, and the run with the workers that it needs; None: nothing reaches it."""

    needs: Needs | None
    scenario: Scenario


def needs_of(
    question: Question, *, au: float | None = None, samples_per_s: float | None = None
) -> Sought:
    """The needs of a target, found with as many workers as they say.

    Workers add to the step and to the starts of epochs, which a run without any, or with few, does
    not show: a target within reach there may be out of it. Raises InputError for no target.
    """
    scenario = question.scenario()
    if not scenario.loader.workers:
        scenario = question.at("workers", 1).scenario()
    needed = None
    for attempt in range(_ROUNDS):
        step_s = target_step(scenario, au=au, samples_per_s=samples_per_s)
        if step_s < fastest_step(scenario) * (1 - 1e-9):
            return Sought(None, scenario)
        needed = needs(scenario, step_s)
        count = scenario.loader.workers
        # Only up behind the first time, or two counts could ask for each other for ever.
        if needed.workers == count or (attempt and needed.workers < count):
            return Sought(msgspec.structs.replace(needed, workers=count), scenario)
        scenario = question.at("workers", needed.workers).scenario()
    return Sought(needed, scenario)


def needs(scenario: Scenario, step_s: float) -> Needs:
    """The least resources of one accelerator for a step of `step_s` seconds."""
    work, loader = scenario.workload, scenario.loader
    allowed = step_s - work.epoch_edge_s.median
    cpu = work.batch_size * _seconds(scenario, is_cpu=True)
    blocked = work.batch_size * _seconds(scenario, is_cpu=False)
    missed = work.batch_size * (1 - work.cached_share)
    return Needs(
        step_s=step_s,
        samples_per_s=work.batch_size / step_s,
        au=work.device_s.median / step_s,
        cores=max(
            cpu / (loader.efficiency * allowed),
            (cpu + work.training_cpu_s.median) / allowed,
        ),
        workers=max(1, math.ceil((cpu + blocked) / (loader.efficiency * allowed) - 1e-9)),
        storage_bytes_per_s=None
        if work.stored_bytes is None
        else missed * work.stored_bytes / allowed,
        storage_reads_per_s=missed * work.reads / allowed,
        link_bytes_per_s=None
        if work.sample_bytes is None
        else work.batch_size * work.sample_bytes / allowed,
        cached_share=_cache_needed(scenario, allowed),
    )


def lacks(scenario: Scenario, needed: Needs) -> tuple[Lack, ...]:
    """Each resource of the scenario's machine, one accelerator's share, beside what is needed."""
    machine = scenario.machine
    share = 1 / machine.accelerators

    def of_host(value: float | None) -> float | None:
        return None if value is None else value * share

    rows = [
        Lack("cores", "cores", needed.cores, machine.cores * share),
        Lack("workers", "workers", needed.workers, scenario.loader.workers),
    ]
    if needed.storage_bytes_per_s:
        rows.append(
            Lack(
                "storage",
                "bytes/s",
                needed.storage_bytes_per_s,
                of_host(machine.storage_bytes_per_s),
            )
        )
    if needed.storage_reads_per_s:
        rows.append(
            Lack(
                "storage reads",
                "reads/s",
                needed.storage_reads_per_s,
                of_host(machine.storage_reads_per_s),
            )
        )
    if needed.link_bytes_per_s is not None:
        rows.append(Lack("link", "bytes/s", needed.link_bytes_per_s, machine.link_bytes_per_s))
    return tuple(rows)


def provisioned(scenario: Scenario, needed: Needs) -> Scenario:
    """The scenario on a machine that has exactly what is needed: its forecast meets the target."""
    machine = scenario.machine
    enough = msgspec.structs.replace(
        machine,
        cores=needed.cores * machine.accelerators,
        storage_bytes_per_s=_shared(needed.storage_bytes_per_s, machine.accelerators),
        storage_reads_per_s=_shared(needed.storage_reads_per_s, machine.accelerators),
        storage_slots=None,
        link_bytes_per_s=needed.link_bytes_per_s,
    )
    loader = msgspec.structs.replace(scenario.loader, workers=needed.workers)
    return msgspec.structs.replace(scenario, machine=enough, loader=loader)


def idle_usd_a_day(scenario: Scenario, usd_per_hour: float) -> float:
    """What the accelerators' idle share of a host at this price costs a day."""
    idle = 1 - forecast(scenario).au.median
    return _positive(usd_per_hour) * _HOURS_A_DAY * max(0.0, idle)


def _shared(value: float | None, accelerators: int) -> float | None:
    return None if not value else value * accelerators


def _cache_needed(scenario: Scenario, allowed: float) -> float | None:
    work, machine = scenario.workload, scenario.machine
    if machine.storage_bytes_per_s is None or work.stored_bytes is None:
        return None
    from_store = machine.storage_bytes_per_s / machine.accelerators * allowed
    return max(0.0, 1 - from_store / (work.batch_size * work.stored_bytes))


def _seconds(scenario: Scenario, *, is_cpu: bool) -> float:
    return sum(
        cost.per_sample.median
        for cost in scenario.workload.stages
        if (cost.resource is Resource.CORES) is is_cpu
    )


def _positive(value: float | None) -> float:
    if value is None or not 0 < value < math.inf:
        raise InputError(
            f"{value} is not positive and finite",
            looked_at="the target or the price",
            run_next="give a positive number",
        )
    return value
