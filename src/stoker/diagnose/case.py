"""What a fix is applied to, and how a scenario is changed."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import msgspec

from stoker.diagnose.facts import Facts
from stoker.diagnose.queueing import Simulation
from stoker.records.scenario import Resource, Scenario, StageCost
from stoker.stats import Spread


@dataclass(frozen=True)
class Case:
    """What a fix is applied to; `queue` where other queues were simulated, for uneven loaders."""

    facts: Facts
    scenario: Scenario
    queue: Simulation | None = None


def with_loader(scenario: Scenario, **changes: object) -> Scenario:
    """The scenario with other loader settings."""
    loader = msgspec.structs.replace(scenario.loader, **changes)
    return msgspec.structs.replace(scenario, loader=loader)


def with_work(scenario: Scenario, **changes: object) -> Scenario:
    """The scenario with another workload."""
    workload = msgspec.structs.replace(scenario.workload, **changes)
    return msgspec.structs.replace(scenario, workload=workload)


def with_machine(scenario: Scenario, **changes: object) -> Scenario:
    """The scenario on another machine."""
    machine = msgspec.structs.replace(scenario.machine, **changes)
    return msgspec.structs.replace(scenario, machine=machine)


def with_stage_costs(
    scenario: Scenario,
    names: Collection[str],
    left: Spread,
    resources: Collection[Resource] = (Resource.CORES,),
) -> Scenario:
    """The scenario with this share of what some stages cost in some resources left."""
    stages = tuple(
        _times(cost, left) if cost.stage in names and cost.resource in resources else cost
        for cost in scenario.workload.stages
    )
    return with_work(scenario, stages=stages)


def _times(cost: StageCost, left: Spread) -> StageCost:
    """The cost times a share that is itself not known exactly."""
    now = cost.per_sample
    then = Spread(now.median * left.median, now.low * left.low, now.high * left.high, now.count)
    return msgspec.structs.replace(cost, per_sample=then)


def scaled(
    scenario: Scenario, factor: float, resource: Resource = Resource.CORES
) -> tuple[StageCost, ...]:
    """The stages with all costs of a resource multiplied."""
    return tuple(
        msgspec.structs.replace(stage, per_sample=stage.per_sample.scaled(factor))
        if stage.resource is resource
        else stage
        for stage in scenario.workload.stages
    )
