"""Hand-made diagnoses, one for each face that a report has; numbers of the kind really measured."""

from __future__ import annotations

import math
from typing import Any

from msgspec.structs import replace

from stoker.records.diagnosis import (
    Capacity,
    Diagnosis,
    Dont,
    Evidence,
    FixCode,
    HostSummary,
    Part,
    Step,
    Symptom,
    Tried,
    Tryout,
    Verdict,
    VerdictCode,
)
from stoker.records.profile import (
    End,
    Environment,
    HostTruth,
    LegCode,
    Profile,
)
from stoker.stats import Spread
from tests.golden.parts import ENVIRONMENT, SCRIPT, leg, row
from tests.golden.starving import cpu_saturated, serial_loader


def device_bound() -> Diagnosis:
    """A healthy run: nothing to mend."""
    environment = ENVIRONMENT
    real = Spread(0.1204, 0.1199, 0.1209, 180)
    host = HostTruth(cores_owned=2.0, affinity=2, cpus_online=2, busy_of_owned=0.31)
    return Diagnosis(
        script=SCRIPT,
        symptom=Symptom(
            host_cpu_busy_of_owned=0.31,
            device_busy_reported=0.97,
            sentence="The device reports 97% and the host has cores to spare.",
        ),
        verdict=Verdict(
            code=VerdictCode.DEVICE_BOUND,
            sentence="The step takes 120 ms with batches that lie ready on the device, and the "
            "same with the loader: the loader keeps up, with a third of its pace to spare.",
            lost_share=Spread(0.003, -0.002, 0.008),
            evidence=(
                Evidence(
                    claim="the same step on batches kept on the device",
                    measured=Spread(0.1200, 0.1196, 0.1204),
                    unit="s",
                    compared_with="R = 120.4 ms",
                    leg="D",
                ),
            ),
        ),
        step=Step(
            real_s=0.1204,
            real_median_s=0.1203,
            device_s=0.1200,
            host_s=0.1201,
            contended_s=0.1202,
            loader_s=0.0790,
            au=0.997,
            batch_size=32,
            samples_per_s=265.8,
        ),
        ledger=(
            row(Part.DEVICE, 0.1200, 0.1196, 0.1204, "D"),
            row(Part.TRANSFER, 0.0001, -0.0003, 0.0005, "H−D"),
            row(Part.CONTENTION, 0.0001, -0.0004, 0.0006, "C−H"),
            row(Part.RATE_DEFICIT, 0.0, 0.0, 0.0, "Lc−C"),
            row(Part.EPOCH_EDGE, 0.0, 0.0, 0.0, "R"),
            row(Part.JITTER, 0.0002, -0.0004, 0.0008, "R"),
        ),
        stages=(),
        host=HostSummary(
            cores_owned=2.0, affinity=2, cpus_online=2, busy_of_owned=0.31, cores_needed=0.62
        ),
        fixes=(),
        dont=(
            Dont(
                code=FixCode.WORKERS,
                speedup=Spread(1.0, 0.99, 1.01),
                why="batches are ready before they are asked for",
            ),
        ),
        capacity=Capacity(
            cores_per_accelerator=0.62,
            sentence="This workload needs 0.62 cores for one accelerator of this pace.",
        ),
        profile=Profile(
            script=SCRIPT,
            end=End.CONVERGED,
            legs={
                "R": leg(LegCode.REAL, real, workers=2),
                "D": leg(LegCode.DEVICE, Spread(0.1200, 0.1196, 0.1204, 64)),
            },
            real=real,
            host=host,
            environment=environment,
        ),
        environment=environment,
    )


