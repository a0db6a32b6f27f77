"""Fixes together: each rung on top of the ones below, and no further than the device."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stoker.diagnose.diagnosis import diagnose
from stoker.records.codec import from_json, to_json
from stoker.records.diagnosis import SCHEMA, Diagnosis, FixCode, VerdictCode
from stoker.records.profile import LegCode, Profile
from stoker.report.view import view
from tests.unit.diagnose.profiles import about, leg, profile


def starved(**loader: Any) -> Profile:
    """Two workers on two cores: 0.5 s of computing a batch for a step of 80 ms."""
    given = profile(
        real=0.25, device=0.08, contended=0.08, drain=0.25, loader=0.25, cpu=0.49, wait=0.17
    )
    known = {"sample_s": 0.49 / 16, "random_op": "crop", "samples": 10**8}
    return msgspec.structs.replace(
        given, loader=msgspec.structs.replace(given.loader, **(known | loader))
    )


def serial(device_s: float) -> Diagnosis:
    """No workers; a batch takes 100 ms to make."""
    given = profile(real=device_s + 0.1, device=device_s, wait=0.1, loader=0.1, cpu=0.1, workers=0)
    return diagnose(given)


def test_overlap_alone_reaches_a_device_that_is_slow_enough() -> None:
    outlook = serial(0.2).outlook
    assert outlook is not None
    assert outlook.together == (FixCode.OVERLAP,)
    assert outlook.sentence.startswith("overlap reaches the pace of the device")


def test_packing_and_the_device_take_different_parts_of_the_work() -> None:
    outlook = diagnose(starved(random_share=0.5)).outlook
    assert outlook is not None
    steps = {rung.code: rung.step_s.median for rung in outlook.ladder}
    # Half of the work is stored; nearly all of the other half goes to the device.
    assert 0.45 * 0.25 < steps[FixCode.PACK] < 0.6 * 0.25
    # A twentieth of the random half is the device's: 12 ms on top of its 80.
    assert steps[FixCode.DEVICE_AUGMENT] == pytest.approx(0.08 + 0.49 / 2 / 20, rel=0.02)
    assert set(outlook.together) == {FixCode.PACK, FixCode.DEVICE_AUGMENT}
    assert "pack + device-augment reach 86% of the device's pace" in outlook.sentence
    assert outlook.irreducible.startswith("50% of the work on a sample is random (crop")


def test_workers_that_would_help_before_a_pack_do_not_keep_it_from_the_ladder() -> None:
    """Four workers make a batch in 200 ms in place of 250; behind a pack two are enough."""
    four = leg(LegCode.LOADER, 0.2, workers=4, cpu_s=about(0.4), runqueue_s=about(0.3))
    given = profile(
        real=0.25, device=0.08, contended=0.08, drain=0.25, loader=0.25, cpu=0.4, wait=0.17
    )
    loader = msgspec.structs.replace(
        given.loader, random_share=0.02, random_op="crop", sample_s=0.4 / 16, samples=10**8
    )
    outlook = diagnose(msgspec.structs.replace(given, loader=loader, scaling=(four,))).outlook
    assert outlook is not None
    assert [rung.code for rung in outlook.ladder] == [FixCode.WORKERS, FixCode.PACK]
    assert outlook.together == (FixCode.PACK,)


def test_a_draw_in_the_data_sets_own_body_promises_nothing_for_the_device() -> None:
    given = starved(random_share=0.9987, random_op="Photos.__getitem__")
    found = diagnose(given)
    codes = {fix.code for fix in found.fixes}
    assert not codes & {FixCode.DEVICE_AUGMENT, FixCode.PACK}
    assert found.verdict.kind is None
    assert "How much of it is random couldn't be told" in found.verdict.sentence


def test_where_the_random_part_is_not_apart_the_outlook_says_so() -> None:
    given = profile(real=0.1, device=0.05, wait=0.05, loader=0.05, cpu=0.05, workers=0)
    known = {"random_share": 0.9987, "random_op": "Photos.__getitem__", "sample_s": 0.05 / 16}
    loader = msgspec.structs.replace(given.loader, **known)
    outlook = diagnose(msgspec.structs.replace(given, loader=loader)).outlook
    assert outlook is not None
    assert outlook.together == (FixCode.OVERLAP,)
    assert FixCode.DEVICE_AUGMENT not in {rung.code for rung in outlook.ladder}
    assert "couldn't be told from the rest" in outlook.irreducible
    assert "Put the random operation into a transform" in outlook.irreducible


def test_what_adds_nothing_is_said_to() -> None:
    outlook = diagnose(starved(random_share=0.25)).outlook
    assert outlook is not None
    assert FixCode.DEVICE_AUGMENT not in outlook.together or "add" not in outlook.sentence


def test_no_rung_is_slower_than_the_one_below_or_faster_than_the_device() -> None:
    for share in (0.0, 0.3, 0.6, 0.9):
        outlook = diagnose(starved(random_share=share)).outlook
        if outlook is None:
            continue
        steps = [rung.step_s.median for rung in outlook.ladder]
        assert steps == sorted(steps, reverse=True)
        assert min(steps) >= outlook.ceiling_s.median
        cores = [rung.cores_per_accelerator for rung in outlook.ladder]
        assert cores == sorted(cores, reverse=True)


def test_a_healthy_run_has_no_ladder() -> None:
    healthy = profile(real=0.102, device=0.1, contended=0.1, drain=0.1, loader=0.03, cpu=0.05)
    assert diagnose(healthy).outlook is None


def test_the_ladder_survives_the_file_and_stands_in_the_report() -> None:
    diagnosis = diagnose(starved(random_share=0.5))
    again = from_json(to_json(diagnosis), Diagnosis, source="test", schema=SCHEMA)
    assert again.outlook == diagnosis.outlook
    shown = view(diagnosis)
    assert [row.code for row in shown.ladder] == [
        *("as it is", "+ pack", "+ device-augment", "the device alone")
    ]
    assert len(shown.together) == 2


def test_dont_rows_say_what_a_smaller_model_would_and_would_not_change() -> None:
    rows = {row.code: row for row in diagnose(starved(random_share=0.5)).dont}
    for code in (
        FixCode.FASTER_ACCELERATOR,
        FixCode.SMALLER_MODEL,
        FixCode.LOWER_RESOLUTION,
        FixCode.BIGGER_BATCH,
    ):
        row = rows[code]
        assert row.speedup is not None and row.step_s is not None
        assert 0.95 < row.speedup.median < 1.1
        # The wall time of as many samples as one step of 250 ms takes now.
        assert row.step_s.median == pytest.approx(0.25, rel=0.05)
    used = {code: row.au.median for code, row in rows.items() if row.au is not None}
    assert used[FixCode.SMALLER_MODEL] == pytest.approx(used[FixCode.BIGGER_BATCH] / 2, rel=0.02)
    assert used[FixCode.BIGGER_BATCH] == pytest.approx(0.32, rel=0.02)


def test_large_files_are_a_dont_where_the_disk_keeps_up_and_none_where_it_does_not() -> None:
    rows = {row.code: row for row in diagnose(starved(random_share=0.5)).dont}
    assert "the disk keeps up: 2.0% of the making of a sample" in rows[FixCode.SHARD].why
    assert FixCode.PACK not in rows  # a fix here: half of the work is stored with it
    blocked = profile(
        real=0.25, device=0.08, contended=0.08, drain=0.25, loader=0.25, cpu=0.02, wait=0.17
    )
    slow = diagnose(blocked)
    assert slow.verdict.code is VerdictCode.STORAGE_BOUND
    assert not {FixCode.SHARD, FixCode.PACK} & {row.code for row in slow.dont}


def test_storing_samples_that_are_random_throughout_is_a_dont() -> None:
    rows = {row.code: row for row in diagnose(starved(random_share=0.99)).dont}
    assert "99% of the work is done anew each time" in rows[FixCode.PACK].why
    # Where the data set itself draws nobody knows what storing it would give.
    own = diagnose(starved(random_share=0.99, random_op="Photos.__getitem__")).dont
    assert FixCode.PACK not in {row.code for row in own}


def test_a_device_that_is_busy_gains_nothing_from_a_pack_or_from_workers() -> None:
    healthy = profile(real=0.102, device=0.1, contended=0.1, drain=0.1, loader=0.03, cpu=0.05)
    rows = diagnose(healthy).dont
    assert [row.code for row in rows] == [FixCode.WORKERS, FixCode.PACK]
    assert all(row.au is not None and row.au.median > 0.95 for row in rows)
