from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stoker.probe.stage_lines import (
    batch_seconds,
    opened_files,
    stage_lines,
    waiting_share,
    worker_lines,
)


def batch(wall_ns: int, cpu_ns: int, runqueue_ns: int | None, **more: Any) -> dict[str, Any]:
    return {"wall_ns": wall_ns, "cpu_ns": cpu_ns, "runqueue_ns": runqueue_ns, "records": []} | more


def test_waiting_is_what_passes_on_no_core_and_in_no_queue_for_one() -> None:
    lines = [batch(100, 30, 20), batch(300, 100, None)]
    assert waiting_share(lines) == pytest.approx(250 / 400)


def test_records_that_are_no_batches_say_nothing_of_waiting() -> None:
    assert waiting_share([{"records": [], "notes": ["torch has no such class"]}]) is None


def test_each_file_stands_once_and_only_with_a_size() -> None:
    records = [
        [0, 0, 5, 5, "/data/a.jpg", 10, "read", None],
        [1, 1, 6, 5, "/data/a.jpg", 10, "read", None],
        [2, 2, 7, 5, "/data/lock", 0, "read", None],
        [3, 3, 8, 5, None, None, None, None],
    ]
    found = opened_files([batch(1, 1, 0, records=records)])
    assert [(file.path, file.size) for file in found] == [("/data/a.jpg", 10)]


def write(file: Path, *lines: dict[str, Any]) -> None:
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_each_training_process_has_its_own_workers(tmp_path: Path) -> None:
    for worker, trainer in ((21, 11), (22, 12), (23, 11)):
        begun = {"kind": "worker", "pid": worker, "trainer": trainer}
        write(tmp_path / f"worker-{worker}.jsonl", begun, {"kind": "stages", "of": worker})
    for trainer in (11, 12):
        write(tmp_path / f"trainer-{trainer}.jsonl", {"kind": "stages", "of": trainer})
    (tmp_path / "worker-24.jsonl").touch()

    assert [line["of"] for line in stage_lines(tmp_path, 11)] == [21, 23, 11]
    assert [line["of"] for line in stage_lines(tmp_path, 12)] == [22, 12]
    assert [line["pid"] for line in worker_lines(tmp_path, 11) if "pid" in line] == [21, 23]


def test_single_batches_come_from_one_worker_after_the_other(tmp_path: Path) -> None:
    def timed(worker: int, *seconds: float, workers: int = 2) -> dict[str, Any]:
        return {"kind": "batches", "worker": worker, "workers": workers, "seconds": seconds}

    begun = {"kind": "worker", "trainer": 11}
    # Written in parts; the first batch of each worker is none like the others.
    write(tmp_path / "worker-32.jsonl", begun, timed(0, 9.0, 0.1), timed(0, 0.3, 0.5))
    write(tmp_path / "worker-31.jsonl", begun, timed(1, 8.0, 0.2, 0.4))
    write(tmp_path / "worker-33.jsonl", begun, timed(0, 7.0, 0.7, workers=4))
    write(tmp_path / "worker-34.jsonl", begun | {"trainer": 12}, timed(0, 6.0, 0.6))

    assert batch_seconds(tmp_path, 11, 2) == [0.1, 0.2, 0.3, 0.4]
    assert batch_seconds(tmp_path, 11, 4) == [], "one of four workers tells nothing of the order"
    assert batch_seconds(tmp_path, 13, 2) == []
