"""A worker process: takes tasks as they come, and makes them, until it is told to end.

It ends with the process that started it. Ctrl-C is that one's: a terminal sends it to both.
"""

from __future__ import annotations

import os
import pickle
import select
import signal
import threading
import time
from collections.abc import Callable
from multiprocessing import reduction
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import torch

from stoker import lifetime
from stoker.loader.processes.block import Arena, Block, Bytes
from stoker.loader.processes.board import WAITING, Board
from stoker.loader.processes.carried import Place, get, put
from stoker.loader.processes.failure import Failure
from stoker.loader.processes.making import Maker, Stacking
from stoker.loader.processes.records import Kind, Record, read_one, write
from stoker.loader.processes.rows import Layout, Rows, bytes_of
from stoker.loader.processes.streams import Streams

# How often it is looked whether the starter lives, where the kernel can't be asked to tell its end.
_STARTER_S = 1.0
# Comparing the generators takes 0.1 ms: not after every sample.
_LOOK_NS = 20_000_000


class Seat(NamedTuple):
    """What a worker is given to talk with. `own`, `shared`: tasks for it, for any; `done`: ours.

    `starter`: the process that has the workers, and whether its main thread has started them.
    """

    number: int
    workers: int
    starter: tuple[int, bool]
    control: Connection
    own: Connection
    shared: Connection
    done: Connection


class Job(NamedTuple):
    """What it is to do. `base_seed`: None where nothing is seeded."""

    maker: Maker
    base_seed: int | None
    begin: Callable[[int], Any] | None


