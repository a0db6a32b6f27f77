from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from stoker.probe.epochs import EpochWatch
from stoker.probe.planned_loop import PlannedLoop
from stoker.probe.session import Session
from stoker.probe.sidelines import Sidelines
from stoker.probe.tracks import Track


def loop(tmp_path: Path, start_each_s: float | None, *, workers: int = 2) -> PlannedLoop:
    (tmp_path / "options.json").write_text("{}")
    session = Session(tmp_path)
    made = cast(Any, SimpleNamespace(start_each_s=start_each_s, threads=0, close=lambda: None))
    sidelines = Sidelines(session, lambda: made)
    if start_each_s is not None:
        sidelines._opened()
    epochs = EpochWatch()
    epochs.start_s.append(3.0)
    facts = {"dataset": "x", "batches": 10, "workers": workers, "prefetch_factor": None}
    return PlannedLoop(
        session,
        Track(None, facts),
        sidelines,
        epochs,
        now=lambda: 0.0,
        owned_cores=2.0,
        stand_ins=cast(Any, SimpleNamespace(has_device=False, can_halve=lambda facts: False)),
    )


def test_the_scripts_own_start_is_what_is_known_first(tmp_path: Path) -> None:
    assert loop(tmp_path, None).start_s(4) == pytest.approx(6.0)


def test_a_start_of_a_side_loader_is_known_better(tmp_path: Path) -> None:
    assert loop(tmp_path, 0.5).start_s(4) == pytest.approx(2.0)


def test_without_workers_nothing_is_started(tmp_path: Path) -> None:
    assert loop(tmp_path, None).start_s(0) == 0.0
    assert loop(tmp_path, None, workers=0).start_s(2) == 0.0
