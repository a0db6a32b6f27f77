"""Worker processes that die, hang or are left: what is said, and that nothing stays behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import stoker
from stoker.errors import LoaderError
from stoker.lifetime import is_alive
from tests.unit.loader.samples import PATIENCE_S, Alike, children

DEATH_S = 5.0  # as the documents promise


class Deadly(Alike):
    """A worker that dies at one sample, in one of two ways."""

    def __init__(self, at: int, way: int) -> None:
        super().__init__(40)
        self.at, self.way = at, way

    def __getitem__(self, index: int) -> Any:
        if index == self.at:
            if self.way:
                os.kill(os.getpid(), self.way)
            os._exit(3)
        return index


@pytest.mark.parametrize(
    ("at", "way", "text"),
    [(0, signal.SIGKILL, "killed by SIGKILL"), (31, 0, "exit code 3")],
)
def test_a_dead_worker_is_an_error_that_names_the_sample(at: int, way: int, text: str) -> None:
    loader = stoker.DataLoader(
        Deadly(at, way), 5, num_workers=2, mode="processes", persistent_workers=True
    )
    for _ in range(2):  # and the next pass starts new ones
        began = time.monotonic()
        with pytest.raises(LoaderError, match=text) as raised:
            list(loader)
        assert time.monotonic() - began < DEATH_S
        assert f"stage 'dataset', sample {at}" in raised.value.looked_at


def test_a_worker_that_hangs_is_named_and_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    from stoker.loader.processes import pool

    monkeypatch.setattr(pool, "_END_S", 0.1)

    class Hanging(Alike):
        def __getitem__(self, index: int) -> Any:
            time.sleep(PATIENCE_S if index == 3 else 0)
            return index

    loader = stoker.DataLoader(Hanging(), 5, num_workers=1, timeout=0.2, mode="processes")
    with pytest.raises(LoaderError, match="sample 3 has taken") as raised:
        next(iter(loader))
    assert "py-spy dump --pid " in raised.value.run_next
    assert children() == []


def held() -> tuple[list[int], int]:
    """Children and files of this process; after every test /dev/shm is looked at anyway."""
    return children(), len(list(Path("/proc/self/fd").iterdir()))


def shared_by(processes: list[int]) -> list[str]:
    """What they have left in /dev/shm: by Python, torch or us, whose names tell who made them."""
    names = [path.name for path in Path("/dev/shm").iterdir()]
    return [name for name in names if any(f"_{process}_" in name for process in processes)]


def test_however_a_pass_ends_nothing_is_left() -> None:
    def whole(loader: Any) -> None:
        list(loader)

    def left(loader: Any) -> None:
        for number, _ in enumerate(loader):
            if number == 2:
                break

    def twice(loader: Any) -> None:
        one = iter(loader)
        next(one)
        list(zip(loader, range(2), strict=False))
        next(one)

    def abandoned(loader: Any) -> None:
        for _ in range(5):
            iter(loader)

    before = held()
    for ending in (whole, left, twice, abandoned):
        for settings in ({}, {"persistent_workers": True}):
            loader = stoker.DataLoader(Alike(400), 4, num_workers=2, mode="processes", **settings)
            ending(loader)
            del loader
            assert held() == before, ending


_SCRIPT = """
import os, signal, sys, time
import stoker

class Slow:
    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        time.sleep(0.01)
        return index

if __name__ == "__main__":
    loader = stoker.DataLoader(Slow(), 4, num_workers=2, mode="processes")
    for number, batch in enumerate(loader):
        if number == 2:
            print(*[open(f"/proc/self/task/{os.getpid()}/children").read()], flush=True)
"""


@pytest.mark.parametrize("way", [signal.SIGINT, signal.SIGKILL], ids=["Ctrl-C", "kill -9"])
def test_a_run_that_is_ended_leaves_no_process_and_no_shared_memory(way: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _SCRIPT],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as run:
        assert run.stdout is not None
        workers = [int(word) for word in run.stdout.readline().split()]
        assert len(workers) == 2
        if way == signal.SIGINT:
            os.killpg(run.pid, way)  # a terminal sends it to all
        else:
            run.kill()
        _, said = run.communicate(timeout=PATIENCE_S)
    if way == signal.SIGINT:
        assert said.count("Traceback") == 1 and said.rstrip().endswith("KeyboardInterrupt")
    end = time.monotonic() + DEATH_S
    while any(is_alive(worker) for worker in workers) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(is_alive(worker) for worker in workers)
    assert shared_by([run.pid, *workers]) == []


_HOLDING = """
import os
import stoker

class Holding:
    def __len__(self):
        return 4

    def __getitem__(self, index):
        print(os.getpid(), flush=True)
        return sum(range(3_000_000_000))  # a minute in C, with the GIL held

if __name__ == "__main__":
    next(iter(stoker.DataLoader(Holding(), 1, num_workers=2, mode="processes")))
"""


def test_a_worker_that_holds_the_gil_ends_with_a_killed_run() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _HOLDING], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as run:
        try:
            assert run.stdout is not None
            workers = {int(run.stdout.readline()) for _ in range(2)}
            assert len(workers) == 2
            run.kill()
            end = time.monotonic() + DEATH_S
            while any(is_alive(worker) for worker in workers) and time.monotonic() < end:
                time.sleep(0.05)
            assert not any(is_alive(worker) for worker in workers)
        finally:
            os.killpg(run.pid, signal.SIGKILL)


def test_workers_that_another_thread_has_started_live_on_without_it() -> None:
    begun: list[Any] = []
    loader = stoker.DataLoader(Alike(), 5, num_workers=1, mode="processes")
    starting = threading.Thread(target=lambda: begun.append(iter(loader)))
    starting.start()
    starting.join()
    assert len(list(begun.pop())) == 8


def test_a_forked_child_is_told_that_the_workers_are_not_its_own() -> None:
    running = iter(stoker.DataLoader(Alike(), 5, num_workers=1, mode="processes"))
    next(running)
    child = os.fork()
    if child == 0:
        try:
            next(running)
        except LoaderError as error:
            os._exit(0 if "forked child" in str(error) else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(list(running)) == 7


@pytest.fixture(autouse=True)
def no_process_left() -> Iterator[None]:
    before = children()
    yield
    assert children() == before
