"""Profiles made by hand: a healthy run, and what changes it into a starved one."""

from __future__ import annotations

from typing import Any

import msgspec

from stoker.diagnose.case import Case
from stoker.diagnose.diagnosis import scenario_of
from stoker.diagnose.facts import facts_of
from stoker.records.diagnosis import VerdictCode
from stoker.records.profile import (
    End,
    Environment,
    EpochFacts,
    HostTruth,
    Leg,
    LegCode,
    LoaderFacts,
    Profile,
    Script,
    StageTime,
)
from stoker.stats import Spread


def about(value: float, share: float = 0.01, count: int = 40) -> Spread:
    """A number with an interval of ± share."""
    return Spread(value, value * (1 - share), value * (1 + share), count)


def leg(code: LegCode, seconds: float, **changes: Any) -> Leg:
    """A leg of that mean period."""
    known: dict[str, Any] = {
        "code": code,
        "period": about(seconds),
        "middle": seconds,
        "steps": 40,
        "windows": 2,
        "workers": 2,
    }
    return Leg(**(known | changes))


def stage(name: str, seconds: float, **changes: Any) -> StageTime:
    """A stage of the workers that computes for so long, once a sample."""
    known: dict[str, Any] = {
        "where": "worker",
        "cpu_s": seconds,
        "blocked_s": 0.0,
        "runqueue_s": 0.0,
        "calls": 1.0,
    }
    return StageTime(stage=name, wall_s=seconds, **(known | changes))


def profile(
    *,
    real: float,
    device: float,
    host: float | None = None,
    contended: float | None = None,
    drain: float | None = None,
    loader: float | None = None,
    cpu: float | None = None,
    queued: float = 0.0001,
    workers: int = 2,
    wait: float = 0.0,
    **changes: Any,
) -> Profile:
    """A run with these mean periods, in seconds; `cpu` is the loader's CPU time a
    batch, `queued` its workers' wait for a core."""
    legs = {
        LegCode.REAL: leg(LegCode.REAL, real, workers=workers),
        LegCode.DEVICE: leg(LegCode.DEVICE, device, workers=workers, main_cpu_s=about(0.001)),
    }
    if host is not None:
        legs[LegCode.HOST] = leg(LegCode.HOST, host, workers=workers)
    if contended is not None:
        legs[LegCode.CONTENDED] = leg(
            LegCode.CONTENDED,
            contended,
            workers=workers,
            drain=about(drain) if drain is not None else None,
            main_cpu_s=about(0.001),
        )
    if loader is not None:
        legs[LegCode.LOADER] = leg(
            LegCode.LOADER,
            loader,
            workers=workers,
            cpu_s=about(cpu) if cpu is not None else None,
            runqueue_s=about(queued) if workers else None,
            main_cpu_s=about(0.0005),
        )
    whole = Profile(
        script=Script(argv=("train.py",), cwd="."),
        end=End.CONVERGED,
        legs={str(code): value for code, value in legs.items()},
        real=about(real),
        waits=about(wait) if wait else Spread.exact(0.0),
        loader=LoaderFacts(workers=workers, batch_size=16, batch_bytes=1_000_000, samples=100_000),
        epochs=EpochFacts(batches=1000, boundaries=0, edge_s=None, start_s=0.1),
        host=HostTruth(
            cores_owned=2.0,
            affinity=2,
            cpus_online=2,
            worker_affinity=2 if workers else None,
            memory_available_bytes=8_000_000_000,
        ),
        environment=Environment(stoker="0", python="3", machine="test"),
    )
    return msgspec.structs.replace(whole, **changes)


def case_of(given: Profile) -> Case:
    """What fixes are forecast from."""
    facts = facts_of(given)
    assert facts is not None
    scenario = scenario_of(given, facts, VerdictCode.CPU_SATURATED)
    assert scenario is not None
    return Case(facts, scenario)
