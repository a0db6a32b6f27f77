"""Stoker's own loaders are followed as torch's is, also where threads make their samples."""

from __future__ import annotations

import os

import pytest

from stoker.diagnose.diagnosis import diagnose
from stoker.records.diagnosis import VerdictCode
from stoker.records.profile import THREADS, LegCode, Profile
from tests.attach.examined import LOAD_S, STEP_S, about, seconds, watch

pytestmark = pytest.mark.usefixtures("in_folder")


def _has_threads(profile: Profile, count: int) -> None:
    assert profile.loader is not None
    assert (profile.loader.workers, profile.loader.start_method) == (count, THREADS)
    assert profile.loader.dataset == "slow_numbers.SlowNumbers"
    assert seconds(profile, LegCode.DEVICE) == about(STEP_S)
    assert seconds(profile, LegCode.LOADER) == about(LOAD_S / count)
    assert seconds(profile, LegCode.REAL) == about(max(STEP_S, LOAD_S / count))
    assert seconds(profile, LegCode.CONTENDED) == about(STEP_S)
    assert seconds(profile, LegCode.NULL) < LOAD_S / 4, "nothing is pickled between threads"
    assert profile.host.shm_needed_bytes is None
    assert all(leg.workers for leg in profile.scaling), "no setting of it means no worker at all"


def test_threads_are_workers_in_the_process_of_the_script() -> None:
    profile = watch("own_loader.py", 2, "threads", 4000, budget_s=4)

    _has_threads(profile, 2)
    alone = profile.legs[LegCode.LOADER]
    assert alone.cpu_s is not None
    assert 0 < alone.cpu_s.median < LOAD_S / 2, "samples that sleep were taken for work"


@pytest.mark.full
@pytest.mark.parametrize("workers", [0, 1])
def test_one_thread_works_beside_the_step(workers: int) -> None:
    profile = watch("own_loader.py", workers, "auto", 4000, budget_s=10)

    _has_threads(profile, 1)
    more = {leg.workers: leg.period.median for leg in profile.scaling}
    assert more[2] == about(LOAD_S / 2), "with two workers it finds out that threads help"
    stages = {stage.stage: stage for stage in profile.stages}
    assert stages["SlowNumbers.__getitem__"].where == "worker"
    assert stages["SlowNumbers.__getitem__"].wall_s == about(LOAD_S / 4)


@pytest.mark.full
def test_what_the_first_batches_find_out_is_followed_over_short_epochs() -> None:
    profile = watch("own_loader.py", 2, "auto", 120, budget_s=8)

    _has_threads(profile, 2)
    assert profile.epochs is not None
    assert profile.epochs.batches == 30
    assert profile.epochs.boundaries >= 1


@pytest.mark.full
def test_the_verdict_is_that_of_the_same_work_under_torchs_loader() -> None:
    ours = diagnose(watch("own_loader.py", 1, "auto", 4000, budget_s=10))
    torchs = diagnose(watch("plain_for.py", 1, budget_s=10))

    assert ours.verdict.code is torchs.verdict.code
    assert ours.step.au == about(torchs.step.au, 0.15)


@pytest.mark.full
def test_work_that_holds_the_interpreter_is_followed_into_its_processes() -> None:
    profile = watch("own_loader.py", 2, "auto", 4000, "counting", budget_s=10)

    assert profile.loader is not None
    assert (profile.loader.workers, profile.loader.start_method) == (2, "fork")
    assert seconds(profile, LegCode.DEVICE) == about(STEP_S)
    assert LegCode.LOADER in profile.legs


@pytest.mark.parametrize("array", ["torch", pytest.param("numpy", marks=pytest.mark.full)])
def test_a_loader_of_pictures_is_followed_with_its_threads_and_stages(array: str) -> None:
    profile = watch("own_pictures.py", array, 10, budget_s=6)

    cores = len(os.sched_getaffinity(0))
    assert profile.loader is not None
    assert (profile.loader.workers, profile.loader.start_method) == (cores, THREADS)
    assert (profile.loader.dataset, profile.loader.watched) == ("stoker.Loader", None)
    assert (profile.loader.batch_size, profile.loader.samples) == (8, 160)
    assert seconds(profile, LegCode.DEVICE) == about(0.010)
    assert seconds(profile, LegCode.REAL) == about(0.010)
    assert seconds(profile, LegCode.LOADER) < 0.010
    assert LegCode.CONTENDED in profile.legs and LegCode.NULL not in profile.legs
    stages = {stage.stage: stage for stage in profile.stages}
    assert {"read", "decode"} <= set(stages)
    assert stages["decode"].where == "worker"
    assert 0 < stages["decode"].cpu_s <= 1.1 * stages["decode"].wall_s
    assert profile.epochs is not None and profile.epochs.batches == 20
    # Of epochs of 0.2 s the start of a pass is a tenth; beside other processes that hold cores the
    # verdict is left open.
    healthy = (VerdictCode.DEVICE_BOUND, VerdictCode.EPOCH_BOUNDARY, VerdictCode.INCONCLUSIVE)
    assert diagnose(profile).verdict.code in healthy
    assert profile.environment.notes == ()


@pytest.mark.full
def test_a_loader_that_sets_the_pace_is_told_by_its_own_arguments() -> None:
    profile = watch("own_pictures.py", "torch", 0.2, budget_s=8)

    diagnosis = diagnose(profile)
    assert diagnosis.verdict.code not in (VerdictCode.DEVICE_BOUND, VerdictCode.SERIAL_LOADER)
    assert not any("DataLoader" in fix.how for fix in diagnosis.fixes)
