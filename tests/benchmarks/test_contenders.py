"""The comparison of loaders: everybody named is there, and whoever can't run is named with why."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest

from benchmarks import loader, record
from benchmarks.contenders import environments, groups

RIVALS = [(group, rival) for group in groups.GROUPS for rival in group.rivals]


def test_every_rival_is_a_contender_of_its_module_and_has_an_environment() -> None:
    setup = (Path(groups.__file__).parent / "setup").read_text()
    for _, rival in RIVALS:
        module = importlib.import_module(f"benchmarks.contenders.{rival.module}")
        assert rival.name in module.CONTENDERS
        if rival.environment:
            assert f"[{rival.environment}]=" in setup and rival.environment in groups.PACKAGES


def test_a_peer_that_is_not_there_is_named_with_the_reason(tmp_path: Path) -> None:
    assert "run benchmarks/contenders/setup" in str(environments.why_not(tmp_path / "grain"))
    (tmp_path / "failed").write_text("ERROR: no  compiler\n")
    assert environments.why_not(tmp_path) == "not installed: ERROR: no compiler"
    (tmp_path / "failed").unlink()
    (tmp_path / ".done").touch()
    assert environments.why_not(tmp_path) is None


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(record, "RESULTS", tmp_path)
    return tmp_path / "loader.json"


def test_rows_are_kept_after_every_pass_and_the_missing_are_in_them(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = groups.GROUPS[0]
    course = loader.Course(results.parent / "none", results.parent, 1.0)
    course.prepare(group)
    rates = {"stoker.Loader": 40_000.0, "torch DataLoader, memory map, 0 workers": 11_000.0}

    def called(rival: groups.Rival, *_: object) -> tuple[str, str | None]:
        if rival.name not in rates:
            return "", "ImportError: it broke"
        numbers = dict.fromkeys(("cpu_s_per_1000", "memory_bytes", "first_batch_s"), 1.0)
        return json.dumps({"images_per_s": rates[rival.name], **numbers}), None

    monkeypatch.setattr(course, "_called", called)
    for rival in group.rivals:
        course.go(group, rival)
    rows = {row["cells"][0]: row for row in json.loads(results.read_text())["rows"].values()}
    assert len(rows) == len(group.rivals)
    torch_row = rows["torch DataLoader, memory map, 0 workers"]
    assert torch_row["cells"][2].startswith("3.64x") and torch_row["passed"] is False
    assert rows["bare loop, one buffer"]["cells"][1] == "ImportError: it broke"
    assert rows["tf.data, TFRecord"]["passed"] is None
    assert "setup" in rows["tf.data, TFRecord"]["cells"][1]