def serve(seat: Seat, job: Job) -> None:
    """The whole life of a worker process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    starter, is_by_main_thread = seat.starter
    if is_by_main_thread:
        lifetime.end_with(starter)
    else:  # the kernel would kill this process with the thread
        threading.Thread(target=_end_with, args=(starter,), daemon=True).start()
    torch.set_num_threads(1)
    _Worker(seat, job).run()


def _end_with(starter: int) -> None:
    while lifetime.is_alive(starter):
        time.sleep(_STARTER_S)
    os._exit(1)


class _Worker:
    def __init__(self, seat: Seat, job: Job) -> None:
        self._seat = seat
        self._maker = job.maker
        self._blocks: dict[int, Block] = {}
        self._layout: Layout | None = None
        self._has_told_layout = False  # or that there is none
        self._inputs: tuple[int, Any] = (-1, None)  # batch, what it is made of
        self._rows: tuple[int, Rows | None] = (-1, None)
        self._place = 0, range(0), 0, "dataset"  # batch, rows, row, stage
        self._looked_ns = 0
        self._stacking = Stacking()
        file = reduction.recv_handle(seat.control)
        self._board = Board(Block(file), seat.workers)
        self._streams: Streams | None = None
        self._not_begun: BaseException | None = None
        if job.base_seed is not None:
            self._streams = Streams(
                seat.number, seat.workers, job.base_seed, getattr(job.maker, "dataset", None)
            )
        if job.begin is not None:
            self._board.note(seat.number, "worker_init_fn")
            try:
                job.begin(seat.number)
            except Exception as error:  # noqa: BLE001 - told with the first batch, as torch does
                self._not_begun = error

    def run(self) -> None:
        seat = self._seat
        poll = select.poll()
        for channel in (seat.control, seat.own, seat.shared):
            poll.register(channel.fileno(), select.POLLIN)
        while True:
            self._board.note(seat.number, WAITING)
            ready = {file for file, _ in poll.poll()}
            if seat.control.fileno() in ready and not self._listen():
                return
            for channel in (seat.own, seat.shared):
                task = read_one(channel.fileno()) if channel.fileno() in ready else None
                if task is not None:
                    self._do(task)
                    break

    def _listen(self) -> bool:
        """One message of the parent; False for the last."""
        try:
            what, value = self._seat.control.recv()
        except EOFError:
            return False
        if what == "slot":
            self._blocks[value] = Block(reduction.recv_handle(self._seat.control))
        elif what == "layout":
            block = Block(reduction.recv_handle(self._seat.control))
            self._layout = pickle.loads(block.memory[:value].data)
            block.close()
        return bool(what != "end")

    def _do(self, task: Record) -> None:
        self._place = task.batch, range(task.first, task.first + task.samples), -1, "dataset"
        began = time.perf_counter_ns()
        try:
            if self._not_begun is not None:
                error, self._not_begun = self._not_begun, None
                self._place = *self._place[:3], "worker_init_fn"
                raise error
            done = self._made(task)
        except Exception as error:  # noqa: BLE001 - the loop raises it
            batch, rows, row, stage = self._place
            failure = Failure.of(error, batch=batch, rows=rows, row=row, stage=stage)
            self._seat.control.send(failure)
            return
        taken = time.perf_counter_ns() - began
        is_drawn = self._streams is not None and self._has_drawn(task)
        write(self._seat.done.fileno(), [done._replace(extra=-taken if is_drawn else taken)])

    def _has_drawn(self, task: Record) -> bool:
        assert self._streams is not None
        now = time.monotonic_ns()
        if task.kind == Kind.ROWS and now - self._looked_ns < _LOOK_NS:
            return False
        self._looked_ns = now
        return self._streams.were_drawn()

    def _made(self, task: Record) -> Record:
        while task.slot not in self._blocks:
            self._listen()
        block = self._blocks[task.slot]
        if self._inputs[0] != task.batch:
            block.forget_old()
            block.reach(task.offset + task.length)
            # A copy: what is made may lie over it, and a data set may keep its keys.
            inputs = get(_copied(block.memory, task.offset + task.length), _inputs_of(task))
            self._inputs = task.batch, inputs
        if task.kind == Kind.ROWS:
            return self._make_rows(task, block)
        return self._make_whole(task, block)

    def _make_whole(self, task: Record, block: Block) -> Record:
        arena = self._stacking.arena = Arena(block, task.offset + task.length)
        try:
            made = self._maker.whole(self._inputs[1], self._note)
            self._stacking.arena = None
            place = put(made, arena)
            told = self._put_layout(arena) if task.extra else 0
        finally:
            self._stacking.arena = None
            self._inputs = -1, None
        answer = task._replace(slot=self._seat.number, first=arena.end, samples=told)
        return answer._replace(offset=place.offset, length=place.length)

    def _put_layout(self, arena: Arena) -> int:
        """The bytes of the layout, at the arena's end; it is looked for once, in a first batch."""
        if self._has_told_layout or self._layout is not None:
            return 0
        self._has_told_layout = True
        layout = self._maker.layout()
        return 0 if layout is None else arena.put(pickle.dumps(layout))[1]

    def _make_rows(self, task: Record, block: Block) -> Record:
        while self._layout is None:
            self._listen()
        if self._rows[0] != task.batch:
            start = task.offset + task.length
            block.reach(bytes_of(self._layout, task.extra, start))
            self._rows = task.batch, Rows(block.memory, start, self._layout, task.extra)
        rows = self._rows[1]
        assert rows is not None
        answer = task._replace(slot=self._seat.number)
        for row in self._place[1]:
            self._note("dataset", row)
            sample = self._maker.sample(self._inputs[1][row])
            try:
                rows.write(row, sample)
            except Exception:  # noqa: BLE001 - made anew as a whole, with torch's words if it fails
                return answer._replace(kind=Kind.MISFIT)
        return answer

    def _note(self, stage: str, row: int) -> None:
        batch, rows, _, _ = self._place
        self._place = batch, rows, row, stage
        self._board.note(self._seat.number, stage, batch, row)


def _inputs_of(task: Record) -> Place:
    return Place(task.offset, task.length)


def _copied(memory: Bytes, length: int) -> Bytes:
    return memory[:length].copy()
