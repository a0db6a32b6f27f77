"""Each verdict from a profile made by hand, and the profile beside it that must not get it."""

from __future__ import annotations

import math

import msgspec
import pytest

from stoker.diagnose.diagnosis import diagnose
from stoker.records.diagnosis import FixCode, VerdictCode
from stoker.records.profile import (
    EpochFacts,
    Leg,
    LegCode,
    MemoryGrowth,
    Profile,
    RankFacts,
    StepInside,
)
from stoker.stats import Spread
from tests.unit.diagnose.profiles import about, leg, profile, stage


def serial() -> Profile:
    return profile(real=0.18, device=0.08, wait=0.1, loader=0.1, cpu=0.1, workers=0)


def starved(**changes: object) -> Profile:
    """Two workers on two cores make a batch in 250 ms, all of it computing; the step takes 80."""
    known = {
        "real": 0.25,
        "device": 0.08,
        "contended": 0.08,
        "drain": 0.25,
        "loader": 0.25,
        "cpu": 0.49,
        "wait": 0.17,
    }
    return profile(**(known | changes))  # type: ignore[arg-type]


def waiting(*scaling: Leg) -> Profile:
    """Two workers that are blocked for most of their time."""
    return starved(cpu=0.05, scaling=scaling)


def healthy(**changes: object) -> Profile:
    known = {
        "real": 0.102,
        "device": 0.1,
        "contended": 0.1,
        "drain": 0.1,
        "loader": 0.03,
        "cpu": 0.05,
    }
    return profile(**(known | changes))  # type: ignore[arg-type]


def with_host(given: Profile, **changes: object) -> Profile:
    return msgspec.structs.replace(given, host=msgspec.structs.replace(given.host, **changes))


def with_loader(given: Profile, **changes: object) -> Profile:
    return msgspec.structs.replace(given, loader=msgspec.structs.replace(given.loader, **changes))


def on_a_device(given: Profile) -> Profile:
    environment = msgspec.structs.replace(given.environment, device="emulated", emulated=True)
    return msgspec.structs.replace(given, environment=environment)


def code_of(given: Profile) -> VerdictCode:
    return diagnose(given).verdict.code


def first_fix(given: Profile) -> FixCode:
    fixes = diagnose(given).fixes
    return fixes[0].code if fixes else FixCode.NONE


def test_loading_inside_the_step_is_a_serial_loader_and_overlap_is_promised() -> None:
    diagnosis = diagnose(serial())
    assert diagnosis.verdict.code is VerdictCode.SERIAL_LOADER
    assert diagnosis.fixes[0].code is FixCode.OVERLAP
    promised = diagnosis.fixes[0].speedup
    assert promised is not None
    # 180 ms become at best the 80 ms of the device
    assert 1.9 < promised.median <= 0.18 / 0.08


def test_workers_that_failed_when_they_were_tried_are_promised_nothing() -> None:
    given = profile(real=0.1, device=0.02, wait=0.08, loader=0.08, cpu=0.08, workers=0)
    assert diagnose(given).fixes[0].speedup is not None
    note = "a loader of 2 workers failed: BadZipFile: Bad magic number (zipfile.py:1582)"
    environment = msgspec.structs.replace(given.environment, notes=(note,))
    (fix, *_) = diagnose(msgspec.structs.replace(given, environment=environment)).fixes
    assert (fix.code, fix.speedup) == (FixCode.OVERLAP, None)
    assert "BadZipFile" in fix.preconditions[0]


def test_overlap_comes_first_even_where_storing_would_give_more() -> None:
    slow = profile(real=0.52, device=0.02, wait=0.5, loader=0.5, cpu=0.5, workers=0)
    given = with_loader(slow, random_share=0.02, random_op="flip", sample_s=0.5 / 16)
    fixes = diagnose(given).fixes
    assert [fix.code for fix in fixes[:2]] == [FixCode.OVERLAP, FixCode.PACK]
    assert fixes[0].speedup and fixes[1].speedup
    assert fixes[1].speedup.median > fixes[0].speedup.median
    assert fixes[1].how.startswith("stoker pack --from DIAGNOSIS PACK stores samples as they are")
    assert "(flip and what follows it stays)" in fixes[1].how
    cut = "packed once: Resize | in every epoch: flip"
    (_, pack, *_) = diagnose(with_loader(given, cut=cut)).fixes
    assert f"({cut}); stoker run --apply pack=PACK" in pack.how
    (_, pack, *_) = diagnose(with_loader(given, iterable=True)).fixes
    assert pack.how.startswith("stoker pack DATA PACK")


