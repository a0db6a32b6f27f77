"""Stage arithmetic with a clock that moves only when told."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.probe.hooks.calls import Decodes
from stoker.probe.hooks.counts import ARRAY
from stoker.probe.recorder import MOST_CALLS_A_SAMPLE, StageRecorder
from stoker.probe.stages import split_waiting
from stoker.spans import FakeClock

MS = 1_000_000


class Bench:
    """A recorder whose stages take the time they are told."""

    def __init__(self, where: str = "worker") -> None:
        self.clock = FakeClock()
        self.records: list[dict[str, Any]] = []
        self.recorder = StageRecorder(self.records.append, where=where, clock=self.clock)  # type: ignore[arg-type]

    def stage(
        self, name: str, wall_ms: float, *, cpu_ms: float = 0.0, then: Callable[[], Any] = bool
    ) -> Callable[[], Any]:
        def work() -> Any:
            self.clock.advance(wall_ms / 1e3, cpu_s=cpu_ms / 1e3)
            return then()

        return self.recorder.timed(name, work)

    def fetch(self, function: Callable[[], Any], samples: int = 1) -> dict[str, Any]:
        self.recorder.fetch(function, (), samples)
        return self.records[-1]


def test_a_stage_has_its_own_time_without_that_of_the_stages_it_calls() -> None:
    bench = Bench()
    decode = bench.stage("decode", 7, cpu_ms=6)
    load = bench.stage("load", 2, cpu_ms=1, then=lambda: (decode(), decode()))
    record = bench.fetch(bench.stage("sample", 3, cpu_ms=3, then=load))
    assert record["stages"] == {
        "decode": [2, 14 * MS, 12 * MS],
        "load": [1, 2 * MS, 1 * MS],
        "sample": [1, 3 * MS, 3 * MS],
        "fetch": [1, 0, 0],
    }
    assert (record["wall_ns"], record["cpu_ns"]) == (19 * MS, 16 * MS)


def test_a_stage_that_calls_itself_is_counted_once_in_time() -> None:
    bench = Bench()
    depth = iter([True, True, False])

    def again() -> Any:
        bench.clock.advance(0.001)
        return timed() if next(depth) else None

    timed = bench.recorder.timed("recursive", again)
    assert bench.fetch(timed)["stages"]["recursive"] == [3, 3 * MS, 0]


@given(
    st.recursive(
        st.tuples(st.integers(0, 50), st.just([])),
        lambda inner: st.tuples(st.integers(0, 50), st.lists(inner, max_size=4)),
        max_leaves=20,
    )
)
def test_stages_sum_to_the_fetch_whatever_calls_what(tree: tuple[int, list[Any]]) -> None:
    bench = Bench()

    def build(node: tuple[int, list[Any]], name: str) -> Callable[[], Any]:
        inner = [build(child, f"{name}.{place % 2}") for place, child in enumerate(node[1])]
        return bench.stage(name, node[0], cpu_ms=node[0] / 2, then=lambda: [go() for go in inner])

    record = bench.fetch(build(tree, "s"))
    assert sum(wall for _, wall, _ in record["stages"].values()) == record["wall_ns"]
    assert sum(cpu for _, _, cpu in record["stages"].values()) == record["cpu_ns"]


def test_outside_a_fetch_nothing_is_counted() -> None:
    bench = Bench()
    decode = bench.stage("decode", 5)
    decode()
    assert "decode" not in bench.fetch(bench.stage("read", 1))["stages"]


def test_a_stage_that_raises_keeps_its_time_and_the_batch_leaves_no_record() -> None:
    bench = Bench()

    def fail() -> None:
        bench.clock.advance(0.004)
        raise ValueError("broken file")

    with pytest.raises(ValueError, match="broken file"):
        bench.recorder.fetch(bench.recorder.timed("decode", fail), (), 1)
    assert bench.records == []
    assert bench.fetch(bench.stage("read", 1))["stages"].keys() == {"read", "fetch"}


def test_the_outermost_call_of_a_data_set_is_the_sample() -> None:
    bench = Bench()

    def get(_: object, index: int) -> int:
        bench.clock.advance(0.001, cpu_s=0.0005)
        bench.recorder.note_file(f"/photos/{index}.jpg", 100 + index)
        bench.recorder.note_file("second.jpg", 0)
        return index

    inner = bench.recorder.timed_sample("Inner.__getitem__", get)
    outer = bench.recorder.timed_sample("Outer.__getitem__", lambda held, index: inner(held, index))
    record = bench.fetch(lambda: [outer(None, index) for index in (5, 8)], samples=2)
    assert record["records"] == [
        [0, 5, 1 * MS, MS // 2, "/photos/5.jpg", 105, "Inner.__getitem__", None],
        [1, 8, 1 * MS, MS // 2, "/photos/8.jpg", 108, "Inner.__getitem__", None],
        [-1, 5, 1 * MS, MS // 2, "/photos/5.jpg", 105, "Inner.__getitem__", None],
    ]
    assert record["stages"]["Inner.__getitem__"] == [2, 2 * MS, 1 * MS]
    assert record["stages"]["Outer.__getitem__"] == [2, 0, 0]


def test_a_sample_names_the_stage_that_took_the_most_of_it() -> None:
    bench = Bench()
    read = {0: bench.stage("read", 1), 1: bench.stage("read", 9)}
    decode = bench.stage("decode", 5)
    get = bench.recorder.timed_sample("get", lambda _, index: (read[index](), decode()))
    record = bench.fetch(lambda: [get(None, index) for index in (0, 1, 0)], samples=3)
    assert [row[6] for row in record["records"]] == ["decode", "read", "decode", "read"]


def test_the_bytes_that_a_batch_reads_are_counted(tmp_path: Path) -> None:
    (tmp_path / "group.bin").write_bytes(bytes(2_000_000))
    bench = Bench()
    record = bench.fetch((tmp_path / "group.bin").read_bytes)
    # Of the whole process: other threads may read a little meanwhile.
    assert 2_000_000 <= record["read_bytes"] < 2_100_000


def test_what_was_said_goes_out_even_where_no_batch_will_take_it_along() -> None:
    bench = Bench()
    bench.recorder.give_notes()
    assert bench.records == []
    bench.recorder.note("torch has no such fetcher")
    bench.recorder.give_notes()
    assert bench.records[0]["notes"] == ["torch has no such fetcher"]


def test_a_relative_path_is_noted_as_a_full_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    bench = Bench()
    get = bench.recorder.timed_sample("get", lambda _, __: bench.recorder.note_file("a.jpg", 3))
    assert bench.fetch(lambda: get(None, 0))["records"][0][4:6] == [str(tmp_path / "a.jpg"), 3]


def test_an_index_of_any_kind_can_be_written() -> None:
    bench = Bench()
    get = bench.recorder.timed_sample("get", lambda _, index: index)
    record = bench.fetch(lambda: [get(None, index) for index in (True, "a" * 200, (1, 2))])
    assert [row[1] for row in record["records"][:3]] == [1, "a" * 80, "(1, 2)"]


def test_sample_records_stay_bounded_and_the_slowest_is_always_there() -> None:
    bench = Bench()

    def get(_: object, index: int) -> None:
        bench.clock.advance(1.0 if index == 4321 else 0.001)

    timed = bench.recorder.timed_sample("get", get)
    for start in range(0, 40_000, 8):
        bench.fetch(lambda s=start: [timed(None, s + i) for i in range(8)], samples=8)
    rows = [row for record in bench.records for row in record["records"]]
    kept = {row[0]: row[1] for row in rows if row[0] >= 0}
    assert len(kept) == 2000
    assert max(len(record["records"]) for record in bench.records) == 4 + 1
    # Four of each batch are offered, 20,000 in all: 2,000 taken at once, then 2,000 ln(10).
    assert len(rows) - len(bench.records) == pytest.approx(2000 * (1 + 2.3), rel=0.05)
    assert sum(kept.values()) / 2000 == pytest.approx(20_000, rel=0.05)
    assert max(rows, key=lambda row: row[2])[1] == 4321


def test_a_stage_called_too_often_is_no_longer_timed_and_the_record_says_so() -> None:
    bench = Bench()
    told: list[str] = []
    bench.recorder.on_off(told.append)
    pixel = bench.stage("pixel", 0.001)
    record = bench.fetch(lambda: [pixel() for _ in range(3 * MOST_CALLS_A_SAMPLE)], samples=2)
    assert record["stages"]["pixel"][0] == 2 * MOST_CALLS_A_SAMPLE + 1
    assert told == ["pixel"]
    assert "pixel: called more than 1,000 times a sample" in record["notes"][0]
    assert "pixel" not in bench.fetch(pixel)["stages"]
    assert "notes" not in bench.records[-1]


def test_calls_that_take_long_are_timed_however_many_they_are() -> None:
    """Frames of a video that is read from its beginning."""
    bench = Bench()
    frame = bench.stage("frame", 0.2)
    record = bench.fetch(lambda: [frame() for _ in range(2 * MOST_CALLS_A_SAMPLE)])
    assert record["stages"]["frame"][0] == 2 * MOST_CALLS_A_SAMPLE
    assert "notes" not in record


# -- what is decoded -------------------------------------------------------------------------------


def counts(unit: str, **changes: Any) -> Decodes:
    """A call that decodes as many units as its result says."""
    return Decodes(unit, lambda _, made: (made, 0), **changes)


def test_what_calls_decode_is_told_by_stage_beside_what_the_batch_holds() -> None:
    bench = Bench()
    decode = bench.recorder.counted("decode", lambda number: number, counts("frame"))
    batch = np.zeros((2, 16, 3, 32, 32), np.float32)

    def two_clips() -> Any:
        decode(100)
        decode(50)
        return batch

    assert "decoded" not in bench.fetch(lambda: batch), "a batch is looked at only where it must"
    record = bench.fetch(two_clips, samples=2)
    assert record["decoded"] == {"decode": ["frame", 150, 0]}
    assert record["delivered"]["frame"] == 2 * 16
    again = bench.fetch(lambda: batch, samples=2)
    assert (again["decoded"], again["delivered"]["frame"]) == ({}, 32), "kept from the batch before"


def test_what_a_counted_call_calls_is_not_counted_again() -> None:
    bench = Bench()
    inner = bench.recorder.counted("inner", lambda: 7, counts("audio-frame"))
    outer = bench.recorder.counted("outer", inner, counts("audio-frame"))
    assert bench.fetch(outer)["decoded"] == {"outer": ["audio-frame", 7, 0]}
    assert bench.fetch(inner)["decoded"] == {"inner": ["audio-frame", 7, 0]}


def test_outside_of_a_fetch_and_where_nothing_is_due_nothing_is_counted() -> None:
    bench = Bench()
    decode = bench.recorder.counted("decode", int, counts("row", is_due=lambda args: args[0] > 5))
    assert decode(9) == 9
    record = bench.fetch(lambda: (decode(3), decode(8)))
    assert record["decoded"] == {"decode": ["row", 8, 0]}


def test_a_result_that_cannot_be_counted_is_passed_on() -> None:
    bench = Bench()
    decode = bench.recorder.counted("decode", lambda: None, ARRAY)
    broken = bench.recorder.counted("decode", lambda: "no array", ARRAY)
    found: list[Any] = []
    record = bench.fetch(lambda: found.extend((decode(), broken())))
    assert found == [None, "no array"]
    assert "decoded" not in record


def test_a_call_that_raises_leaves_the_next_one_counted() -> None:
    bench = Bench()

    def fail() -> int:
        raise ValueError("broken file")

    with pytest.raises(ValueError, match="broken file"):
        bench.recorder.fetch(bench.recorder.counted("decode", fail, counts("row")), (), 1)
    decode = bench.recorder.counted("decode", lambda: 4, counts("row"))
    assert bench.fetch(decode)["decoded"] == {"decode": ["row", 4, 0]}


def test_a_sample_record_has_the_pixels_that_were_decoded_for_it() -> None:
    bench = Bench()
    decode = bench.recorder.counted("decode", lambda number: number, counts("pixel"))
    get = bench.recorder.timed_sample("get", lambda _, index: index and decode(index * 1000))
    record = bench.fetch(lambda: [get(None, index) for index in (3, 0, 5)], samples=3)
    assert [row[7] for row in record["records"][:3]] == [3000, None, 5000]


def test_other_threads_of_a_worker_are_kept_aside() -> None:
    bench = Bench()
    dumps = bench.stage("hand-off", 2, cpu_ms=2)
    thread = threading.Thread(target=dumps)
    thread.start()
    thread.join()
    record = bench.fetch(bench.stage("read", 1))
    assert record["aside"] == {"hand-off": [1, 2 * MS, 2 * MS]}
    assert "hand-off" not in record["stages"]


def test_other_threads_of_the_main_process_are_not_loading() -> None:
    bench = Bench("main")
    thread = threading.Thread(target=bench.stage("resize", 2))
    thread.start()
    thread.join()
    assert "aside" not in bench.fetch(bench.stage("read", 1))


def test_a_helper_counts_with_the_method_that_calls_it_but_not_in_the_data_set_itself() -> None:
    bench = Bench()

    def work() -> None:
        bench.clock.advance(0.002)

    helper = bench.recorder.timed_direct("helper", work)
    method = bench.stage("Set.load", 1, then=helper)
    get = bench.recorder.timed_sample("Set.__getitem__", lambda _, __: (helper(), method()))
    stages = bench.fetch(lambda: get(None, 0))["stages"]
    assert stages["helper"] == [1, 2 * MS, 0]
    assert stages["Set.load"] == [1, 3 * MS, 0]


def test_the_gap_between_two_fetches_is_told() -> None:
    bench = Bench()
    read = bench.stage("read", 1)
    assert bench.fetch(read)["gap_ns"] is None
    bench.clock.advance(0.005)
    assert bench.fetch(read)["gap_ns"] == 5 * MS


def test_a_full_disk_ends_the_records_and_not_the_run() -> None:
    def full(_: dict[str, Any]) -> None:
        raise OSError(28, "No space left on device")

    recorder = StageRecorder(full, where="worker")
    assert [recorder.fetch(lambda: 7, (), 1) for _ in range(2)] == [7, 7]


# -- run-queue wait -------------------------------------------------------------------------------


def test_a_computing_stage_gets_the_wait_for_a_core_and_a_reading_one_stays_blocked() -> None:
    stages = {"decode": [1, 100 * MS, 60 * MS], "read": [1, 50 * MS, 1 * MS]}
    split = split_waiting(stages, 42 * MS)
    assert split["decode"][0] == pytest.approx(40 * MS, rel=0.01)
    assert split["decode"][1] == pytest.approx(0.0, abs=0.01 * MS)
    assert split["read"][1] == pytest.approx(47 * MS, rel=0.01)


@given(
    st.dictionaries(
        st.text(max_size=3),
        st.tuples(st.integers(0, 10**9), st.integers(0, 10**9)),
        min_size=1,
        max_size=6,
    ),
    st.integers(0, 10**10),
)
def test_the_parts_of_waiting_sum_to_wall_minus_cpu_and_none_is_negative(
    times: dict[str, tuple[int, int]], runqueue_ns: int
) -> None:
    stages = {name: [1, wall, cpu] for name, (wall, cpu) in times.items()}
    split = split_waiting(stages, runqueue_ns)
    waited = {name: max(0, wall - cpu) for name, (wall, cpu) in times.items()}
    for name, (queued, blocked) in split.items():
        assert queued >= 0
        assert blocked >= -1e-3
        assert queued + blocked == pytest.approx(waited[name])
    expected = min(runqueue_ns, sum(waited.values()))
    assert sum(queued for queued, _ in split.values()) == pytest.approx(expected, abs=2)
