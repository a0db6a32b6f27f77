"""Loops without a DataLoader under the probe: marked by stoker.watch, or seen by their gaps."""

from __future__ import annotations

import pytest

from stoker.diagnose.diagnosis import diagnose
from stoker.records.diagnosis import FixCode, VerdictCode
from stoker.records.profile import LegCode
from tests.attach.examined import about, seconds, watch

pytestmark = pytest.mark.usefixtures("in_folder")

# Of scripts/watched.py.
LOAD_S, STEP_S = 0.020, 0.010
BUDGET_S = 6.0


def test_a_generator_is_tried_with_kept_batches_and_has_no_leg_of_its_own() -> None:
    profile = watch("watched.py", "generator", budget_s=BUDGET_S)

    assert seconds(profile, LegCode.DEVICE) == about(STEP_S)
    assert seconds(profile, LegCode.REAL) == about(LOAD_S + STEP_S)
    assert profile.leg(LegCode.LOADER) is None
    assert profile.loader is not None
    assert profile.loader.workers == 0
    assert profile.loader.samples is None
    assert profile.loader.batch_size == 8
    assert diagnose(profile).verdict.code is VerdictCode.SERIAL_LOADER


@pytest.mark.full
def test_what_can_be_iterated_again_is_also_drained_alone() -> None:
    profile = watch("watched.py", "again", budget_s=BUDGET_S)

    assert seconds(profile, LegCode.LOADER) == about(LOAD_S)
    assert profile.loader is not None
    assert profile.loader.workers == 0
    diagnosis = diagnose(profile)
    assert diagnosis.verdict.code is VerdictCode.SERIAL_LOADER
    (overlap, *_) = diagnosis.fixes
    assert overlap.code is FixCode.OVERLAP
    assert "worker" not in overlap.title + overlap.how


def test_what_works_ahead_is_not_called_serial() -> None:
    profile = watch("watched.py", "ahead", budget_s=BUDGET_S)

    assert seconds(profile, LegCode.REAL) == about(LOAD_S)
    assert seconds(profile, LegCode.DEVICE) == about(STEP_S)
    assert profile.loader is not None
    assert profile.loader.workers == 1
    verdict = diagnose(profile).verdict
    assert verdict.code not in (VerdictCode.SERIAL_LOADER, VerdictCode.DEVICE_BOUND)
    assert verdict.lost_share.median == about(0.5)
    assert "worker" not in verdict.sentence + "".join(row.claim for row in verdict.evidence)


@pytest.mark.full
def test_a_loader_inside_of_what_is_watched_is_no_loop_of_its_own() -> None:
    profile = watch("watched.py", "wrapped", budget_s=BUDGET_S)

    assert profile.loader is not None
    assert profile.loader.dataset == "builtins.generator"
    assert seconds(profile, LegCode.REAL) == about(LOAD_S + STEP_S)
    assert profile.epochs is not None
    assert profile.epochs.validation_s == 0


def test_batches_made_before_the_forward_pass_are_seen_in_the_gap() -> None:
    profile = watch("no_loader.py", 20, 20, "before", budget_s=BUDGET_S)

    assert profile.loader is None
    assert profile.gap is not None
    assert profile.gap.seconds.median == about(0.020)
    assert profile.gap.places[0].function == "get_batch"
    assert diagnose(profile).verdict.code is VerdictCode.SERIAL_LOADER


@pytest.mark.full
def test_batches_made_inside_the_step_leave_the_verdict_open() -> None:
    profile = watch("no_loader.py", 20, 20, "inside", budget_s=BUDGET_S)

    assert profile.gap is not None
    assert profile.gap.outside == about(0.5)
    assert diagnose(profile).verdict.code is VerdictCode.INCONCLUSIVE


@pytest.mark.full
def test_a_loop_that_has_its_batches_at_once_is_the_models_own() -> None:
    profile = watch("no_loader.py", 0, 80, "before", budget_s=BUDGET_S)

    assert diagnose(profile).verdict.code is VerdictCode.DEVICE_BOUND