def test_workers_that_compute_on_all_cores_are_saturated_and_more_of_them_are_a_dont() -> None:
    diagnosis = diagnose(starved())
    assert diagnosis.verdict.code is VerdictCode.CPU_SATURATED
    assert FixCode.WORKERS in {row.code for row in diagnosis.dont}
    assert FixCode.WORKERS not in {fix.code for fix in diagnosis.fixes}


@pytest.mark.parametrize(
    ("random_share", "kind", "fix"),
    [(0.05, "deterministic", FixCode.PACK), (0.9, "random", FixCode.DEVICE_AUGMENT)],
)
def test_what_other_seeds_change_decides_between_storing_and_moving(
    random_share: float, kind: str, fix: FixCode
) -> None:
    given = with_loader(
        starved(), random_share=random_share, random_op="crop", sample_s=0.49 / 16, samples=10**8
    )
    assert diagnose(given).verdict.kind == kind
    assert first_fix(given) is fix


def test_a_small_set_is_kept_in_memory_rather_than_packed() -> None:
    given = with_loader(starved(), random_share=0.0, sample_s=0.49 / 16, samples=100)
    assert first_fix(given) is FixCode.CACHE_RAM


def test_a_collation_that_takes_most_of_the_time_goes_first() -> None:
    given = with_loader(
        starved(), random_share=0.5, random_op="crop", sample_s=0.002, collate_s=0.4
    )
    assert first_fix(given) is FixCode.VECTORISE_COLLATE


def test_blocked_workers_that_more_of_them_do_not_help_wait_for_one_head() -> None:
    more = leg(LegCode.LOADER, 0.25, workers=4, cpu_s=about(0.05))
    one = leg(LegCode.LOADER, 0.26, workers=1, cpu_s=about(0.05))
    diagnosis = diagnose(waiting(more, one))
    assert (diagnosis.verdict.code, diagnosis.verdict.kind) == (
        VerdictCode.STORAGE_BOUND,
        "one-head",
    )
    assert diagnosis.fixes[0].code in {FixCode.SHARD, FixCode.CACHE_LOCAL}
    assert FixCode.WORKERS not in {fix.code for fix in diagnosis.fixes}


def test_blocked_workers_that_more_of_them_help_wait_for_latency() -> None:
    more = leg(LegCode.LOADER, 0.125, workers=4, cpu_s=about(0.05))
    most = leg(LegCode.LOADER, 0.063, workers=8, cpu_s=about(0.05))
    diagnosis = diagnose(waiting(more, most))
    assert (diagnosis.verdict.code, diagnosis.verdict.kind) == (
        VerdictCode.STORAGE_BOUND,
        "latency",
    )
    assert FixCode.WORKERS in {fix.code for fix in diagnosis.fixes}


def test_one_worker_beside_a_free_core_is_too_few() -> None:
    more = leg(LegCode.LOADER, 0.125, workers=2, cpu_s=about(0.13))
    given = starved(cpu=0.13, workers=1, scaling=(more,))
    assert code_of(given) is VerdictCode.TOO_FEW_WORKERS
    assert first_fix(given) is FixCode.WORKERS


def test_fewer_cores_than_the_machine_has_are_an_allocation() -> None:
    given = with_host(
        starved(cpu=0.245, queued=0.25, contended=0.15, device=0.15),
        cores_owned=1.0,
        affinity=1,
        worker_affinity=1,
    )
    assert code_of(given) is VerdictCode.CPU_ALLOCATION
    assert first_fix(given) is FixCode.CPU_ALLOCATION


def test_the_same_on_a_machine_that_has_no_more_is_saturation() -> None:
    given = with_host(
        starved(cpu=0.245), cores_owned=1.0, affinity=1, worker_affinity=1, cpus_online=1
    )
    assert code_of(given) is VerdictCode.CPU_SATURATED


def test_a_quota_that_stops_the_job_is_an_allocation_though_workers_look_blocked() -> None:
    given = with_host(starved(cpu=0.15), cores_owned=1.0, quota=1.0, throttled_share=0.9)
    diagnosis = diagnose(given)
    assert (diagnosis.verdict.code, diagnosis.verdict.kind) == (
        VerdictCode.CPU_ALLOCATION,
        "quota",
    )


def test_workers_that_are_slower_than_none_stand_in_the_way() -> None:
    inline = leg(LegCode.LOADER, 0.05, workers=0, cpu_s=about(0.05))
    given = starved(cpu=0.3, scaling=(inline,))
    assert code_of(given) is VerdictCode.HANDOFF_BOUND
    assert first_fix(given) is FixCode.FEWER_WORKERS


