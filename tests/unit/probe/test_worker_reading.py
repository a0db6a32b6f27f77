"""What the lines of the workers add to a Profile: their cores, stages, memory and batches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stoker.probe.host import host_facts
from tests.unit.probe.sessions import (
    Line,
    end,
    loader,
    read,
    real,
)


def of_workers(
    folder: Path,
    trainer: int,
    *masks: list[int],
    lines: tuple[Line, ...] = (),
    prepared: bool = False,
) -> None:
    """What the workers of a training process have written, each bound to those CPUs."""
    for number, cpus in enumerate(masks):
        begun = {
            "kind": "worker",
            "worker": number,
            "trainer": trainer,
            "cpus": cpus,
            "is_prepared": prepared,
        }
        text = "".join(json.dumps(line) + "\n" for line in (begun, *lines))
        (folder / f"worker-{trainer}{prepared}{number}.jsonl").write_text(text)


def timed(**stages: list[int]) -> Line:
    """A batch of one sample as leg S has it, with two workers."""
    times = {
        "workers": 2,
        "samples": 1,
        "runqueue_ns": 0,
        "read_bytes": 0,
        "gap_ns": 0,
        "records": [],
    }
    return {"kind": "stages", "where": "worker", "stages": stages} | times


def test_workers_bound_to_a_core_each_have_all_of_these_cores(tmp_path: Path) -> None:
    of_workers(tmp_path, 11, [0], [1], [2], [3])
    profile = read(tmp_path, loader(workers=4), real(), end())
    assert profile.host.worker_affinity == 4
    assert "workers are bound to cores of their own: 1 of 4" in profile.environment.notes[0]


def test_workers_bound_to_the_same_core_have_one(tmp_path: Path) -> None:
    of_workers(tmp_path, 11, [2], [2])
    profile = read(tmp_path, loader(workers=2), real(), end())
    assert profile.host.worker_affinity == 1
    assert profile.environment.notes == ()


def test_the_workers_of_empty_batches_say_nothing_of_what_the_script_binds_its_own_to(
    tmp_path: Path,
) -> None:
    of_workers(tmp_path, 11, [0], [0], prepared=True)
    of_workers(tmp_path, 11, [0, 1], [0, 1])
    profile = read(tmp_path, loader(workers=2), real(), end())
    assert profile.host.worker_affinity == 1
    assert profile.environment.notes == ()


@pytest.mark.parametrize(
    ("masks", "met", "cores"),
    [
        (([0, 1], [0, 1]), 1, 1),  # bound as their data set began
        (([0], [1]), 2, 2),
        (([0], [1]), 1, 2),  # one of them had ended by then
        (([0, 1], [0, 1]), None, 2),
    ],
)
def test_workers_that_are_bound_once_they_run_have_what_they_have_then(
    tmp_path: Path, masks: tuple[list[int], ...], met: int | None, cores: int
) -> None:
    of_workers(tmp_path, 11, *masks)
    host = {"kind": "host", **host_facts(), "worker_affinity": met}
    profile = read(tmp_path, loader(workers=2), real(), host, end())
    assert profile.host.worker_affinity == cores


def test_the_workers_of_another_rank_say_nothing_of_this_one(tmp_path: Path) -> None:
    of_workers(tmp_path, 11, [0, 1], lines=(timed(decode=[1, 3_000, 3_000]),))
    of_workers(tmp_path, 12, [0], lines=(timed(wait=[1, 9_000, 0]),))
    second = [loader(rank=1), real(), timed(wait=[1, 9_000, 0])]
    (tmp_path / "trainer-12.jsonl").write_text("".join(json.dumps(one) + "\n" for one in second))
    profile = read(tmp_path, loader(workers=2), real(), end())
    assert profile.host.worker_affinity == 2
    assert [stage.stage for stage in profile.stages] == ["decode"]


def test_what_workers_said_and_which_stages_repeat_is_told(tmp_path: Path) -> None:
    said = timed(decode=[1, 3_000, 3_000], flip=[1, 2_000, 2_000]) | {"notes": ["pixel: too often"]}
    of_workers(tmp_path, 11, [0], [0], lines=(said, said))
    repeats = {"kind": "repeats", "stages": {"decode": True, "flip": False}}
    profile = read(tmp_path, loader(workers=2), real(), repeats, end())
    assert profile.environment.notes == ("pixel: too often",)
    assert {stage.stage: stage.deterministic for stage in profile.stages} == repeats["stages"]


def grown(batches: int, unique_bytes: int, **changes: Any) -> Line:
    line = {"kind": "memory", "workers": 2, "main_bytes": 10**9, "pids": [21, 22]}
    times = {"batches": batches, "unique_bytes": unique_bytes, "ended": False}
    return line | times | changes


@pytest.mark.parametrize(
    ("last", "lately"),
    [
        (grown(250, 60_000_000, ended=True), 1.0),  # a cache
        (grown(250, 41_000_000, ended=True), 0.05),  # an allocator that has enough
        (grown(250, 60_000_000, ended=True, pids=[23, 24]), None),
        (grown(210, 60_000_000, ended=True), None),
    ],
)
def test_growth_that_goes_on_is_told_from_growth_that_ends(
    tmp_path: Path, last: Line, lately: float | None
) -> None:
    seen = [grown(10, 0), grown(110, 50_000_000, ended=True), grown(210, 40_000_000), last]
    found = read(tmp_path, loader(), real(), *seen, end()).memory
    assert (found.lately if found else None) == (lately and pytest.approx(lately))


def test_memory_grows_by_the_batches_that_the_workers_made(tmp_path: Path) -> None:
    seen = [grown(10, 10_000_000), grown(110, 14_000_000), grown(210, 20_000_000)]
    growth = read(tmp_path, loader(), real(), *seen, end()).memory
    assert growth is not None
    assert growth.bytes_per_batch == 60_000
    assert (growth.batches, growth.unique_bytes, growth.main_bytes) == (210, 20_000_000, 10**9)


@pytest.mark.parametrize(
    "seen",
    [
        [grown(10, 5)],
        [grown(10, 5), grown(10, 9)],
        [grown(10, 5), grown(90, 9, pids=[23, 24])],
        [grown(10, 5, workers=0), grown(90, 9, workers=0)],
    ],
    ids=["once", "no batch between", "other workers", "no workers"],
)
def test_of_workers_that_were_not_seen_at_work_no_growth_is_told(
    tmp_path: Path, seen: list[Line]
) -> None:
    assert read(tmp_path, loader(), real(), *seen, end()).memory is None


def test_single_batches_of_the_loaders_workers_are_kept_in_their_order(tmp_path: Path) -> None:
    for worker in (0, 1):
        lines = (
            {"kind": "worker", "trainer": 11, "cpus": [0, 1], "is_prepared": False},
            {
                "kind": "batches",
                "worker": worker,
                "workers": 2,
                "seconds": [9.0, 0.1, 0.3 + worker],
            },
        )
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (tmp_path / f"worker-{20 + worker}.jsonl").write_text(text)
    profile = read(tmp_path, loader(workers=2, in_order=False), real(), end())

    assert profile.batches is not None
    assert profile.batches.seconds == (0.1, 0.1, 0.3, 1.3)
    assert profile.loader is not None
    assert not profile.loader.in_order
    assert read(tmp_path, loader(workers=4), real(), end()).batches is None
