from __future__ import annotations

from typing import Any

from stoker.probe.stage_reading import read_amplification, read_scaling, read_stages
from tests.unit.probe.stage_records import MS, line, sample


def test_stages_are_told_for_one_sample_the_longest_first() -> None:
    lines = [
        line([sample(0, 4), sample(1, 4)], read=[2, 2 * MS, 0], decode=[2, 6 * MS, 6 * MS])
        for _ in range(3)
    ]
    decode, read = read_stages(lines)
    assert (decode.stage, decode.wall_s, decode.cpu_s) == ("decode", 0.003, 0.003)
    assert (read.stage, read.blocked_s, read.calls) == ("read", 0.001, 1.0)


def reading(path: str, size: int, read: int) -> dict[str, Any]:
    """A batch of four samples, one file or a file for each; `read` is told of all four."""
    records = [sample(i, 1.0, path.format(i), size) for i in range(4)]
    return line(records) | {"read_bytes": read}


def test_a_file_read_for_several_samples_is_amplified_and_a_picture_is_not() -> None:
    assert read_amplification([reading("group.bin", 2_000_000, 8_000_000)], 20_000) == 100
    assert read_amplification([reading("{}.jpg", 2_000_000, 8_000_000)], 20_000) is None


def test_a_large_file_of_which_each_sample_reads_its_own_bytes_is_not_amplified() -> None:
    assert read_amplification([reading("tokens.bin", 17 * 10**9, 4 * 8192)], 8192) == 1
    assert read_amplification([reading("tokens.bin", 17 * 10**9, 0)], 8192) == 0


def test_reads_of_other_files_are_not_put_down_to_the_one_that_is_shared() -> None:
    assert read_amplification([reading("labels.csv", 1_000, 8_000_000)], 20_000) == 0.05


def test_what_a_workers_first_batch_reads_once_is_no_amplification() -> None:
    first = reading("group.bin", 2_000_000, 8_000_000) | {"gap_ns": None}
    later = reading("group.bin", 2_000_000, 80_000)
    assert read_amplification([first, later, later], 20_000) == 1
    assert read_amplification([first], 20_000) == 100


def test_without_a_count_of_reads_no_amplification_is_told() -> None:
    uncounted = reading("group.bin", 2_000_000, 0) | {"read_bytes": None}
    assert read_amplification([uncounted], 20_000) is None


def test_what_other_threads_of_a_worker_do_is_told_beside() -> None:
    aside = {"hand-off": [1, 4 * MS, 1 * MS]}
    given = line([sample(0, 4), sample(1, 4)], decode=[2, 2 * MS, 2 * MS]) | {"aside": aside}
    decode, hand_off = read_stages([given])
    assert (decode.stage, decode.where) == ("decode", "worker")
    assert (hand_off.stage, hand_off.where) == ("hand-off", "beside")
    assert (hand_off.wall_s, hand_off.cpu_s, hand_off.blocked_s) == (0.002, 0.0005, 0.0015)


def test_a_stage_is_told_to_repeat_where_that_is_known() -> None:
    given = line([sample(0, 4)], decode=[1, 3, 3], flip=[1, 2, 2], collate=[1, 1, 1])
    rows = read_stages([given], {"decode": True, "flip": False})
    assert [row.deterministic for row in rows] == [True, False, None]


def test_stages_with_other_numbers_of_workers_are_told_apart() -> None:
    own = line([sample(0, 4)], read=[1, 9 * MS, 0]) | {"workers": 4}
    fewer = line([sample(0, 4)], read=[1, 2 * MS, 0]) | {"workers": 2}
    found = read_scaling([own, fewer], 4)
    assert found is not None
    assert (found.workers, found.stages[0].wall_s) == (2, 0.002)
    assert read_scaling([own], 4) is None


def test_lines_that_only_say_something_are_no_batches() -> None:
    said = {"where": "worker", "stages": {}, "records": [], "own_ns": 0, "notes": ["no fetcher"]}
    assert read_stages([said]) == ()
    assert len(read_stages([said, line([sample(0, 4)], decode=[1, 3, 3])])) == 1


def test_nothing_timed_is_nothing_told() -> None:
    assert read_stages([]) == ()
