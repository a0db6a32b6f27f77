"""What was decoded for a sample and used of it, over the batches of leg S."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.probe.decoded_reading import read_decoded
from stoker.records.profile import Decoded, Unit
from tests.unit.probe.stage_records import line, sample


def batch(decoded: dict[str, list[Any]], **delivered: int) -> dict[str, Any]:
    """Four samples."""
    held = {"frame": 0, "pixel": 0, "audio-frame": 0, "byte": 0}
    known = {name.replace("_", "-"): count for name, count in delivered.items()}
    return line([sample(i, 1) for i in range(4)]) | {
        "decoded": decoded,
        "delivered": held | known,
    }


def only(lines: list[dict[str, Any]]) -> Decoded:
    (found,) = read_decoded(lines)
    return found


def test_frames_are_told_for_a_sample_with_the_stages_that_decode_them() -> None:
    found = only([batch({"read": ["frame", 900, 0], "grab": ["frame", 100, 0]}, frame=64)])
    assert found == Decoded(unit=Unit.FRAME, stages=("read", "grab"), decoded=250, used=16)
    assert found.times == 250 / 16


def test_what_is_decoded_once_and_kept_for_other_samples_is_no_waste() -> None:
    lines = [batch({"read": ["frame", 256, 0]}, frame=64), *[batch({}, frame=64)] * 3]
    assert only(lines).times == 1


def test_what_a_workers_first_batch_decodes_for_all_others_is_left_out() -> None:
    first = batch({"read": ["frame", 9_000, 0]}, frame=64) | {"gap_ns": None}
    assert only([first, batch({"read": ["frame", 64, 0]}, frame=64)]).times == 1


def test_where_the_batch_holds_nothing_like_it_what_is_used_stays_open() -> None:
    found = only([batch({"decode": ["audio-frame", 400_000, 0]}, byte=9_000)])
    assert (found.used, found.times) == (None, None)
    whole = batch({"read": ["frame", 250, 0]}, frame=64)
    assert only([whole, whole | {"delivered": {}}]).used is None, "one batch could not be told"


def test_rows_of_a_table_are_used_as_far_as_their_bytes_are_delivered() -> None:
    """Groups of 500 rows of 2 kB, for samples of 4 kB each."""
    found = only([batch({"read": ["table-row", 2_000, 4_000_000]}, byte=16_000)])
    assert (found.unit, found.decoded, found.used) == (Unit.ROW, 500, 2)
    little = only([batch({"read": ["table-row", 2_000, 4_000_000]}, byte=40)])
    assert little.used == 1, "a sample comes from a row at least"
    much = only([batch({"read": ["table-row", 8, 800]}, byte=10**6)])
    assert much.times == 1, "never more rows than were read"


def test_rows_of_a_chunked_array_are_used_as_far_as_they_were_asked_for() -> None:
    found = only([batch({"read": ["row", 4_000, 4]}, byte=99)])
    assert (found.decoded, found.used) == (1000, 1)


def test_units_are_told_apart() -> None:
    lines = [batch({"a": ["pixel", 4_000_000, 0], "b": ["row", 40, 4]}, pixel=200_704)]
    pixels, rows = read_decoded(lines)
    assert (pixels.unit, pixels.stages, pixels.used) == (Unit.PIXEL, ("a",), 50_176)
    assert (rows.unit, rows.stages) == (Unit.ROW, ("b",))


def test_lines_without_a_count_say_nothing() -> None:
    assert read_decoded([line([sample(0, 4)])]) == ()
    assert only([line([sample(0, 4)]), batch({"b": ["row", 40, 4]})]).times == pytest.approx(10)
