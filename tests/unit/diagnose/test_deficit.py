"""Why a loader is slower than the step, where more than one rule would hold."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stoker.diagnose.diagnosis import diagnose
from stoker.records.diagnosis import FixCode, VerdictCode
from stoker.records.profile import (
    BatchTimes,
    CostTrend,
    Leg,
    LegCode,
    Profile,
    SampleCost,
    StageScaling,
)
from stoker.stats import Spread
from tests.unit.diagnose.profiles import about, leg, profile, stage


def starved(workers: int = 2, **changes: Any) -> Profile:
    """Workers that make a batch in 250 ms, all of it computing; the step takes 80."""
    known = {"real": 0.25, "device": 0.08, "contended": 0.08, "drain": 0.25, "loader": 0.25}
    return profile(**(known | {"cpu": 0.49, "wait": 0.17, "workers": workers} | changes))


def with_leg(given: Profile, added: Leg) -> Profile:
    return msgspec.structs.replace(given, legs=given.legs | {str(added.code): added})


def with_loader(given: Profile, **changes: Any) -> Profile:
    return msgspec.structs.replace(given, loader=msgspec.structs.replace(given.loader, **changes))


def small_items(given: Profile) -> Profile:
    """A thousand items of 80 bytes a batch."""
    return with_loader(given, batch_size=1000, batch_bytes=80_000)


def other(workers: int, seconds: float, cpu: float = 0.05) -> Leg:
    return leg(LegCode.LOADER, seconds, workers=workers, cpu_s=about(cpu))


def test_the_hand_over_is_blamed_only_where_an_empty_batch_shows_it() -> None:
    verdict = diagnose(with_leg(starved(cpu=0.3), leg(LegCode.NULL, 0.2))).verdict
    assert verdict.code is VerdictCode.HANDOFF_BOUND
    assert "handing over an empty one 200 ms" in verdict.sentence
    assert "not into making them" in verdict.sentence


@pytest.mark.parametrize("fewer", [0, 1])
def test_fewer_workers_that_are_faster_while_handing_over_costs_nothing_are_in_the_way(
    fewer: int,
) -> None:
    given = starved(cpu=0.3, scaling=(other(fewer, 0.1, 0.09),))
    verdict = diagnose(with_leg(given, leg(LegCode.NULL, 0.002))).verdict
    assert (verdict.code, verdict.kind) == (VerdictCode.HANDOFF_BOUND, "interference")
    assert "stand in each other's way" in verdict.sentence
    assert "handing batches over" not in verdict.sentence


def test_a_hand_over_that_is_most_of_what_workers_add_is_no_interference() -> None:
    given = starved(cpu=0.3, scaling=(other(0, 0.05, 0.05),))
    verdict = diagnose(with_leg(given, leg(LegCode.NULL, 0.13))).verdict
    assert (verdict.code, verdict.kind) == (VerdictCode.HANDOFF_BOUND, None)
    assert "130 ms, which is most of what the workers add" in verdict.sentence


def test_workers_that_fill_all_cores_are_saturated_though_fewer_of_them_are_faster() -> None:
    given = starved(8, cpu=0.49, queued=1.4, scaling=(other(4, 0.2, 0.39),))
    diagnosis = diagnose(with_leg(given, leg(LegCode.NULL, 0.002)))
    assert diagnosis.verdict.code is VerdictCode.CPU_SATURATED
    assert "With 4 of them a batch takes 200 ms" in diagnosis.verdict.sentence
    assert FixCode.FEWER_WORKERS in {fix.code for fix in diagnosis.fixes}


def test_many_workers_under_a_small_allocation_are_not_in_each_others_way() -> None:
    given = starved(8, cpu=0.245, queued=1.4, contended=0.15, scaling=(other(4, 0.2, 0.2),))
    host = msgspec.structs.replace(
        given.host, cores_owned=1.0, affinity=1, worker_affinity=1, cpus_online=8
    )
    assert diagnose(msgspec.structs.replace(given, host=host)).verdict.code is (
        VerdictCode.CPU_ALLOCATION
    )


@pytest.mark.parametrize(("workers", "cpu"), [(1, 0.24), (2, 0.49)])
def test_small_items_cost_per_item_with_workers_too(workers: int, cpu: float) -> None:
    more = other(2 * workers, 0.13, cpu)
    diagnosis = diagnose(small_items(starved(workers, cpu=cpu, scaling=(more,))))
    assert diagnosis.verdict.code is VerdictCode.PER_ITEM_OVERHEAD
    assert "more workers would only share it out" in diagnosis.verdict.sentence
    assert diagnosis.fixes[0].code is FixCode.BATCHED_FETCH


def test_small_items_that_are_waited_for_or_handed_over_are_no_cost_per_item() -> None:
    blocked = small_items(starved(cpu=0.05))
    assert diagnose(blocked).verdict.code is VerdictCode.STORAGE_BOUND
    handed = with_leg(small_items(starved()), leg(LegCode.NULL, 0.2))
    assert diagnose(handed).verdict.code is VerdictCode.HANDOFF_BOUND


@pytest.mark.parametrize(("locked_s", "is_told"), [(0.05, True), (0.011, False)])
def test_the_stage_in_which_workers_meet_is_named(locked_s: float, is_told: bool) -> None:
    alone = (stage("Store.read", 0.002), stage("decode (Pillow)", 0.010))
    together = (stage("Store.read", locked_s), stage("decode (Pillow)", 0.022))
    given = starved(
        cpu=0.3,
        scaling=(other(1, 0.1, 0.09),),
        stages=together,
        stage_scaling=StageScaling(workers=1, stages=alone),
    )
    verdict = diagnose(given).verdict
    assert (", most of all in Store.read." in verdict.sentence) is is_told
    assert ("Store.read" in [row.claim for row in verdict.evidence]) is is_told


@pytest.mark.parametrize(("own_s", "kind"), [(0.0005, "random"), (0.02, None)])
def test_a_draw_in_the_data_set_itself_is_apart_where_its_own_code_takes_little(
    own_s: float, kind: str | None
) -> None:
    stages = (
        stage("Photos.load", 0.006, deterministic=True),
        stage("warp (Pillow)", 0.024, deterministic=False),
        stage("Photos.__getitem__", own_s, deterministic=False),
    )
    given = with_loader(
        starved(stages=stages), random_share=0.8, random_op="Photos.__getitem__", sample_s=0.03
    )
    assert diagnose(given).verdict.kind == kind


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(
    ("opening", "read", "code"),
    [
        ("open (zip)", 1.9, VerdictCode.READ_AMPLIFICATION),
        ("open (zip)", None, None),  # an archive of each sample's own
        ("open (file)", 1.9, None),
    ],
)
def test_an_archive_that_is_opened_for_each_of_its_samples_is_named(
    workers: int, opening: str, read: float | None, code: VerdictCode | None
) -> None:
    stages = (
        stage(opening, 0.02, deterministic=True),
        stage("decode (Pillow)", 0.01, deterministic=True),
    )
    serial = {"real": 0.33, "wait": 0.25, "contended": None, "drain": None}
    given = starved(workers, stages=stages, **({} if workers else serial))
    diagnosis = diagnose(with_loader(given, read_amplification=read))
    assert (diagnosis.verdict.code is VerdictCode.READ_AMPLIFICATION) is (code is not None)
    if code is not None:
        assert diagnosis.verdict.kind == "metadata"
        assert "67% of the time of a sample goes into opening" in diagnosis.verdict.sentence
        assert [fix.code for fix in diagnosis.fixes] == [FixCode.REOPEN_HANDLE]


def test_a_data_set_that_draws_first_is_as_random_as_its_stages_are() -> None:
    stages = (
        stage("Photos.load", 0.027, deterministic=True),
        stage("crop (Pillow)", 0.002, deterministic=False),
        stage("Photos.__getitem__", 0.001, deterministic=False),
    )
    given = with_loader(
        starved(stages=stages), random_share=0.99, random_op="Photos.__getitem__", sample_s=0.03
    )
    diagnosis = diagnose(given)
    assert diagnosis.verdict.kind == "deterministic"
    assert diagnosis.fixes[0].code is FixCode.PACK
    assert "make a transform of what is random in Photos.__getitem__" in diagnosis.fixes[0].how
    assert diagnosis.outlook is not None and not diagnosis.outlook.irreducible


def test_single_samples_that_take_very_long_are_stalls_where_no_window_tells_the_mean() -> None:
    """One page in a hundred takes 0.9 s: 18 ms a batch of four workers in the long run."""
    slow = SampleCost(index=7, wall_s=0.9, cpu_s=0.001)
    uneven = CostTrend(samples=400, spread=1.1, median_s=0.0005)
    more = Leg(
        code=LegCode.LOADER,
        period=Spread(0.057, 0.0, 0.12, 32),
        middle=0.002,
        steps=32,
        windows=1,
        workers=8,
        cpu_s=about(0.004),
    )
    given = profile(
        real=0.093, device=0.04, contended=0.04, drain=0.093, loader=0.076, cpu=0.004, wait=0.06
    )
    alone = msgspec.structs.replace(
        given.legs["L"], period=Spread(0.076, 0.0, 0.158, 24), middle=0.002
    )
    told = {"legs": given.legs | {"L": alone}, "scaling": (more,), "trend": uneven}
    diagnosis = diagnose(msgspec.structs.replace(given, slowest=(slow,), **told))
    assert diagnosis.verdict.code is VerdictCode.VARIANCE_STALLS
    assert "single samples take 900 ms, 1800 times the usual" in diagnosis.verdict.sentence
    assert diagnosis.fixes[0].code is FixCode.PREFETCH_DEPTH
    # Where every sample waits alike the store is to blame.
    even = msgspec.structs.replace(slow, wall_s=0.001)
    alike = diagnose(msgspec.structs.replace(given, slowest=(even,), **told))
    assert alike.verdict.code is VerdictCode.STORAGE_BOUND
    # A data set that makes whole batches tells of these.
    told["trend"] = None
    for slowest, code in ((0.9, VerdictCode.VARIANCE_STALLS), (0.01, VerdictCode.STORAGE_BOUND)):
        batches = BatchTimes(workers=4, seconds=(0.002,) * 60 + (slowest,))
        found = diagnose(msgspec.structs.replace(given, batches=batches, **told)).verdict
        assert found.code is code
        assert ("single batches take 900 ms" in found.sentence) == (slowest == 0.9)


def test_a_job_on_fewer_cores_than_the_machine_has_lacks_cores_where_workers_slow_the_step() -> (
    None
):
    """The model and its loader on one of two cores, each fast enough alone."""
    given = profile(real=0.068, device=0.026, contended=0.065, drain=0.067, loader=0.036, cpu=0.035)
    busy = {
        code: msgspec.structs.replace(given.legs[code], main_cpu_s=about(0.026)) for code in "RDC"
    }
    whole = msgspec.structs.replace(given, legs=given.legs | busy)
    host = msgspec.structs.replace(
        given.host, cores_owned=1.0, affinity=1, worker_affinity=1, cpus_online=2
    )
    diagnosis = diagnose(msgspec.structs.replace(whole, host=host))
    assert (diagnosis.verdict.code, diagnosis.verdict.kind) == (
        VerdictCode.CPU_ALLOCATION,
        "affinity",
    )
    assert diagnosis.fixes[0].code is FixCode.CPU_ALLOCATION