def test_an_empty_batch_that_takes_as_long_is_the_hand_off() -> None:
    given = starved(cpu=0.3)
    null = leg(LegCode.NULL, 0.2)
    assert code_of(msgspec.structs.replace(given, legs=given.legs | {"N": null})) is (
        VerdictCode.HANDOFF_BOUND
    )


def test_a_copy_that_is_not_overlapped_is_a_matter_of_delivery() -> None:
    given = on_a_device(healthy(real=0.145, device=0.1, host=0.14, contended=0.14, drain=0.14))
    assert code_of(given) is VerdictCode.DELIVERY_BOUND
    assert first_fix(given) is FixCode.PINNED_ASYNC


def test_epochs_that_take_longer_to_begin_than_to_run_are_a_boundary() -> None:
    given = healthy()
    given = msgspec.structs.replace(
        given,
        real=about(0.4),
        epochs=EpochFacts(batches=10, boundaries=5, edge_s=about(3.0), start_s=3.0),
    )
    assert code_of(given) is VerdictCode.EPOCH_BOUNDARY
    assert first_fix(given) is FixCode.PERSISTENT_WORKERS
    # Workers that are kept go on with the data set as it was when they began.
    assert any("each epoch" in what for what in diagnose(given).fixes[0].preconditions)


def test_a_loader_that_keeps_up_is_not_blamed() -> None:
    diagnosis = diagnose(healthy())
    assert diagnosis.verdict.code is VerdictCode.DEVICE_BOUND
    assert diagnosis.fixes == ()


def test_a_little_jitter_is_nobodys_fault() -> None:
    assert code_of(healthy(real=0.108)) is VerdictCode.DEVICE_BOUND


def test_much_jitter_with_capacity_to_spare_is_variance() -> None:
    given = healthy(real=0.14, wait=0.04, longest_wait_s=0.5)
    assert code_of(given) is VerdictCode.VARIANCE_STALLS
    assert first_fix(given) is FixCode.PREFETCH_DEPTH


def test_jitter_of_many_small_waits_is_no_variance_of_the_samples() -> None:
    assert code_of(healthy(real=0.14, wait=0.04, longest_wait_s=0.08)) is VerdictCode.INCONCLUSIVE


def test_much_jitter_without_waits_is_not_blamed_on_the_loader() -> None:
    given = profile(
        real=0.042, device=0.034, contended=0.035, drain=0.020, loader=0.010, cpu=0.008, wait=0.0013
    )
    assert code_of(given) is VerdictCode.INCONCLUSIVE


def test_a_wide_interval_is_inconclusive_and_says_how_many_more_steps_would_tell() -> None:
    given = healthy()
    wide = leg(LegCode.REAL, 0.102, period=Spread(0.102, 0.06, 0.16, 10), steps=10)
    given = msgspec.structs.replace(
        given, legs=given.legs | {"R": wide}, real=Spread(0.102, 0.06, 0.16, 10)
    )
    verdict = diagnose(given).verdict
    assert verdict.code is VerdictCode.INCONCLUSIVE
    assert "more steps of leg R" in verdict.sentence


def test_three_steps_are_too_few_to_tell() -> None:
    given = serial()
    short = leg(LegCode.REAL, 0.18, steps=3, workers=0)
    assert code_of(msgspec.structs.replace(given, legs=given.legs | {"R": short})) is (
        VerdictCode.INCONCLUSIVE
    )


def test_a_run_without_the_model_alone_is_inconclusive() -> None:
    given = serial()
    legs = {code: value for code, value in given.legs.items() if code != "D"}
    diagnosis = diagnose(msgspec.structs.replace(given, legs=legs))
    assert diagnosis.verdict.code is VerdictCode.INCONCLUSIVE
    assert math.isnan(diagnosis.verdict.lost_share.median)


def test_waiting_for_a_result_in_each_step_is_a_sync() -> None:
    inside = StepInside(samples=100, library=0.3, read_back=0.68)
    given = on_a_device(healthy(inside=inside))
    assert code_of(given) is VerdictCode.HOST_SYNC
    assert first_fix(given) is FixCode.SYNC_LESS
    assert code_of(healthy(inside=inside)) is VerdictCode.DEVICE_BOUND  # no device to wait for


def test_python_of_the_script_in_the_step_is_host_work() -> None:
    given = healthy(inside=StepInside(samples=100, python=0.5, blocked=0.5))
    assert code_of(given) is VerdictCode.HOST_WORK
    assert first_fix(given) is FixCode.HOST_WORK_LESS


