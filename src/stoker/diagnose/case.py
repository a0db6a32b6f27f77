"""What a fix is applied to, and how a scenario is changed."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from stoker.diagnose.facts import Facts
from stoker.diagnose.queueing import Simulation
from stoker.records.scenario import Resource, Scenario, StageCost


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
