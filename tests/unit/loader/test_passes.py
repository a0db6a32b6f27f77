"""A pass by worker processes: what fails, is empty or can't be sent leaves the next batch alone."""

from __future__ import annotations

import errno
import itertools
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data._utils import worker as torchs

import stoker
from stoker.errors import LoaderError
from stoker.loader.processes import iterators, making, passes, pool, streams
from stoker.loader.processes.block import Block
from stoker.loader.processes.making import OfBatches
from stoker.loader.processes.passes import Desk, Pass
from stoker.loader.processes.pool import Pool
from stoker.loader.processes.records import Kind, Record
from stoker.loader.processes.rows import layout_of
from stoker.loader.processes.ways import Ways
from stoker.loader.processes.worker import Job
from stoker.pack import write_arrays

PATIENCE_S = 60.0


@pytest.fixture
def desk_for() -> Iterator[Callable[..., Desk]]:
    """Makes the desk of one worker that changes batches by a function."""
    desks: list[Desk] = []

    def make(change: Callable[[Any], Any], patience_s: float = PATIENCE_S, depth: int = 2) -> Desk:
        ways = Ways(1, is_free=True)
        desks.append(Desk(Pool(Job(OfBatches(change), None, None), 1), ways, depth, patience_s))
        return desks[-1]

    yield make
    for desk in desks:
        desk.close()


def failing(given: Any) -> Any:
    raise ArithmeticError(given)


def same(given: Any) -> Any:
    return given


def test_batches_that_fail_give_their_room_back(desk_for: Callable[..., Desk]) -> None:
    desk = desk_for(failing)
    for number in range(2 * desk.depth + 2):
        with pytest.raises(ArithmeticError, match=str(number)):
            next(Pass(desk, iter([number]), has_keys=False))
    assert len(desk.ring._blocks) == 1


class Unsendable:
    """Can't be pickled."""

    def __reduce__(self) -> Any:
        raise TypeError("not to be sent")


def test_inputs_that_cannot_be_sent_fail_in_their_place(desk_for: Callable[..., Desk]) -> None:
    desk = desk_for(same)
    for _ in range(2 * desk.depth + 2):
        running = Pass(desk, iter([1, 2, 3, Unsendable(), 5]), has_keys=False)
        assert list(itertools.islice(running, 3)) == [1, 2, 3]
        with pytest.raises(TypeError, match="not to be sent"):
            next(running)
        assert list(running) == []
    assert len(desk.ring._blocks) <= desk.depth + 1


def test_a_batch_without_a_file_for_it_fails_in_its_place(
    desk_for: Callable[..., Desk], monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = desk_for(same)
    refused = iter([1])
    fromfd = pool.socket.fromfd

    def out_of_files(*arguments: Any) -> Any:
        if len(desk.ring._blocks) == 2 and next(refused, None):
            raise OSError(errno.EMFILE, "too many open files")
        return fromfd(*arguments)

    monkeypatch.setattr(pool.socket, "fromfd", out_of_files)
    running = Pass(desk, iter(range(6)), has_keys=False)
    assert next(running) == 0
    with pytest.raises(OSError, match="too many open files"):
        next(running)
    assert list(Pass(desk, iter(range(6)), has_keys=False)) == list(range(6))


def counted(samples: list[Any]) -> Any:
    return len(samples), sum(samples)


def test_an_empty_batch_is_what_the_collate_function_makes_of_it() -> None:
    batches: list[list[int]] = [[0, 1], [], [2], [], [], [], [], [], [3, 4]]
    settings: dict[str, Any] = {"batch_sampler": batches, "num_workers": 2, "mode": "processes"}
    loader = stoker.DataLoader(range(5), collate_fn=counted, **settings)  # type: ignore[arg-type]
    assert list(loader) == [counted(batch) for batch in batches]
    running = iter(stoker.DataLoader(range(5), **settings))  # type: ignore[arg-type]
    assert next(running).tolist() == [0, 1]
    with pytest.raises(IndexError):  # torch's collate function, as with torch's workers
        next(running)


def dying_once(batch: Any, *, seed: int, epoch: int) -> Any:
    if epoch == 0:
        os._exit(4)
    return batch


def test_the_epoch_after_a_death_has_new_workers(tmp_path: Path) -> None:
    write_arrays(tmp_path / "pack", {"label": np.arange(12)})
    loader = stoker.Loader(tmp_path / "pack", 6, augment=dying_once, workers=1)
    with pytest.raises(LoaderError, match="exit code 4"):
        list(loader)
    loader.set_epoch(1)
    assert [len(batch["label"]) for batch in loader] == [6, 6]


def test_what_is_ordered_of_an_ended_pool_goes_nowhere(
    desk_for: Callable[..., Desk], tmp_path: Path
) -> None:
    ended = desk_for(same).pool
    ended.close()
    files = [(tmp_path / str(number)).open("wb") for number in range(64)]  # by the same numbers
    ended.order([Record(Kind.WHOLE, 0, 0, 0, 1, 0, 0, 1)])
    for file in files:
        file.close()
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) == 0


