"""Waiting for a store: what raw reads of the loader's files add, and what is no store at all."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stoker.diagnose.diagnosis import diagnose
from stoker.records.diagnosis import Diagnosis, FixCode, VerdictCode
from stoker.records.profile import Leg, LegCode, Profile, ReadCost, StageTime
from stoker.records.storage import StoreKind, StoreScaling
from tests.unit.diagnose.profiles import about, leg, profile


def slow(*scaling: Leg, **changes: Any) -> Profile:
    """Two workers that are blocked for nine tenths of their time, 28 ms a sample of 16."""
    given = profile(
        real=0.25, device=0.1, contended=0.1, drain=0.25, loader=0.25, cpu=0.05, **changes
    )
    return msgspec.structs.replace(given, scaling=scaling)


def reads(cold_s: float | None, kind: StoreKind, **changes: Any) -> ReadCost:
    """Leg Q: 200 files of 100 kB."""
    known: dict[str, Any] = {
        "files": 200,
        "bytes_per_read": 100_000.0,
        "cold_s": about(cold_s) if cold_s is not None else None,
        "warm_s": about(20e-6),
        "resident_share": 0.1,
        "store": StoreScaling(kind=kind, reason="raw reads told so", most_per_s=70.0),
    }
    return ReadCost(**(known | changes))


def stage(wall_s: float, blocked_s: float, cpu_s: float) -> StageTime:
    return StageTime(
        stage="read (file)",
        where="worker",
        wall_s=wall_s,
        cpu_s=cpu_s,
        blocked_s=blocked_s,
        runqueue_s=0.0,
        calls=1.0,
    )


def with_reads(given: Profile, found: ReadCost) -> Diagnosis:
    return diagnose(msgspec.structs.replace(given, reads=found))


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (StoreKind.BANDWIDTH, "bandwidth"),
        (StoreKind.THROTTLED, "throttled"),
        (StoreKind.ONE_HEAD, "one-head"),
        (StoreKind.SLOTS, "latency"),
        (StoreKind.LATENCY, "latency"),
    ],
)
def test_reads_that_explain_the_waits_name_the_kind(kind: StoreKind, told: str) -> None:
    verdict = with_reads(slow(), reads(0.02, kind)).verdict
    assert (verdict.code, verdict.kind) == (VerdictCode.STORAGE_BOUND, told)
    assert "Raw reads told so" in verdict.sentence


def test_what_a_read_costs_cold_and_warm_is_evidence() -> None:
    verdict = with_reads(slow(), reads(0.02, StoreKind.LATENCY, latency_s=0.018)).verdict
    rows = {row.claim: row for row in verdict.evidence if row.leg == "Q"}
    assert [row.measured.median for row in rows.values()] == [0.02, 0.018, 0.1]
    assert "from memory 0.02 ms" in next(iter(rows.values())).compared_with


def test_files_that_are_read_in_no_time_are_not_what_is_waited_for() -> None:
    more = leg(LegCode.LOADER, 0.25, workers=4, cpu_s=about(0.05))
    one = leg(LegCode.LOADER, 0.26, workers=1, cpu_s=about(0.05))
    verdict = with_reads(slow(more, one), reads(0.0008, StoreKind.BANDWIDTH)).verdict
    assert (verdict.code, verdict.kind) == (VerdictCode.STORAGE_BOUND, "one-head")
    assert "The files that it opens are not it" in verdict.sentence
    assert "0.80 ms" in verdict.sentence


def test_bytes_that_cannot_be_read_cold_are_told() -> None:
    found = reads(None, StoreKind.UNKNOWN, store=None, never_cold="a tmpfs is memory")
    assert "could not be measured: a tmpfs is memory." in with_reads(slow(), found).verdict.sentence


def test_workers_that_wait_between_their_fetches_wait_for_no_store() -> None:
    serial = leg(LegCode.LOADER, 0.09, workers=0, cpu_s=about(0.0899))
    given = slow(serial, stages=(stage(0.001, 0.0, 0.001),))
    diagnosis = diagnose(given)
    assert diagnosis.verdict.code is VerdictCode.HANDOFF_BOUND
    assert diagnosis.fixes[0].code is FixCode.FEWER_WORKERS


def test_a_loader_that_computes_when_it_has_no_workers_waits_for_no_store_either() -> None:
    serial = leg(LegCode.LOADER, 0.09, workers=0, cpu_s=about(0.0899))
    assert diagnose(slow(serial)).verdict.code is VerdictCode.HANDOFF_BOUND


def test_one_head_serves_a_single_reader_faster_and_stays_a_store() -> None:
    serial = leg(LegCode.LOADER, 0.2, workers=0, cpu_s=about(0.01))
    waits = stage(0.028, 0.027, 0.001)
    for given in (slow(serial), slow(serial, stages=(waits,))):
        assert diagnose(given).verdict.code is VerdictCode.STORAGE_BOUND


def test_no_more_workers_are_told_to_wait_for_a_store_than_were_tried_on_it() -> None:
    more = leg(LegCode.LOADER, 0.125, workers=4, cpu_s=about(0.05))
    (first, *others) = diagnose(slow(more)).fixes
    assert first.code in {FixCode.SHARD, FixCode.CACHE_LOCAL}
    (told,) = [fix for fix in others if fix.code is FixCode.WORKERS]
    assert told.how == "DataLoader(…, num_workers=4)"
    assert told.speedup is not None and told.speedup.median == pytest.approx(2.0, rel=0.05)


def test_slots_of_a_store_end_the_advice_of_workers_where_they_end_their_gain() -> None:
    more = leg(LegCode.LOADER, 0.125, workers=4, cpu_s=about(0.05))
    most = leg(LegCode.LOADER, 0.1245, workers=8, cpu_s=about(0.05))
    fixes = {fix.code: fix for fix in diagnose(slow(more, most)).fixes}
    told = fixes[FixCode.WORKERS]
    assert told.how == "DataLoader(…, num_workers=4)"
    assert told.speedup is not None and told.speedup.median == pytest.approx(2.0, rel=0.05)


def test_workers_come_first_where_a_service_answers_more_of_them_and_its_files_are_not_it() -> None:
    """Each sample waits 4.5 ms for an answer; eight workers fill the cores with the rest."""
    serial = profile(
        real=0.083, device=0.033, contended=0.034, drain=0.083, loader=0.083, cpu=0.029, workers=1
    )
    more = tuple(
        leg(LegCode.LOADER, seconds, workers=workers, cpu_s=about(0.029), runqueue_s=about(queued))
        for workers, seconds, queued in ((2, 0.041, 0.003), (4, 0.023, 0.01), (8, 0.015, 0.04))
    )
    found = reads(0.0001, StoreKind.FAST)
    diagnosis = with_reads(msgspec.structs.replace(serial, scaling=more), found)
    assert (diagnosis.verdict.code, diagnosis.verdict.kind) == (
        VerdictCode.STORAGE_BOUND,
        "latency",
    )
    first, *others = diagnosis.fixes
    assert first.code is FixCode.WORKERS
    assert first.speedup is not None and first.speedup.median > 2
    for fix in others:
        assert fix.code in {FixCode.SHARD, FixCode.CACHE_LOCAL}
        assert fix.speedup is None and "files that were seen are not it" in fix.withheld
    assert diagnosis.outlook is not None and diagnosis.outlook.ladder, "others keep their numbers"