def inconclusive() -> Diagnosis:
    """Too few steps: one leg has no interval, others are missing."""
    environment = Environment(
        stoker="0.1.0", python="3.11.7", machine="Linux 6.1 x86_64", writes="no-op"
    )
    real = Spread(0.21, 0.15, 0.29, 3)
    return Diagnosis(
        script=SCRIPT,
        symptom=Symptom(host_cpu_busy_of_owned=None, device_busy_reported=None),
        verdict=Verdict(
            code=VerdictCode.INCONCLUSIVE,
            sentence="The script ended after 3 steps: the intervals of the real step and of the "
            "model alone overlap. About 40 more steps would tell.",
            lost_share=Spread(0.33, -0.1, 0.6),
        ),
        step=Step(
            real_s=0.21,
            real_median_s=0.2,
            device_s=0.14,
            host_s=None,
            contended_s=None,
            loader_s=None,
            au=0.67,
            batch_size=None,
        ),
        ledger=(
            row(Part.DEVICE, 0.14, -math.inf, math.inf, "D"),
            row(Part.JITTER, 0.07, -math.inf, math.inf, "R"),
        ),
        stages=(),
        host=HostSummary(cores_owned=2.0, affinity=2, cpus_online=2),
        fixes=(),
        dont=(),
        capacity=Capacity(cores_per_accelerator=None, sentence=""),
        profile=Profile(
            script=SCRIPT,
            end=End.SCRIPT_ENDED,
            legs={
                "R": leg(LegCode.REAL, real, windows=1),
                "D": leg(LegCode.DEVICE, Spread(0.14, -math.inf, math.inf, 1), windows=1),
            },
            real=real,
            host=HostTruth(cores_owned=2.0, affinity=2, cpus_online=2),
            environment=environment,
        ),
        environment=environment,
    )


def interrupted() -> Diagnosis:
    """Ctrl-C after some legs: what was seen is told."""
    seen = serial_loader()
    legs = {code: leg for code, leg in seen.profile.legs.items() if code in "RD"}
    profile = replace(seen.profile, end=End.INTERRUPTED, exit_code=130, legs=legs, scaling=())
    return replace(seen, profile=profile)


def crashed() -> Diagnosis:
    """The script raised in a late step."""
    seen = serial_loader()
    return replace(seen, profile=replace(seen.profile, end=End.CRASHED, exit_code=7))


def emulated() -> Diagnosis:
    """The device is an EmulatedAccelerator: said before any number."""
    healthy = device_bound()
    environment = replace(healthy.environment, device="120 ms a step", emulated=True)
    profile = replace(healthy.profile, environment=environment)
    return replace(healthy, profile=profile, environment=environment)


def tried() -> Diagnosis:
    """The serial loader again, with other settings tried."""

    def row(name: str, step_s: float, gain: tuple[float, float, float], **more: Any) -> Tried:
        known: dict[str, Any] = {"is_tied": False, "memory_bytes": None, "costs": ""}
        seconds = Spread(step_s, 0.99 * step_s, 1.01 * step_s, 24)
        return Tried(name=name, step_s=seconds, speedup=Spread(*gain, 24), **(known | more))

    rows = (
        row("overlap=2", 0.0832, (2.12, 2.11, 2.14), is_tied=True, memory_bytes=33_900_000),
        row("overlap=1", 0.0973, (1.79, 1.78, 1.81), memory_bytes=21_300_000),
        row(
            "overlap=2,unordered",
            0.0832,
            (2.11, 2.10, 2.12),
            is_tied=True,
            memory_bytes=33_400_000,
            costs="same samples, other order",
        ),
        Tried(
            name="overlap=2,pinned-async",
            step_s=None,
            speedup=None,
            is_tied=False,
            memory_bytes=None,
            costs="",
            skipped="the model lives on the host: nothing is copied",
        ),
    )
    found = Tryout(
        baseline_s=Spread(0.177, 0.176, 0.178, 24),
        rows=rows,
        pick="overlap=2",
        sentence="overlap=2 gave 2.12x (2.11 to 2.14): the cheapest of 2 that are tied among 3 "
        "configurations tried.",
    )
    return replace(serial_loader(), tryout=found)


ALL = {
    factory.__name__.replace("_", "-"): factory
    for factory in (
        serial_loader,
        cpu_saturated,
        device_bound,
        inconclusive,
        interrupted,
        crashed,
        emulated,
        tried,
    )
}
