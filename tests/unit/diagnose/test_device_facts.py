"""What a device says of itself stands beside what the legs say."""

from __future__ import annotations

import msgspec
import pytest

from stoker.diagnose.diagnosis import diagnose
from stoker.records.diagnosis import FixCode, VerdictCode
from stoker.records.profile import DeviceFacts, LegCode, Profile, StepInside

from .profiles import about, profile

_OWN_ACCOUNT = "by its own account"


def run(device: DeviceFacts | None, *, drift: float | None = None) -> Profile:
    found = profile(real=0.041, device=0.040, loader=0.002, cpu=0.001, workers=2)
    drifting = {
        code: msgspec.structs.replace(found.legs[code], drift=drift, windows=3)
        for code in (LegCode.DEVICE, LegCode.REAL)
    }
    return msgspec.structs.replace(found, legs=found.legs | drifting, device=device)


def test_idle_time_by_the_devices_own_account_is_evidence_beside_the_fixed_batch_test() -> None:
    verdict = diagnose(run(DeviceFacts(idle_s=about(0.001)))).verdict
    (row,) = (row for row in verdict.evidence if _OWN_ACCOUNT in row.claim)
    assert row.measured.median == pytest.approx(0.001)
    assert row.compared_with == "R - D 1.00 ms"


def test_a_run_without_such_a_device_has_no_such_row() -> None:
    diagnosis = diagnose(run(None))
    assert not any(_OWN_ACCOUNT in row.claim for row in diagnosis.verdict.evidence)
    assert diagnosis.symptom.device_busy_reported is None


def test_what_the_device_reports_is_a_symptom_and_changes_no_verdict() -> None:
    busy, idle = (diagnose(run(DeviceFacts(busy_reported=share))) for share in (1.0, 0.1))
    assert busy.symptom.device_busy_reported == 1.0
    assert busy.verdict == idle.verdict


def test_a_drift_names_what_held_the_clock_down() -> None:
    named = diagnose(run(DeviceFacts(slowed_by=("thermal slowdown",)), drift=1.3)).verdict
    assert named.code is VerdictCode.DEVICE_DRIFT
    assert "held its clock down: thermal slowdown" in named.sentence
    assert "temperature or something else" in diagnose(run(None, drift=1.3)).verdict.sentence


# -- what a busy device covers is no cause ---------------------------------------------------------

CUDA = "cuda:0 NVIDIA L4"


def inside(states: StepInside, told: DeviceFacts | None, *, device: str = CUDA) -> Profile:
    """A fed device with a step of 40 ms, and where its host was meanwhile."""
    found = run(told)
    environment = msgspec.structs.replace(
        found.environment, device=device, emulated=device == "emulated"
    )
    return msgspec.structs.replace(found, environment=environment, inside=states)


def told(*, idle: float, behind: float | None = None) -> DeviceFacts:
    """A device without work for so long in a step of leg D, and so far behind its launches."""
    return DeviceFacts(
        idle_alone_s=about(idle), behind_s=about(behind) if behind is not None else None
    )


LAUNCHING = StepInside(samples=100, library=0.95, blocked=0.05)
READING_BACK = StepInside(samples=100, library=0.4, read_back=0.6)
COMPUTING = StepInside(samples=100, python=0.5, library=0.45)


@pytest.mark.parametrize(
    ("states", "device", "code"),
    [
        # Its queue is full, and the host polls for room in it: it is on a core all the time.
        pytest.param(LAUNCHING, told(idle=0.0, behind=0.05), "device-bound", id="full queue"),
        pytest.param(LAUNCHING, told(idle=0.0, behind=0.001), "overhead-bound", id="caught up"),
        pytest.param(LAUNCHING, None, "device-bound", id="launches, nothing told"),
        # The kernels of a step run while the rest of it is launched.
        pytest.param(READING_BACK, told(idle=0.0005, behind=0.024), "device-bound", id="covered"),
        pytest.param(READING_BACK, told(idle=0.01, behind=0.024), "host-sync", id="in turns"),
        pytest.param(READING_BACK, None, "device-bound", id="read-backs, nothing told"),
        pytest.param(COMPUTING, told(idle=0.0, behind=0.05), "device-bound", id="host ahead"),
        pytest.param(COMPUTING, told(idle=0.0, behind=0.001), "host-work", id="host behind"),
    ],
)
def test_the_host_of_a_cuda_device_is_to_blame_for_what_the_device_waits_alone(
    states: StepInside, device: DeviceFacts | None, code: str
) -> None:
    assert diagnose(inside(states, device)).verdict.code == code


def test_an_emulated_device_that_never_waits_has_no_slow_host() -> None:
    covered = inside(COMPUTING, told(idle=0.0), device="emulated")
    assert diagnose(covered).verdict.code is VerdictCode.DEVICE_BOUND
    waiting = inside(COMPUTING, told(idle=0.02), device="emulated")
    assert diagnose(waiting).verdict.code is VerdictCode.HOST_WORK


def test_no_more_is_promised_than_the_device_waits() -> None:
    diagnosis = diagnose(inside(READING_BACK, told(idle=0.01, behind=0.024)))
    (fix,) = diagnosis.fixes
    assert fix.code is FixCode.SYNC_LESS
    assert fix.speedup is not None
    assert fix.speedup.median == pytest.approx(0.040 / 0.030, rel=0.05)
