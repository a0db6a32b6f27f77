"""Loaders beside a stoker.Loader of the script's: as its own, and nothing of them left."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker
from stoker.pack import write_arrays
from stoker.probe.hooks.own_loader import timed_stages
from stoker.probe.own_loader import LoaderRehearsal, OwnLoader, facts_of
from stoker.probe.session import Session, read_lines

SIDE = 20


@pytest.fixture
def session(tmp_path: Path) -> Session:
    (tmp_path / "options.json").write_text(json.dumps({"budget_s": 1.0}))
    return Session(tmp_path)


@pytest.fixture
def loader(tmp_path: Path) -> stoker.Loader:
    pictures = np.random.default_rng(0).integers(0, 256, (64, SIDE, SIDE, 3), np.uint8)
    columns = {"image": pictures, "label": np.arange(64) % 4}
    pack = write_arrays(tmp_path / "pack", columns, shard_samples=20)
    return stoker.Loader(pack, 8, shuffle=True, array="numpy", crop=16, reading="preadv")


def lines(session: Session, kind: str) -> list[dict[str, Any]]:
    (file,) = session.folder.glob("trainer-*.jsonl")
    return [line for line in read_lines(file)[0] if line["kind"] == kind]


def loading_threads() -> list[str]:
    return [one.name for one in threading.enumerate() if one.name.startswith("stoker-loader")]


def rehearsal(loader: Any, session: Session) -> LoaderRehearsal:
    return OwnLoader(loader, timed_stages).rehearsal(session)


def test_a_loader_says_what_it_is(loader: stoker.Loader) -> None:
    facts = facts_of(loader)
    assert (facts["workers"], facts["start_method"]) == (4, "threads")
    assert (facts["batch_size"], facts["batches"], facts["samples"]) == (8, 8, 64)
    assert facts["dataset"] == "stoker.Loader"


def test_drains_leave_the_script_its_place_and_no_threads(
    loader: stoker.Loader, session: Session
) -> None:
    whole = [batch["index"].tolist() for batch in loader]
    loader.set_epoch(0)
    running = iter(loader)
    seen = [next(running)["index"].tolist() for _ in range(3)]
    state = loader.state_dict()
    beside = rehearsal(loader, session)
    own = beside.drain("L", 4, batches=20, limit_s=0.1)
    more = beside.drain("L", 8, batches=20, limit_s=0.1)
    beside.begin_trial(2, "")
    assert beside.on_trial(None)["image"].shape == (8, 16, 16, 3)
    drainer = beside.start_drainer()
    for _ in range(4):
        drainer.ticket()
    end = time.monotonic() + 5.0
    while len(drainer._taken) < 4 and time.monotonic() < end:
        time.sleep(0.001)
    assert len(drainer.stop()) == 3
    beside.close()
    assert loader.state_dict() == state
    assert seen + [batch["index"].tolist() for batch in running] == whole
    assert own and more
    assert [line["workers"] for line in lines(session, "drain")] == [4, 8]
    assert {line["start_method"] for line in lines(session, "drain")} == {"threads"}
    assert loading_threads() == []


def test_legs_for_processes_are_left_out(loader: stoker.Loader, session: Session) -> None:
    beside = rehearsal(loader, session)
    for what, workers in (("N", 4), ("T", 4), ("L", 0), ("S", 0)):
        assert beside.drain(what, workers, batches=4, limit_s=0.1) == []
    assert list(session.folder.glob("trainer-*.jsonl")) == []


def test_the_stages_of_all_threads_are_timed_and_as_before_after(
    loader: stoker.Loader, session: Session
) -> None:
    from stoker.loader.activity import Activity

    own = Activity.enter
    beside = rehearsal(loader, session)
    beside.drain("S", 2, batches=40, limit_s=0.2)
    assert Activity.enter is own
    (line,) = lines(session, "stages")
    calls, wall, cpu = line["stages"]["read"]
    assert line["where"] == "worker" and line["workers"] == 2 and calls > 0 and wall >= cpu > 0
    (drain,) = lines(session, "drain")
    assert line["samples"] == 8 * (drain["skipped"] + len(drain["periods"]))
    assert "idle" not in line["stages"]


def test_it_is_at_rest_when_all_that_may_be_made_ahead_is_made(loader: stoker.Loader) -> None:
    running = iter(loader)
    next(running)
    pipeline = OwnLoader(loader, timed_stages)
    pipeline.follow(running)
    pipeline.quiesce(5.0)
    assert running.is_at_rest and len(running.thread_ids) == 4
    del running
    pipeline.quiesce(5.0)  # nothing to wait for


def test_a_loader_of_pictures_decodes_in_its_threads(tmp_path: Path, session: Session) -> None:
    from PIL import Image

    (tmp_path / "photos").mkdir()
    for number in range(8):
        Image.new("RGB", (40, 40), (number, 0, 0)).save(tmp_path / "photos" / f"{number}.jpg")
    loader = stoker.Loader(tmp_path / "photos", 4, crop=16, array="numpy")
    rehearsal(loader, session).drain("S", 1, batches=20, limit_s=0.1)
    (line,) = lines(session, "stages")
    assert {"read", "header", "decode", "resize"} <= set(line["stages"])