def test_a_step_made_of_launches_is_bound_by_overhead() -> None:
    given = on_a_device(healthy(inside=StepInside(samples=100, library=0.9, blocked=0.1)))
    assert code_of(given) is VerdictCode.OVERHEAD_BOUND
    assert first_fix(given) is FixCode.LARGER_BATCH


def test_copies_that_will_not_fit_are_a_risk_and_no_more_workers_are_advised() -> None:
    growth = MemoryGrowth(
        unique_bytes=10**8, bytes_per_batch=300_000.0, main_bytes=5 * 10**9, batches=500
    )
    diagnosis = diagnose(healthy(memory=growth))
    assert diagnosis.verdict.code is VerdictCode.MEMORY_RISK
    assert "about batch" in diagnosis.verdict.sentence
    assert [fix.code for fix in diagnosis.fixes] == [FixCode.FLAT_STORAGE]
    assert diagnosis.fixes[0].speedup is None


def keeping(lately: float | None = 1.0, **changes: int) -> Profile:
    """Workers that keep what they make: a megabyte a batch, 8 GB left."""
    growth = MemoryGrowth(
        unique_bytes=10**8, bytes_per_batch=1e6, main_bytes=10**8, batches=500, lately=lately
    )
    given = healthy(
        memory=growth, epochs=EpochFacts(batches=10_000, boundaries=0, edge_s=None, start_s=0.1)
    )
    assert given.loader is not None
    loader = msgspec.structs.replace(given.loader, **{"batch_bytes": 1_000_000, **changes})
    return msgspec.structs.replace(given, loader=loader)


def test_workers_that_keep_what_they_make_end_the_run() -> None:
    diagnosis = diagnose(keeping())
    assert (diagnosis.verdict.code, diagnosis.verdict.kind) == (VerdictCode.MEMORY_RISK, "kept")
    assert "memory ends about batch 8500" in diagnosis.verdict.sentence
    assert diagnosis.fixes[0].code is FixCode.FLAT_STORAGE
    assert "maxsize" in diagnosis.fixes[0].how


@pytest.mark.parametrize(
    "given",
    [
        keeping(lately=0.1),  # it comes to an end
        keeping(lately=None),
        keeping(batch_bytes=4_000_000),  # less than a batch holds
    ],
)
def test_growth_that_ends_or_is_none_of_samples_is_no_cache(given: Profile) -> None:
    assert code_of(given) is VerdictCode.DEVICE_BOUND


def test_copies_that_fit_are_no_risk() -> None:
    growth = MemoryGrowth(
        unique_bytes=10**8, bytes_per_batch=300_000.0, main_bytes=10**9, batches=500
    )
    assert code_of(healthy(memory=growth)) is VerdictCode.DEVICE_BOUND


def test_batches_that_do_not_fit_into_shared_memory_are_a_risk_of_another_kind() -> None:
    given = with_host(healthy(), shm_bytes=64_000_000, shm_needed_bytes=400_000_000)
    diagnosis = diagnose(given)
    assert (diagnosis.verdict.code, diagnosis.verdict.kind) == (VerdictCode.MEMORY_RISK, "shm")
    assert [fix.code for fix in diagnosis.fixes] == [FixCode.SHM_SIZE]


def test_workers_with_a_narrower_mask_than_their_parent_get_it_back_first() -> None:
    given = with_host(starved(cpu=0.245, queued=0.25), worker_affinity=1)
    diagnosis = diagnose(given)
    assert (diagnosis.verdict.code, diagnosis.verdict.kind) == (
        VerdictCode.CPU_ALLOCATION,
        "worker affinity",
    )
    assert diagnosis.fixes[0].code is FixCode.RESTORE_AFFINITY


def test_fewer_workers_that_are_faster_are_advised() -> None:
    fewer = leg(LegCode.LOADER, 0.1, workers=1, cpu_s=about(0.09))
    given = starved(cpu=0.3, scaling=(fewer,))
    assert code_of(given) is VerdictCode.HANDOFF_BOUND
    assert first_fix(given) is FixCode.FEWER_WORKERS


def test_archives_opened_for_each_sample_are_kept_open() -> None:
    stages = (stage("open (zip)", 0.02), stage("read (zip)", 0.005))
    given = with_loader(starved(stages=stages), read_amplification=70.0)
    assert first_fix(given) in {FixCode.REOPEN_HANDLE, FixCode.ACCESS_PATTERN}
    assert FixCode.REOPEN_HANDLE in {fix.code for fix in diagnose(given).fixes}


