"""Tables in README and docs are the results on the disk, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import record, tables

MACHINE = {
    "cpu": "A Processor",
    "cpus_allowed": 2,
    "memory_bytes": 8 * 2**30,
    "python": "3.11.7",
    "packages": {"torch": "2.13.0", "stoker": "0.1.0"},
}


def _result(**cells: str) -> dict[str, Any]:
    rows = {
        key: {"cells": [key, cell], "numbers": {}, "passed": True, "date": "2026-01-02"}
        for key, cell in cells.items()
    }
    for row in rows.values():
        row["machine"] = MACHINE
    return {"name": "speed", "claim": "It is fast.", "columns": ["case", "time"], "rows": rows}


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    monkeypatch.setattr(record, "RESULTS", tmp_path)
    return tmp_path


def test_the_tables_in_the_documents_are_those_of_the_results() -> None:
    assert tables.stale() == [], "run python -m benchmarks.tables"


def test_every_result_names_the_script_that_measured_it() -> None:
    for path in record.RESULTS.glob("*.json"):
        result = json.loads(path.read_text())
        assert result["name"] == path.stem
        assert (record.ROOT / "benchmarks" / f"{path.stem}.py").exists()


def test_a_marked_table_is_written_from_its_result(results: Path) -> None:
    (results / "speed.json").write_text(json.dumps(_result(one="5 ms")))
    text = "a\n<!-- table: speed -->\nold\n<!-- end of table -->\nb\n"
    new = tables.filled(text)
    assert "| one | 5 ms | yes |" in new and "\nold\n" not in new
    assert "A Processor, 2 cores, 8 GiB" in new
    assert new.startswith("a\n<!-- table: speed -->\n") and new.endswith("end of table -->\nb\n")
    assert tables.filled(new) == new


def test_a_table_without_a_result_says_what_to_run(results: Path) -> None:
    text = "<!-- table: pack -->\nold\n<!-- end of table -->"
    new = tables.filled(text)
    assert "Not measured yet: `python -m benchmarks.pack`" in new and "old" not in new


def test_a_table_that_no_benchmark_writes_is_an_error(results: Path) -> None:
    with pytest.raises(KeyError, match=r"python -m benchmarks\.speed"):
        tables.filled("<!-- table: speed -->\n<!-- end of table -->")


def test_what_could_not_be_measured_is_named_and_fails_no_claim(results: Path) -> None:
    assert record.write(
        "speed",
        claim="It is fast.",
        columns=["case", "time"],
        rows={"gone": ["gone", "not installed: no compiler"]},
        numbers={"gone": {}},
        passed={"gone": None},
        is_shown=False,
    )
    table = tables.markdown(json.loads((results / "speed.json").read_text()))
    assert "| gone | not installed: no compiler | not measured |" in table


def test_a_claim_that_does_not_hold_is_shown_as_such(results: Path) -> None:
    result = _result(one="5 ms")
    result["rows"]["one"]["passed"] = False
    assert "| one | 5 ms | **no** |" in tables.markdown(result)


def _write(**times: str) -> bool:
    return record.write(
        "speed",
        claim="It is fast.",
        columns=["case", "time"],
        rows={key: [key, time] for key, time in times.items()},
        numbers={key: {"seconds": 1.0} for key in times},
        passed={key: time != "slow" for key, time in times.items()},
    )


def test_rows_that_were_not_measured_again_stay(results: Path) -> None:
    assert _write(one="5 ms", two="6 ms")
    assert not _write(two="slow")
    rows = json.loads((results / "speed.json").read_text())["rows"]
    assert rows["one"]["cells"] == ["one", "5 ms"]
    assert rows["two"]["cells"] == ["two", "slow"] and not rows["two"]["passed"]
    assert rows["one"]["machine"]["python"]
