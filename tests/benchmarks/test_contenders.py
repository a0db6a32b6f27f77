"""The comparison of loaders: everybody named is there, and whoever can't run is named with why."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import accelerators, loader, record
from benchmarks.contenders import environments, groups, judged

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
    peers = environments.Peers(results.parent / "none", results.parent)
    course = loader.Course(peers, 1.0)
    course.prepare(group)
    rates = {"stoker.Loader": 40_000.0, "torch DataLoader, memory map, 0 workers": 11_000.0}

    def told(rival: groups.Rival, *_: float, limit_s: float) -> tuple[str, str | None]:
        if rival.name not in rates:
            return "", "ImportError: it broke"
        numbers = dict.fromkeys(judged.REASONS, 1.0)
        return json.dumps({"images_per_s": rates[rival.name], **numbers}), None

    monkeypatch.setattr(peers, "told", told)
    for rival in group.rivals:
        course.go(group, rival)
    rows = {row["cells"][0]: row for row in json.loads(results.read_text())["rows"].values()}
    assert len(rows) == len(group.rivals)
    own = next(iter(rows.values()))
    assert own["cells"][4:] == ["1.000 (best)", "0 (best)", "1.00 (best)"] and own["passed"]
    torch_row = rows["torch DataLoader, memory map, 0 workers"]
    assert torch_row["cells"][2].startswith("3.64x") and torch_row["passed"] is False
    assert rows["bare loop, one buffer"]["cells"][1] == "ImportError: it broke"
    assert rows["tf.data, TFRecord"]["passed"] is None
    assert "setup" in rows["tf.data, TFRecord"]["cells"][1]


@pytest.mark.parametrize(
    ("own", "remarks", "holds"),
    [
        ((1.0, 300, 0.1), ("best", "best", "best"), True),
        ((1.04, 302, 0.1), ("best", "best", "best"), True),  # as good as equal
        ((1.0, 900, 0.1), ("best", "least: b; here batches made ahead, and torch", "best"), True),
        ((1.2, 300, 0.1), ("least: a", "best", "best"), False),
        ((1.0, 300, 0.3), ("best", "best", "least: b"), False),
    ],
)
def test_the_loader_takes_least_or_its_row_says_why_not(
    own: tuple[float, ...], remarks: tuple[str, ...], holds: bool
) -> None:
    others = {"a": (1.0, 400, 0.5), "b": (2.0, 300, 0.2)}
    named = {name: dict(zip(judged.REASONS, one, strict=True)) for name, one in others.items()}
    said, is_held = judged.best_or_why(dict(zip(judged.REASONS, own, strict=True)), named)
    assert (tuple(said.values()), is_held) == (remarks, holds)


def test_without_another_loader_all_is_best() -> None:
    said, is_held = judged.best_or_why(dict.fromkeys(judged.REASONS, 1.0), {})
    assert set(said.values()) == {"best"} and is_held


def test_other_loaders_are_neither_the_limit_nor_our_own() -> None:
    others = [rival.name for rival in groups.GROUPS[0].rivals if rival.is_other_loader]
    assert others[0].startswith("torch DataLoader") and len(others) == 10


def test_below_means_below_in_the_rounds_own_differences() -> None:
    assert not accelerators.is_below([0.99, 0.98, 1.0], [0.995, 0.985, 0.99])
    assert accelerators.is_below([0.90, 0.91, 0.90], [0.95, 0.96, 0.955])
    assert not accelerators.is_below([0.9], [])


def test_a_contender_is_measured_under_an_accelerator_and_the_best_peer_is_the_fastest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.save(tmp_path / "images.npy", np.zeros((600, 256, 256, 3), np.uint8))
    bare = groups.Rival("bare loop, one buffer", "packed")
    peers = environments.Peers(tmp_path / "none", tmp_path)
    answer, why = peers.told(bare, 1e-4, 0.2, limit_s=60.0, program="under")
    assert why is None and 0.5 < json.loads(answer)["au"] <= 1.01
    rates = {"tf.data, TFRecord": 7000.0, "FFCV, pixels (it resizes too), 2 threads": 12_000.0}

    def told(rival: groups.Rival, *_: float, limit_s: float) -> tuple[str, str | None]:
        return json.dumps({"images_per_s": rates[rival.name]}), None

    monkeypatch.setattr(peers, "why_not", lambda r: None if r.name in rates else "not installed")
    monkeypatch.setattr(peers, "told", told)
    best, found = accelerators.best_peer(peers, "packed")
    assert best is not None and best.name.startswith("FFCV")
    assert found["Grain, ArrayRecord, 2 threads"] == "not installed"
