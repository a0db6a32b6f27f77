from __future__ import annotations

from typing import Any

import pytest

from stoker.probe.stage_lines import opened_files, waiting_share


def batch(wall_ns: int, cpu_ns: int, runqueue_ns: int | None, **more: Any) -> dict[str, Any]:
    return {"wall_ns": wall_ns, "cpu_ns": cpu_ns, "runqueue_ns": runqueue_ns, "records": []} | more


def test_waiting_is_what_passes_on_no_core_and_in_no_queue_for_one() -> None:
    lines = [batch(100, 30, 20), batch(300, 100, None)]
    assert waiting_share(lines) == pytest.approx(250 / 400)


def test_records_that_are_no_batches_say_nothing_of_waiting() -> None:
    assert waiting_share([{"records": [], "notes": ["torch has no such class"]}]) is None


def test_each_file_stands_once_and_only_with_a_size() -> None:
    records = [
        [0, 0, 5, 5, "/data/a.jpg", 10],
        [1, 1, 6, 5, "/data/a.jpg", 10],
        [2, 2, 7, 5, "/data/lock", 0],
        [3, 3, 8, 5, None, None],
    ]
    found = opened_files([batch(1, 1, 0, records=records)])
    assert [(file.path, file.size) for file in found] == [("/data/a.jpg", 10)]
