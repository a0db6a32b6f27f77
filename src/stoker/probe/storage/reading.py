"""Timed reads: one request after the other by each of several reader threads.

Standard library only. A Store opens and reads; tests hand in one that waits as they please.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

from stoker import clocks
from stoker.probe.process import busy_s, process_times

# Whole files are read in pieces of this size: large enough that the call itself (about 1 µs)
# vanishes, small enough to stay in the second-level cache of one core.
PIECE_BYTES = 1024 * 1024
# Handles that a reader keeps when files stay open: far below the usual limit of 1,024 a process.
_MOST_HANDLES = 32
# After an interrupt, readers get this long for the request that they are in.
_FAREWELL_S = 2.0


class Request(NamedTuple):
    """A range of a file to be read at once."""

    path: str
    offset: int
    length: int


class Access(NamedTuple):
    """A request that was served. `ended_s` counts from the start of the burst."""

    length: int
    open_s: float
    read_s: float
    ended_s: float


class Burst(NamedTuple):
    """What some readers did between a common start and the last one's end."""

    readers: int
    accesses: tuple[Access, ...]  # in the order in which they ended
    wall_s: float
    cpu_s: float  # of all readers, on a core
    runqueue_s: float  # of all readers, waiting for one
    failures: tuple[str, ...]  # one text for each request that could not be served
    machine_s: float | None = None  # CPU time of the whole machine meanwhile


class Store(Protocol):
    """Where requests go."""

    def open(self, path: str, *, is_random: bool) -> int:
        """A handle to the file; `is_random` says that no read-ahead is wanted."""
        ...

    def read(self, handle: int, offset: int, buffer: memoryview) -> int:
        """Fill the buffer from `offset` on; fewer bytes only at the end of the file."""
        ...

    def close(self, handle: int) -> None:
        """Give the handle back."""
        ...


class Files:
    """The machine's own files."""

    def open(self, path: str, *, is_random: bool) -> int:
        """Open for reading."""
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        if is_random:
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_RANDOM)
        return handle

    def read(self, handle: int, offset: int, buffer: memoryview) -> int:
        """Read with preadv(2), which leaves Python's lock while it waits."""
        return os.preadv(handle, [buffer], offset)

    def close(self, handle: int) -> None:
        """Close."""
        os.close(handle)


class Manner(NamedTuple):
    """How requests are made."""

    is_random: bool = False  # no read-ahead
    keeps_open: bool = False  # a file is opened once by each reader rather than for each request


# As a loader reads: the file opened for each request, with the usual read-ahead.
LIKE_A_LOADER = Manner()


def read_together(
    requests: Sequence[Request],
    readers: int,
    *,
    seconds: float,
    store: Store,
    manner: Manner = LIKE_A_LOADER,
    clock: Callable[[], float] = clocks.wall_s,
) -> Burst:
    """Serve the requests by `readers` threads that each take the next one when done with one.

    Ends with the requests, or at the first request that ends after `seconds`. Requests that fail
    are listed and not timed. An exception in this thread (Ctrl-C) stops the readers first.
    """
    queue: Iterator[Request] = iter(requests)
    lock = threading.Lock()
    begin, stop = threading.Event(), threading.Event()
    results = [_Reader(store, manner, clock) for _ in range(readers)]
    begun_s = 0.0
    machine_before_s = busy_s()

    def serve(reader: _Reader) -> None:
        begin.wait()
        reader.begin()
        while not stop.is_set():
            with lock:
                request = next(queue, None)
            if request is None:
                break
            reader.serve(request)
            if clock() - begun_s >= seconds:
                break
        reader.finish()

    threads = [
        threading.Thread(target=serve, args=(reader,), name="stoker-reader", daemon=True)
        for reader in results
    ]
    try:
        for thread in threads:
            thread.start()
        begun_s = clock()
        begin.set()
        for thread in threads:
            thread.join()
    finally:
        stop.set()
        begin.set()
        for thread in threads:
            if thread.ident is not None:
                thread.join(_FAREWELL_S)
    machine_after_s = busy_s()
    accesses = sorted(
        (
            access._replace(ended_s=access.ended_s - begun_s)
            for reader in results
            for access in reader.accesses
        ),
        key=lambda access: access.ended_s,
    )
    return Burst(
        readers,
        tuple(accesses),
        accesses[-1].ended_s if accesses else 0.0,
        sum(reader.cpu_s for reader in results),
        sum(reader.runqueue_s for reader in results),
        tuple(text for reader in results for text in reader.failures),
        None
        if machine_before_s is None or machine_after_s is None
        else machine_after_s - machine_before_s,
    )


class _Reader:
    """One thread's handles, buffer and results."""

    def __init__(self, store: Store, manner: Manner, clock: Callable[[], float]) -> None:
        self._store = store
        self._manner = manner
        self._clock = clock
        self._handles: dict[str, int] = {}
        self._buffer = memoryview(bytearray(PIECE_BYTES))
        self._before = (0.0, 0.0)
        self.accesses: list[Access] = []
        self.failures: list[str] = []
        self.cpu_s = 0.0
        self.runqueue_s = 0.0

    def begin(self) -> None:
        """Note what the thread has used so far; called in it."""
        self._before = _thread_times()

    def serve(self, request: Request) -> None:
        """Serve one request, or list its failure."""
        began = self._clock()
        try:
            handle = self._handle(request.path)
            opened = self._clock()
            try:
                count = self._read(handle, request)
            finally:
                ended = self._clock()
                self._release(request.path, handle)
        except OSError as error:
            self.failures.append(f"{request.path}: {error.strerror or error}")
            return
        self.accesses.append(Access(count, opened - began, ended - opened, ended))

    def finish(self) -> None:
        """Close what is open and count what the thread used."""
        cpu_s, runqueue_s = _thread_times()
        self.cpu_s = cpu_s - self._before[0]
        self.runqueue_s = max(0.0, runqueue_s - self._before[1])
        for handle in self._handles.values():
            self._store.close(handle)
        self._handles.clear()

    def _handle(self, path: str) -> int:
        if path in self._handles:
            return self._handles[path]
        if len(self._handles) >= _MOST_HANDLES:
            self._store.close(self._handles.pop(next(iter(self._handles))))
        handle = self._store.open(path, is_random=self._manner.is_random)
        self._handles[path] = handle
        return handle

    def _release(self, path: str, handle: int) -> None:
        if not self._manner.keeps_open:
            del self._handles[path]
            self._store.close(handle)

    def _read(self, handle: int, request: Request) -> int:
        done = 0
        while done < request.length:
            wanted = min(PIECE_BYTES, request.length - done)
            count = self._store.read(handle, request.offset + done, self._buffer[:wanted])
            if count == 0:
                break
            done += count
        return done


def _thread_times() -> tuple[float, float]:
    """CPU time and run-queue wait of the calling thread, in seconds."""
    times = process_times(os.getpid(), threading.get_native_id())
    waited = times.runqueue_s if times is not None and times.runqueue_s is not None else 0.0
    return clocks.cpu_s(), waited
