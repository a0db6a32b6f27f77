"""Validation that takes much of a run: at the end of epochs, or in their middle."""

from __future__ import annotations

import msgspec
import pytest

from stoker.diagnose.diagnosis import diagnose
from stoker.records.diagnosis import FixCode, VerdictCode
from stoker.records.profile import EpochFacts, Profile, StepInside
from tests.unit.diagnose.profiles import profile

STEP_S = 0.1


def validating(
    *,
    batches: int | None = 100,
    per_step: int = 1,
    at_boundary_s: float = 0.0,
    mid_s: float = 0.0,
    inside: StepInside | None = None,
) -> Profile:
    """A healthy run of 100 ms steps that validates; the arguments are those of EpochFacts."""
    given = profile(real=0.101, device=STEP_S, loader=0.03, cpu=0.02, inside=inside)
    assert given.loader is not None
    epochs = EpochFacts(
        batches=batches,
        boundaries=3,
        edge_s=None,
        start_s=0.01,
        validation_s=at_boundary_s,
        mid_validation_s=mid_s,
    )
    loader = msgspec.structs.replace(given.loader, batches_per_step=float(per_step))
    return msgspec.structs.replace(given, epochs=epochs, loader=loader)


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(validating(at_boundary_s=20.0), id="after each epoch"),
        pytest.param(validating(mid_s=0.2), id="in mid-epoch"),
        pytest.param(validating(batches=None, mid_s=0.2), id="a stream, which has no epochs"),
        pytest.param(validating(at_boundary_s=10.0, mid_s=0.1), id="both"),
        # Eight batches make one step: an epoch has as many fewer of them.
        pytest.param(validating(at_boundary_s=2.5, per_step=8), id="gradients gathered"),
    ],
)
def test_validation_that_takes_two_thirds_of_the_time_is_named_with_what_to_do(
    given: Profile,
) -> None:
    diagnosis = diagnose(given)
    assert diagnosis.verdict.code is VerdictCode.VALIDATION_PHASE
    assert "takes 66% of the time: 200 ms for each training step" in diagnosis.verdict.sentence
    (fix,) = diagnosis.fixes
    assert fix.code is FixCode.METRIC_ON_DEVICE
    assert "every n-th epoch" in fix.how
    # A forecast is of training steps.
    assert fix.speedup is None
    assert "validation" in fix.withheld


def test_the_whole_epoch_is_told_where_it_has_an_end() -> None:
    assert "20.0 s an epoch" in diagnose(validating(at_boundary_s=20.0)).verdict.sentence
    assert "an epoch" not in diagnose(validating(batches=None, mid_s=0.2)).verdict.sentence


def test_validation_that_takes_a_third_of_the_time_is_left_alone() -> None:
    assert diagnose(validating(at_boundary_s=5.0)).verdict.code is VerdictCode.DEVICE_BOUND


def test_work_of_the_host_beside_a_long_validation_is_told_too() -> None:
    given = validating(at_boundary_s=20.0, inside=StepInside(samples=100, python=0.4, blocked=0.6))
    verdict = diagnose(given).verdict
    assert verdict.code is VerdictCode.VALIDATION_PHASE
    assert verdict.secondary == (VerdictCode.HOST_WORK,)
