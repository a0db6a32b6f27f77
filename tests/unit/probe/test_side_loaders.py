"""Loaders beside a stoker.DataLoader: threads as its own, and nothing of them left."""

from __future__ import annotations

import json
import random
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch

import stoker
from stoker.loader.gil import Verdict
from stoker.probe.process import CpuMeter
from stoker.probe.rehearsal import Rehearsal
from stoker.probe.session import Session, read_lines
from stoker.probe.side_loader import SideLoader, start_method_of, worker_count


class Drawing:
    """A sampler whose every batch draws from the script's random numbers."""

    def __iter__(self) -> Any:
        for _ in range(3):
            yield [random.randrange(12), int(torch.randint(12, ()))]

    def __len__(self) -> int:
        return 3


class Numbers:
    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(0.001)
        return torch.full((4,), index)


def loader(**settings: Any) -> Any:
    given = {"batch_sampler": Drawing(), "num_workers": 2, "mode": "threads"} | settings
    return stoker.DataLoader(Numbers(), **given)


@pytest.fixture
def session(tmp_path: Path) -> Session:
    (tmp_path / "options.json").write_text(json.dumps({"budget_s": 1.0}))
    return Session(tmp_path)


def lines(session: Session, kind: str) -> list[dict[str, Any]]:
    (file,) = session.folder.glob("trainer-*.jsonl")
    return [line for line in read_lines(file)[0] if line["kind"] == kind]


def loading_threads() -> list[str]:
    return [one.name for one in threading.enumerate() if one.name.startswith("stoker-loader")]


def test_a_drain_of_threads_leaves_no_thread_and_no_random_number_moved(session: Session) -> None:
    given = loader()
    rehearsal = Rehearsal(given, session, torch.zeros(2, 4), served=1)
    before = random.getstate(), torch.get_rng_state()

    alone = rehearsal.drain("L", 2, batches=20, limit_s=1.0)
    end = time.monotonic() + 5.0
    while not rehearsal._own._iterator.is_at_rest and time.monotonic() < end:
        time.sleep(0.01)  # its queue fills again
    assert before[0] == random.getstate() and torch.equal(before[1], torch.get_rng_state())
    assert len(alone) >= 20 and sum(alone) / len(alone) > 0.0005
    assert rehearsal.drain("N", 2, batches=20, limit_s=1.0)
    assert rehearsal.drain("S", 2, batches=4, limit_s=1.0)
    assert len(loading_threads()) == 2, "only those of leg L are kept"
    rehearsal.close()
    assert loading_threads() == []

    drained = {line["what"]: line for line in lines(session, "drain")}
    assert (drained["L"]["workers"], drained["L"]["start_method"]) == (2, "threads")
    assert drained["L"]["runqueue_s"] is not None
    stages = lines(session, "stages")
    assert {line["where"] for line in stages} == {"worker"}
    assert "Numbers.__getitem__" in stages[0]["stages"]


def test_what_is_no_setting_of_it_is_left_out(session: Session) -> None:
    rehearsal = Rehearsal(loader(), session, torch.zeros(2, 4), served=1)
    assert rehearsal.drain("L", 0, batches=4, limit_s=1.0) == []
    assert rehearsal.drain("T", 2, batches=4, limit_s=1.0) == []


@pytest.mark.parametrize(("workers", "count"), [(0, 1), (1, 1), (2, 2)])
def test_threads_count_as_workers(workers: int, count: int) -> None:
    given = loader(num_workers=workers)
    assert (worker_count(given), start_method_of(given)) == (count, "threads")


def test_another_number_of_workers_finds_out_for_itself(session: Session) -> None:
    given = loader(num_workers=1, mode="auto")
    given._verdict = Verdict(cores=2)  # also where the tests own one core
    side = SideLoader(given, session, workers=2)
    side.settle()
    assert given._verdict.stays is None, "the script's own loader knows no more than before"
    assert side._loader._verdict.stays is not None
    side.open()
    assert side.take().shape == (2, 4)
    side.close()


def test_it_is_found_out_once_for_all_numbers(session: Session) -> None:
    given = loader(num_workers=1, mode="auto")
    given._verdict = Verdict(cores=2)
    rehearsal = Rehearsal(given, session, torch.zeros(2, 4), served=1)
    sides = [rehearsal._side("L", workers)[0] for workers in (2, 4)]
    assert sides[0]._loader._verdict is sides[1]._loader._verdict
    assert sides[1]._loader._verdict.stays is not None
    rehearsal.close()


def test_one_that_goes_along_without_workers_gives_batch_after_batch(session: Session) -> None:
    beside = SideLoader(loader(num_workers=2), session, workers=0)
    main = torch.utils.data.DataLoader(Numbers(), batch_sampler=Drawing(), num_workers=0)
    side = SideLoader(main, session, workers=0, beside=[beside])
    side.open()
    for _ in range(12):
        side.take()
    assert beside.taken == 12
    side.close()


def test_worker_processes_are_at_rest_when_what_was_asked_for_is_made(session: Session) -> None:
    given = loader(mode="processes", num_workers=1)
    running = iter(given)
    next(running)
    end = time.monotonic() + 20.0
    while not running.is_at_rest and time.monotonic() < end:
        time.sleep(0.01)
    assert running.is_at_rest
    assert all(running._desk.is_ready(number) for number in running._pass.under_way)
    running._shutdown_workers()


def test_one_that_has_found_processes_is_one_thread_with_fewer_than_two(session: Session) -> None:
    given = loader(mode="auto")
    given._verdict = Verdict(cores=2)
    given._verdict.stays = False
    assert not SideLoader(given, session, workers=2).is_threaded
    assert SideLoader(given, session, workers=1).is_threaded


def test_the_time_of_single_threads_is_read() -> None:
    is_over = threading.Event()

    def work() -> None:
        while not is_over.is_set():
            sum(range(1000))

    thread = threading.Thread(target=work)
    thread.start()
    try:
        assert thread.native_id is not None
        meter = CpuMeter((), threads=[thread.native_id])
        end = time.monotonic() + 5.0
        while meter.read().cpu_s < 0.02 and time.monotonic() < end:
            time.sleep(0.01)
        use = meter.read()
    finally:
        is_over.set()
        thread.join()
    assert use.processes == 1
    assert use.cpu_s >= 0.02