def test_a_peer_that_waits_for_its_batches_is_named() -> None:
    ranks = (
        RankFacts(rank=0, real_s=0.1, device_s=0.1, loader_s=0.01, wait_s=0.002),
        RankFacts(rank=1, real_s=0.1, device_s=0.04, loader_s=0.06, wait_s=0.06),
    )
    diagnosis = diagnose(healthy(ranks=ranks))
    assert diagnosis.verdict.code is VerdictCode.PEER_RANK
    assert "Rank 1" in diagnosis.verdict.sentence


def test_one_process_of_several_alone_is_never_called_device_bound() -> None:
    given = healthy()
    environment = msgspec.structs.replace(given.environment, world=4)
    assert code_of(msgspec.structs.replace(given, environment=environment)) is (
        VerdictCode.INCONCLUSIVE
    )


def test_workers_that_wait_for_cores_that_others_hold_are_saturated_too() -> None:
    more = leg(LegCode.LOADER, 0.17, workers=4, cpu_s=about(0.3), runqueue_s=about(0.35))
    given = starved(cpu=0.3, queued=0.19, scaling=(more,))
    assert code_of(given) is VerdictCode.CPU_SATURATED


def test_a_small_loss_beside_other_processes_is_left_open() -> None:
    given = with_host(healthy(real=0.108, drain=0.108, loader=0.108), foreign_cores=0.9)
    diagnosis = diagnose(given)
    assert diagnosis.verdict.code is VerdictCode.INCONCLUSIVE
    assert "other processes" in diagnosis.verdict.sentence


def test_a_large_loss_that_no_leg_explains_is_put_down_to_other_processes_where_there_are() -> None:
    given = healthy(real=0.15, contended=0.14, drain=0.05, loader=0.05)
    assert "no leg that was run tells why" in diagnose(given).verdict.sentence
    beside = diagnose(with_host(given, foreign_cores=0.9)).verdict
    assert beside.code is VerdictCode.INCONCLUSIVE
    assert "other processes kept 0.9" in beside.sentence


def test_workers_that_would_keep_up_if_others_left_them_their_cores_are_not_blamed() -> None:
    too_slow = with_host(starved(), foreign_cores=0.9)
    assert code_of(too_slow) is VerdictCode.CPU_SATURATED
    crowded_out = starved(device=0.2, contended=0.2, cpu=0.28, queued=0.19)  # 1.4 of 2 cores
    diagnosis = diagnose(with_host(crowded_out, foreign_cores=0.9))
    assert diagnosis.verdict.code is VerdictCode.INCONCLUSIVE
    assert "other processes" in diagnosis.verdict.sentence
    idle = starved(device=0.2, contended=0.2, cpu=0.05, queued=0.0)  # they wait for something else
    assert code_of(with_host(idle, foreign_cores=1.9)) is not VerdictCode.INCONCLUSIVE


def test_files_read_whole_for_each_of_their_samples_are_amplified() -> None:
    given = with_loader(starved(), read_amplification=70.0)
    assert code_of(given) is VerdictCode.READ_AMPLIFICATION
    assert first_fix(given) is FixCode.ACCESS_PATTERN


def test_threads_that_are_faster_alone_are_oversubscribed() -> None:
    given = with_loader(starved(), native_threads=38)
    single = leg(LegCode.ONE_THREAD, 0.05)
    given = msgspec.structs.replace(given, legs=given.legs | {"T": single})
    assert code_of(given) is VerdictCode.OVERSUBSCRIBED
    assert first_fix(given) is FixCode.NATIVE_THREADS


def test_many_threads_that_are_no_faster_alone_are_left_alone() -> None:
    given = with_loader(starved(), native_threads=2048)
    single = leg(LegCode.ONE_THREAD, 0.25)
    diagnosis = diagnose(msgspec.structs.replace(given, legs=given.legs | {"T": single}))
    assert diagnosis.verdict.code is VerdictCode.CPU_SATURATED
    assert FixCode.NATIVE_THREADS not in {fix.code for fix in diagnosis.fixes}


def test_small_items_that_cost_microseconds_are_a_cost_per_item() -> None:
    given = with_loader(serial(), batch_size=1000, batch_bytes=80_000)
    assert code_of(given) is VerdictCode.PER_ITEM_OVERHEAD
    assert first_fix(given) is FixCode.BATCHED_FETCH


def test_every_promise_is_narrow_enough_to_be_one() -> None:
    for given in (serial(), starved(), waiting(), healthy()):
        for fix in diagnose(given).fixes:
            assert fix.speedup is None or fix.speedup.high / fix.speedup.low <= 1.4
