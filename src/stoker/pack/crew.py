"""Worker processes that do tasks, and what happens when one of them dies.

Pixels never pass between processes: a task names samples, an answer counts them. Each worker has a
socket of its own, so a dead one is seen at once and can't hold up the others.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple, Protocol

from stoker.errors import InputError, PackError
from stoker.pack.work import Failed, Setup, Work

# Tasks that wait at a worker while it does one: no pause between them.
_AHEAD = 2
_PATIENCE_S = 5.0
# glibc gives the memory of large pictures back at once, and faults it in again for the next one;
# the first two keep it.
_ENVIRONMENT = {
    "MALLOC_MMAP_THRESHOLD_": str(256 * 2**20),
    "MALLOC_TRIM_THRESHOLD_": str(32 * 2**20),
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}


class UnwritableError(Exception):
    """The pack could not be written: `errno` says why."""

    def __init__(self, happened: str, errno: int) -> None:
        super().__init__(happened)
        self.errno = errno


class Process(Protocol):
    """A worker's process, as subprocess has it."""

    pid: int

    def kill(self) -> None:
        """End it."""
        ...

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, −N for signal N. Raises subprocess.TimeoutExpired."""
        ...


class Started(NamedTuple):
    """A worker that waits for its setup, and the socket to it."""

    connection: Connection
    process: Process


# Starts a worker that inherits these descriptors.
Start = Callable[[Sequence[int]], Started]


def spawned(keep_open: Sequence[int]) -> Started:
    """A worker in a Python of its own."""
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", "stoker.pack.worker", str(theirs.fileno()), str(os.getpid())],
            pass_fds=(theirs.fileno(), *keep_open),
            stdin=subprocess.DEVNULL,
            stdout=2,  # what a Dataset prints there is no part of the answer
            env={**os.environ, **_ENVIRONMENT, "PYTHONPATH": os.pathsep.join(_import_path())},
        )
    return Started(Connection(ours.detach()), process)


class Crew:
    """So many worker processes and one that seals; with 0 workers this process does it all."""

    def __init__(
        self,
        setup: Setup,
        workers: int,
        *,
        keep_open: Sequence[int] = (),
        start: Start = spawned,
    ) -> None:
        self._own: Work | None = None
        self._members: list[_Member] = []
        if workers == 0:
            self._own = Work(setup)
            return
        try:
            # The last one seals, which is waiting for the disk more than work.
            for _ in range(workers + 1):
                self._members.append(_Member(setup, start(keep_open)))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all workers, now."""
        if self._own is not None:
            self._own.close()
        for member in self._members:
            member.end()

    def run(self, tasks: Iterable[Any], seals: list[Any]) -> Iterator[Any]:
        """Do the tasks and yield the answers as they come, in any order.

        Whoever takes the answers may add to `seals`; they are done before the end. Raises
        UnwritableError, InputError that a worker raised, and PackError when a worker dies or fails.
        """
        if self._own is not None:
            yield from _alone(self._own, tasks, seals)
            return
        *workers, sealer = self._members
        waiting = iter(tasks)
        for _ in range(_AHEAD):
            for member in workers:
                member.give(next(waiting, None))
        while True:
            while seals and sealer.pending < _AHEAD:
                sealer.give(seals.pop(0))
            busy = [member for member in self._members if member.pending]
            if not busy:
                return
            for ready in wait([member.connection for member in busy]):
                member = next(m for m in busy if m.connection is ready)
                answer = member.take()
                if member is not sealer:
                    member.give(next(waiting, None))
                yield answer


def _alone(work: Work, tasks: Iterable[Any], seals: list[Any]) -> Iterator[Any]:
    for task in tasks:
        yield _done(work, task)
        while seals:
            yield _done(work, seals.pop(0))


def _done(work: Work, task: Any) -> Any:
    try:
        return work.do(task)
    except OSError as error:
        raise UnwritableError(str(error), error.errno or 0) from error


class _Member:
    """One worker process and the socket to it."""

    def __init__(self, setup: Setup, started: Started) -> None:
        self.connection, self._process = started
        self.pending = 0
        self.connection.send((sys.path, tuple(setup)))

    def give(self, task: Any) -> None:
        """Send a task; None is none."""
        if task is None:
            return
        try:
            self.connection.send(task)
        except (BrokenPipeError, ConnectionResetError):
            raise self._died() from None
        self.pending += 1

    def take(self) -> Any:
        """The next answer. Raises what went wrong."""
        try:
            answer = self.connection.recv()
        except (EOFError, ConnectionResetError):
            raise self._died() from None
        self.pending -= 1
        if isinstance(answer, Failed):
            if answer.errno is not None:
                raise UnwritableError(answer.happened, answer.errno)
            kind = InputError if answer.is_input else PackError
            raise kind(answer.happened, looked_at=answer.looked_at, run_next=answer.run_next)
        return answer

    def end(self) -> None:
        """Close the socket and end the process."""
        self.connection.close()
        self._process.kill()
        self._process.wait(_PATIENCE_S)

    def _died(self) -> PackError:
        try:
            code = self._process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            code = 0
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return PackError(
            f"a worker process died ({how})",
            looked_at=f"process {self._process.pid}; signal 9 mostly means that memory ran out",
            run_next="run again with --resume, and fewer --workers if memory ran out",
        )


def _import_path() -> list[str]:
    """Where this process finds stoker and what it imports, for a worker to find the same."""
    return [path for path in sys.path if path]
