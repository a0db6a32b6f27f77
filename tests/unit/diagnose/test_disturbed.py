"""Workers beside other processes, which hold cores and keep batches from being taken."""

from __future__ import annotations

import msgspec
import pytest

from stoker.diagnose.diagnosis import diagnose
from stoker.records.diagnosis import FixCode, VerdictCode
from stoker.records.profile import LegCode, Profile
from stoker.report.advice import card
from stoker.theory.calibrate import scenario_from
from stoker.theory.question import AboutMeasured
from tests.unit.diagnose.profiles import about, leg, profile


def idle(*, cpu: float, foreign: float) -> Profile:
    """Two workers that make a batch in 100 ms and are off their cores for a while; the step takes
    50 ms. Four of them look faster."""
    given = profile(
        real=0.1, device=0.05, contended=0.05, drain=0.1, loader=0.1, cpu=cpu, queued=0.01
    )
    more = leg(LegCode.LOADER, 0.07, workers=4, cpu_s=about(cpu), runqueue_s=about(0.1))
    host = msgspec.structs.replace(given.host, foreign_cores=foreign)
    return msgspec.structs.replace(given, scaling=(more,), host=host)


def test_idle_workers_beside_others_on_the_cores_are_not_too_few() -> None:
    # 2.6 cores are needed, 2 owned; 1.3 are used and 0.5 are held by others.
    assert diagnose(idle(cpu=0.13, foreign=0.5)).verdict.code is VerdictCode.CPU_SATURATED


def test_idle_workers_with_cores_to_themselves_are_too_few() -> None:
    assert diagnose(idle(cpu=0.13, foreign=0.0)).verdict.code is VerdictCode.TOO_FEW_WORKERS


def test_free_cores_that_others_hold_are_not_free() -> None:
    # 0.9 cores would do, and are there; but others hold the rest while it was measured.
    verdict = diagnose(idle(cpu=0.045, foreign=1.5)).verdict
    assert verdict.code is not VerdictCode.TOO_FEW_WORKERS


def test_the_device_is_idle_for_as_much_of_the_time_as_is_lost() -> None:
    # Waits of a disturbed run that add up to more than the run beyond the device's own step.
    given = profile(real=0.2, device=0.1, wait=0.14, loader=0.1, cpu=0.1, workers=0)
    verdict = diagnose(given).verdict
    assert verdict.code is VerdictCode.SERIAL_LOADER
    assert "50% of the time the device has nothing to do" in verdict.sentence


def test_the_workers_that_would_do_are_those_of_predict_from_the_measured_counts() -> None:
    given = profile(real=0.2, device=0.1, wait=0.1, loader=0.1, cpu=0.1, workers=0)
    # Two workers, one of them enough by CPU time alone, were measured slower than the step.
    slow = leg(LegCode.LOADER, 0.12, workers=2, cpu_s=about(0.1), runqueue_s=about(0.1))
    seen = msgspec.structs.replace(given, scaling=(slow,))
    question = AboutMeasured(profile=seen, base=scenario_from(seen))
    assert question.workers_for(0.95) is None
    assert "no number of workers reaches" in diagnose(seen).capacity.sentence
    assert question.at("workers", 2).scenario().loader.efficiency < 0.5


@pytest.mark.parametrize(
    ("alone", "real", "code"),
    [
        # As measured: two workers on two cores, 1.45 of which would do; the loop wakes late.
        (0.056, 0.0859, VerdictCode.DEVICE_BOUND),
        # A loader that is too slow by as little is told as one.
        (0.0855, 0.0859, VerdictCode.CPU_SATURATED),
        # And so is a large loss, whatever the loader does alone.
        (0.056, 0.1, VerdictCode.CPU_SATURATED),
    ],
)
def test_waits_for_a_core_beside_a_loader_that_keeps_up_are_no_slow_loader(
    alone: float, real: float, code: VerdictCode
) -> None:
    given = profile(
        real=real,
        device=0.08025,
        contended=0.081,
        drain=real,
        loader=alone,
        cpu=1.98 * alone,
        wait=real - 0.081,
    )
    assert diagnose(given).verdict.code is code


@pytest.mark.parametrize(
    ("alone", "contended", "code"),
    [
        # As measured under a Trainer: a worker that is done in a quarter of the step slows it.
        (0.0099, 0.0412, VerdictCode.DEVICE_BOUND),
        # One that is only just done may be what slows it.
        (0.0358, 0.0412, VerdictCode.INCONCLUSIVE),
        # As much as this is no matter of a turn on a core.
        (0.0099, 0.0432, VerdictCode.INCONCLUSIVE),
    ],
)
def test_a_step_that_a_loader_with_time_to_spare_slows_is_the_devices(
    alone: float, contended: float, code: VerdictCode
) -> None:
    given = profile(
        real=contended,
        device=0.0361,
        contended=contended,
        drain=contended,
        loader=alone,
        cpu=0.008,
        workers=1,
    )
    assert diagnose(given).verdict.code is code


@pytest.mark.parametrize(("foreign", "is_promised"), [(0.0, True), (0.3, True), (0.8, False)])
def test_a_gain_that_hangs_on_other_processes_is_not_promised(
    foreign: float, *, is_promised: bool
) -> None:
    given = profile(real=0.2, device=0.1, wait=0.1, loader=0.1, cpu=0.09, workers=0)
    host = msgspec.structs.replace(given.host, foreign_cores=foreign)
    diagnosis = diagnose(msgspec.structs.replace(given, host=host))
    assert diagnosis.verdict.code is VerdictCode.SERIAL_LOADER
    assert diagnosis.fixes[0].code is FixCode.OVERLAP
    assert (diagnosis.fixes[0].speedup is not None) == is_promised
    assert (diagnosis.outlook is not None) == is_promised
    told = card(1, diagnosis.fixes[0]).promise
    assert ("other processes kept 0.8 of the 2 cores busy" in told) == (not is_promised)
