"""A pace that changes while it is watched: the device's, or the machine's."""

from __future__ import annotations

import msgspec

from stoker.diagnose.diagnosis import diagnose
from stoker.records.diagnosis import VerdictCode
from stoker.records.profile import LegCode, Profile
from tests.unit.diagnose.profiles import about, leg, profile


def healthy() -> Profile:
    return profile(real=0.102, device=0.1, contended=0.1, drain=0.1, loader=0.03, cpu=0.05)


def with_host(given: Profile, **changes: object) -> Profile:
    return msgspec.structs.replace(given, host=msgspec.structs.replace(given.host, **changes))


def code_of(given: Profile) -> VerdictCode:
    return diagnose(given).verdict.code


def test_a_model_that_gets_slower_drifts() -> None:
    given = healthy()
    slower = leg(LegCode.DEVICE, 0.1, drift=1.3, windows=4)
    real = leg(LegCode.REAL, 0.102, drift=1.2)
    drifting = msgspec.structs.replace(given, legs=given.legs | {"D": slower, "R": real})
    assert code_of(drifting) is VerdictCode.DEVICE_DRIFT
    # Others on the cores slow a model on the host, and no device.
    on_host = msgspec.structs.replace(slower, main_cpu_s=about(0.09))
    drifting = msgspec.structs.replace(given, legs=given.legs | {"D": on_host, "R": real})
    assert code_of(drifting) is VerdictCode.DEVICE_DRIFT
    assert code_of(with_host(drifting, foreign_cores=0.8)) is VerdictCode.DEVICE_BOUND


def test_a_passing_slowness_of_the_machine_is_no_drift() -> None:
    given = profile(real=0.102, device=0.1, contended=0.1, drain=0.02, loader=0.02, cpu=0.01)
    legs = {
        "D": leg(LegCode.DEVICE, 0.1, drift=1.3, windows=6),
        "R": leg(LegCode.REAL, 0.102, drift=1.17),
        "C": leg(LegCode.CONTENDED, 0.1, drift=1.04),
    }
    passing = msgspec.structs.replace(given, legs=given.legs | legs)
    assert code_of(passing) is VerdictCode.DEVICE_BOUND


def test_a_drift_that_the_real_step_does_not_share_is_none() -> None:
    given = healthy()
    slower = leg(LegCode.DEVICE, 0.1, drift=1.3, windows=4)
    steady = msgspec.structs.replace(given, legs=given.legs | {"D": slower})
    assert code_of(steady) is VerdictCode.DEVICE_BOUND


def test_parts_that_add_up_to_far_more_than_the_step_tell_nothing() -> None:
    given = profile(real=0.2, device=0.14, wait=0.13, loader=0.12, cpu=0.12, workers=0)
    verdict = diagnose(given).verdict
    assert verdict.code is VerdictCode.INCONCLUSIVE
    assert "add up to 270 ms, and the step takes 200 ms" in verdict.sentence
    assert "other processes" not in verdict.sentence
    crowded = diagnose(with_host(given, foreign_cores=1.2)).verdict.sentence
    assert "as other processes kept 1.2 of the 2 cores busy" in crowded
