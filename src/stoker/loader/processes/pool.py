"""The worker processes, as their parent sees them: started, told, heard, watched and ended."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import select
import signal
import socket
import threading
import time
from collections.abc import Sequence
from multiprocessing import reduction
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from stoker import lifetime
from stoker.loader.processes.block import Block
from stoker.loader.processes.board import At, Board
from stoker.loader.processes.failure import Failure
from stoker.loader.processes.records import Pipe, Record, read_all, write
from stoker.loader.processes.worker import Job, Seat, serve

# A worker ends after the sample it is at, as torch's do; one that takes longer is ended.
_END_S = 5.0
_KILL_S = 1.0
# How often a wait looks whether anything at all goes on.
_LOOK_S = 1.0
# How often a wait for room in a channel looks whether anybody still wants it.
_ROOM_S = 0.1


class Pool:
    """`workers` processes that do one job. Used by one thread at a time; `close` from any."""

    def __init__(self, job: Job, workers: int, context: Any = None) -> None:
        self.workers = workers
        self.process = os.getpid()
        self.is_closed = False
        # Held while file numbers are used: a closed one may be another file's by then. Reentrant,
        # because a forgotten pool is closed wherever its owner's thread just is.
        self._lock = threading.RLock()
        context = context or multiprocessing.get_context()
        self._board_block = Block.new(0)
        self.board = Board(self._board_block, workers)
        self._shared, self._done = Pipe(), Pipe()
        self._own = [Pipe() for _ in range(workers)]
        self.capacity = min(self._shared.capacity, self._done.capacity)
        self._controls: list[Connection] = []
        self._children: list[Any] = []
        self.pids: list[int] = []
        self._poll = select.poll()
        self._poll.register(self._done.reader, select.POLLIN)
        try:
            for number in range(workers):
                self._start(context, job, number)
        except BaseException:
            self.close()
            raise

    def _start(self, context: Any, job: Job, number: int) -> None:
        mine, theirs = context.Pipe(duplex=True)
        self._controls.append(mine)
        # Connections, because they can be handed to a spawned process too; the files stay ours.
        ends = [
            Connection(os.dup(end), readable=is_read, writable=not is_read)
            for end, is_read in (
                (self._own[number].reader, True),
                (self._shared.reader, True),
                (self._done.writer, False),
            )
        ]
        starter = self.process, lifetime.is_main_thread()
        seat = Seat(number, self.workers, starter, theirs, *ends)
        child = context.Process(target=serve, args=(seat, job), daemon=True)
        try:
            child.start()
        finally:
            for end in (theirs, *ends):
                end.close()
        self._children.append(child)
        self.pids.append(child.pid)
        reduction.send_handle(mine, self._board_block.file, child.pid)
        for file in (mine.fileno(), child.sentinel):
            self._poll.register(file, select.POLLIN)

    @property
    def children(self) -> list[Any]:
        """The processes, until they are ended."""
        return [] if self.is_closed else list(self._children)

    def introduce(self, slot: int, block: Block, patience_s: float) -> None:
        """Let all workers map a new block.

        Raises OSError when no file can be opened, and Standstill where a worker that does not
        listen any more has been told all that its channel holds.
        """
        self._hand_over("slot", slot, block, patience_s)

    def announce(self, layout: Any, patience_s: float) -> None:
        """Tell all workers what the samples look like. Raises as `introduce` does."""
        # In a block: a worker listens between samples only, and whatever fills its channel until
        # then would hold the loop.
        data = np.frombuffer(pickle.dumps(layout), np.uint8)
        block = Block.new(len(data))
        block.memory[: len(data)] = data
        self._hand_over("layout", len(data), block, patience_s)
        block.close()

    def _hand_over(self, what: str, value: int, block: Block, patience_s: float) -> None:
        for control in self._controls:
            self._wait_for_room(control, patience_s)
            with self._lock:
                if self.is_closed:
                    return
                # First what may fail for want of a file: a worker that is told waits for the block.
                with socket.fromfd(control.fileno(), socket.AF_UNIX, socket.SOCK_STREAM) as channel:
                    self._tell(control, (what, value))
                    with contextlib.suppress(OSError):
                        reduction.sendfds(channel, [block.file])

    def _wait_for_room(self, control: Connection, patience_s: float) -> None:
        poll = select.poll()
        with self._lock:
            if self.is_closed:
                return
            poll.register(control.fileno(), select.POLLOUT)
        latest = time.monotonic() + patience_s
        marks = self.board.marks()
        while not poll.poll(_ROOM_S * 1000) and not self.is_closed:
            if marks != (marks := self.board.marks()):
                latest = time.monotonic() + patience_s
            elif time.monotonic() > latest:
                raise Standstill

    def order(self, tasks: Sequence[Record], worker: int | None = None) -> None:
        """Give tasks to one worker, or to whichever is free."""
        with self._lock:
            if not self.is_closed:
                write((self._shared if worker is None else self._own[worker]).writer, tasks)

    def hear(self, patience_s: float) -> tuple[list[Record], list[tuple[int, Failure]]]:
        """What workers have done since, and who has failed.

        Waits for something, `patience_s` without any progress; with 0 not at all. Raises Died for a
        worker that is gone, and Standstill.
        """
        latest = time.monotonic() + patience_s
        marks = b""
        while True:
            left = latest - time.monotonic()
            ready = {f for f, _ in self._poll.poll(max(0.0, min(left, _LOOK_S)) * 1000)}
            with self._lock:
                if self.is_closed:
                    return [], []
                records = read_all(self._done.reader) if self._done.reader in ready else []
                failures = self._failures(ready)
                if not records and not failures:  # what others have made is heard before a death
                    self._look_for_the_dead(ready)
            if records or failures or not patience_s:
                return records, failures
            if marks != (marks := self.board.marks()):
                latest = time.monotonic() + patience_s
            elif time.monotonic() > latest:
                raise Standstill

    def _failures(self, ready: set[int]) -> list[tuple[int, Failure]]:
        found = []
        for number, control in enumerate(self._controls):
            if control.fileno() in ready:
                # The end of a dead worker's channel is told by its exit code.
                with contextlib.suppress(EOFError, OSError):
                    found.append((number, control.recv()))
        return found

    def name(self, worker: int) -> str:
        """A worker, for people."""
        return f"worker process {worker} (pid {self.pids[worker]})"

    def places(self) -> list[At]:
        """What each worker is at."""
        return [self.board.at(number) for number in range(self.workers)]

    def close(self) -> None:
        """End the workers, after the sample that each is at, or after 5 seconds without that."""
        if os.getpid() != self.process:
            return  # forked: they are not this process's children
        with self._lock:
            if self.is_closed:
                return
            self.is_closed = True
        for control in self._controls:
            self._tell(control, ("end", None))
        _end(self._children)
        for control in self._controls:
            control.close()
        for pipe in (self._shared, self._done, *self._own):
            pipe.close()
        self._board_block.close()

    def _look_for_the_dead(self, ready: set[int]) -> None:
        for number, child in enumerate(self._children):
            if child.sentinel in ready or not child.is_alive():
                child.join(_KILL_S)
                raise Died(number, child.exitcode)

    def _tell(self, control: Connection, message: tuple[str, Any]) -> None:
        try:
            control.send(message)
        except OSError:  # it is dead, which the next `hear` tells
            return


class Died(Exception):  # noqa: N818 - what happened; the loop is given a LoaderError
    """A worker is gone."""

    def __init__(self, worker: int, exit_code: int | None) -> None:
        super().__init__(worker, exit_code)
        self.worker = worker
        self.exit_code = exit_code

    def how(self) -> str:
        """The way it went."""
        if self.exit_code is None or self.exit_code >= 0:
            return f"ended with exit code {self.exit_code}"
        return f"was killed by {signal.Signals(-self.exit_code).name}"

    def hint(self) -> str:
        """What to do about it."""
        if self.exit_code == -signal.SIGKILL:
            return "dmesg | grep -i 'killed process': out of memory is the usual reason; else "
        if self.exit_code in (-signal.SIGSEGV, -signal.SIGBUS, -signal.SIGABRT):
            return "a library under the data set crashed; "
        return ""


class Standstill(Exception):  # noqa: N818 - what happened; the loop is given a LoaderError
    """Nothing went on for too long."""


def _end(children: Sequence[Any]) -> None:
    latest = time.monotonic() + _END_S
    for child in children:
        child.join(max(0.0, latest - time.monotonic()))
    for end in ("terminate", "kill"):
        stuck = [child for child in children if child.is_alive()]
        for child in stuck:
            getattr(child, end)()
        for child in stuck:
            child.join(_KILL_S)
    for child in children:
        if not child.is_alive():
            child.close()