@pytest.mark.parametrize("is_pinned", [False, True])
def test_a_pass_whose_workers_are_ended_does_not_look_whole(
    is_pinned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = iterators.Processes._begin

    def pinning(self: Any, loader: Any) -> None:
        self._pin_memory = is_pinned
        begin(self, loader)

    monkeypatch.setattr(iterators.Processes, "_begin", pinning)
    loader = stoker.DataLoader(range(12), 2, num_workers=2, mode="processes", collate_fn=sum)  # type: ignore[arg-type]
    running = iter(loader)
    assert next(running) == 1
    running._shutdown_workers()  # type: ignore[attr-defined]
    with pytest.raises(LoaderError, match="ended before the last batch"):
        next(running)
    assert list(running) == []
    assert len(list(loader)) == 6
    assert not [thread for thread in threading.enumerate() if thread.name == "stoker-feed"]


def until(told: Path) -> Callable[[Any], Any]:
    def waiting(given: Any) -> Any:
        end = time.monotonic() + PATIENCE_S
        while not told.exists() and time.monotonic() < end:
            time.sleep(0.01)
        return given

    return waiting


def test_blocks_for_a_worker_that_hangs_do_not_hold_the_loop(
    desk_for: Callable[..., Desk], tmp_path: Path
) -> None:
    desk = desk_for(until(tmp_path / "go"), patience_s=0.3, depth=1000)
    running = Pass(desk, iter(range(1000)), has_keys=False)
    running.send()  # all that its channel holds
    assert desk.is_broken and len(running.under_way) < 1000
    with pytest.raises(LoaderError, match="stage 'augment' has taken"):
        next(running)
    (tmp_path / "go").touch()


def test_a_layout_is_announced_without_waiting_for_workers(
    desk_for: Callable[..., Desk], tmp_path: Path
) -> None:
    """One that is at work for long does not listen, and its channel holds little."""

    desk = desk_for(until(tmp_path / "go"))
    running = Pass(desk, iter([0]), has_keys=False)
    running.send()
    layout = layout_of([torch.zeros(3, 224, 224), *range(20_000)])
    assert layout is not None
    telling = threading.Thread(target=desk.pool.announce, args=(layout, PATIENCE_S), daemon=True)
    telling.start()
    telling.join(PATIENCE_S / 3)
    is_told = not telling.is_alive()
    (tmp_path / "go").touch()
    telling.join(PATIENCE_S)
    assert is_told
    assert list(running) == [0]


def test_a_batch_is_read_once_and_a_layout_looked_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where no layout ever comes, as with texts."""
    read = []
    get = passes.get
    monkeypatch.setattr(passes, "get", lambda *where: read.append(where[1]) or get(*where))

    def none(sample: Any) -> None:
        with (tmp_path / str(os.getpid())).open("a") as asked:
            asked.write(".")

    monkeypatch.setattr(making, "layout_of", none)
    texts = [str(number) for number in range(40)]
    loader = stoker.DataLoader(texts, 2, num_workers=2, mode="processes")  # type: ignore[arg-type]
    assert [text for batch in loader for text in batch] == texts
    assert len(read) == 20
    assert all(path.read_text() == "." for path in tmp_path.iterdir())


def test_a_torch_that_reads_its_workers_information_while_it_makes_it_has_drawn_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Older(streams._Told):
        def __init__(self, **told: Any) -> None:
            super().__init__(**told)
            assert self.id == 0

    monkeypatch.setattr(streams, "_Told", Older)
    monkeypatch.setattr(torchs, "_worker_info", None)
    before = random.getstate(), np.random.get_state(), torch.get_rng_state()
    try:
        watched = streams.Streams(0, 2, 1, None)
        assert not watched.were_drawn()
        random.random()
        assert watched.were_drawn()
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])
        torch.set_rng_state(before[2])


def test_two_that_let_a_block_grow_leave_it_with_the_larger_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = Block.new(0)
    other = Block(os.dup(one.file))
    stale = os.fstat(one.file)
    one.reach(10 << 20)
    seen = iter([stale])
    with monkeypatch.context() as slower:
        fstat = os.fstat
        slower.setattr(os, "fstat", lambda file: next(seen, None) or fstat(file))
        other.reach(4 << 20)
    assert os.fstat(one.file).st_size == 10 << 20 == other.size
    one.close()
    other.close()
