"""Loops without a loader: what their steps and gaps allow to say, and no more."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.diagnose.diagnosis import diagnose
from stoker.records.diagnosis import FixCode, VerdictCode
from stoker.records.profile import (
    End,
    Environment,
    Gap,
    HostTruth,
    LegCode,
    Outside,
    Profile,
    Script,
)
from tests.unit.diagnose.profiles import about, leg

STEP_S = 0.040


def loop(gap_s: float, outside: float, *, samples: int = 500, **environment: Any) -> Profile:
    """A loop of 40 ms steps."""
    return Profile(
        script=Script(argv=("train.py",), cwd="."),
        end=End.BUDGET,
        legs={"R": leg(LegCode.REAL, STEP_S, workers=0)},
        real=about(STEP_S),
        gap=Gap(
            seconds=about(gap_s),
            samples=samples,
            outside=outside,
            places=(Outside(file="/job/train.py", line=12, function="get_batch", share=outside),),
        ),
        host=HostTruth(cores_owned=2.0, affinity=2),
        environment=Environment(stoker="0", python="3", machine="test", **environment),
    )


@pytest.mark.parametrize(
    ("profile", "code"),
    [
        pytest.param(loop(0.020, 0.5), VerdictCode.SERIAL_LOADER, id="a long gap"),
        pytest.param(loop(0.001, 0.03), VerdictCode.DEVICE_BOUND, id="the model alone"),
        pytest.param(loop(0.001, 0.07), VerdictCode.DEVICE_BOUND, id="a loss and some logging"),
        pytest.param(loop(0.001, 0.5), VerdictCode.INCONCLUSIVE, id="batches made in mid-step"),
        pytest.param(loop(0.004, 0.1), VerdictCode.INCONCLUSIVE, id="a gap of logging's length"),
        pytest.param(
            loop(0.020, 0.5, device="cuda:0"), VerdictCode.INCONCLUSIVE, id="a device works on"
        ),
        pytest.param(loop(0.001, 0.03, world=2), VerdictCode.INCONCLUSIVE, id="one of two ranks"),
        pytest.param(loop(0.020, 0.5, samples=9), VerdictCode.INCONCLUSIVE, id="few samples"),
    ],
)
def test_a_verdict_says_what_the_gap_can_tell(profile: Profile, code: VerdictCode) -> None:
    assert diagnose(profile).verdict.code is code


def test_too_few_samples_say_how_many_more_steps_would_do() -> None:
    # 50 samples in 40 steps: four times as many steps hold 200.
    assert "About 120 more steps would" in diagnose(loop(0.020, 0.5, samples=50)).verdict.sentence


def test_the_place_outside_of_the_model_is_named() -> None:
    assert "get_batch (train.py:12)" in diagnose(loop(0.020, 0.5)).verdict.sentence


def test_what_cannot_be_told_names_the_one_line_that_can() -> None:
    for profile in (loop(0.020, 0.5), loop(0.001, 0.5), loop(0.02, 0.5, device="cuda:0")):
        assert "stoker.watch(batches)" in diagnose(profile).verdict.sentence


def test_the_rows_sum_to_the_step_and_are_leg_rs() -> None:
    diagnosis = diagnose(loop(0.020, 0.5))
    assert sum(row.seconds for row in diagnosis.ledger) == pytest.approx(STEP_S)
    assert {row.leg for row in diagnosis.ledger} == {"R"}
    assert diagnosis.verdict.lost_share.median == pytest.approx(0.5)


def test_a_fix_promises_no_gain_that_was_not_forecast() -> None:
    (fix,) = diagnose(loop(0.020, 0.5)).fixes
    assert (fix.code, fix.speedup, fix.measured) == (FixCode.OVERLAP, None, None)
    assert diagnose(loop(0.001, 0.03)).fixes == ()
