"""What a device says of itself stands beside what the legs say."""

from __future__ import annotations

import msgspec
import pytest

from stoker.diagnose.diagnosis import diagnose
from stoker.records.diagnosis import VerdictCode
from stoker.records.profile import DeviceFacts, LegCode, Profile

from .profiles import about, profile

_OWN_EVENTS = "by its own events"


def run(device: DeviceFacts | None, *, drift: float | None = None) -> Profile:
    found = profile(real=0.041, device=0.040, loader=0.002, cpu=0.001, workers=2)
    drifting = {
        code: msgspec.structs.replace(found.legs[code], drift=drift, windows=3)
        for code in (LegCode.DEVICE, LegCode.REAL)
    }
    return msgspec.structs.replace(found, legs=found.legs | drifting, device=device)


def test_idle_time_by_the_devices_own_events_is_evidence_beside_the_fixed_batch_test() -> None:
    verdict = diagnose(run(DeviceFacts(idle_s=about(0.001)))).verdict
    (row,) = (row for row in verdict.evidence if _OWN_EVENTS in row.claim)
    assert row.measured.median == pytest.approx(0.001)
    assert row.compared_with == "R - D 1.00 ms"


def test_a_run_without_such_a_device_has_no_such_row() -> None:
    diagnosis = diagnose(run(None))
    assert not any(_OWN_EVENTS in row.claim for row in diagnosis.verdict.evidence)
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
