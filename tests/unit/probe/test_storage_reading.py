import errno
import os
import threading
from collections import Counter
from pathlib import Path

from stoker.probe.storage.reading import PIECE_BYTES, Files, Manner, Request, read_together


class Shelf:
    """A store in memory whose reads take one tick of a clock that only they move."""

    def __init__(self, *, broken: frozenset[str] = frozenset()) -> None:
        self.now = 0.0
        self.opened: Counter[str] = Counter()
        self.closed = 0
        self.reads: list[tuple[str, int, int]] = []
        self._broken = broken
        self._paths: dict[int, str] = {}
        self._lock = threading.Lock()

    def clock(self) -> float:
        return self.now

    def open(self, path: str, *, is_random: bool) -> int:
        if path in self._broken:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        with self._lock:
            self.opened[path] += 1
            handle = self.opened.total()
            self._paths[handle] = path
        self.now += 0.25
        return handle

    def read(self, handle: int, offset: int, buffer: memoryview) -> int:
        with self._lock:
            self.reads.append((self._paths[handle], offset, len(buffer)))
        self.now += 1.0
        return len(buffer)

    def close(self, handle: int) -> None:
        self.closed += 1


def requests(count: int, length: int = 100) -> list[Request]:
    return [Request(f"f{index}", 0, length) for index in range(count)]


def test_opening_and_reading_are_timed_apart() -> None:
    shelf = Shelf()
    burst = read_together(requests(3), 1, seconds=100, store=shelf, clock=shelf.clock)
    assert [(access.open_s, access.read_s) for access in burst.accesses] == [(0.25, 1.0)] * 3
    assert [access.ended_s for access in burst.accesses] == [1.25, 2.5, 3.75]
    assert burst.wall_s == 3.75
    assert shelf.closed == 3


def test_a_large_request_is_read_in_pieces_to_its_end() -> None:
    shelf = Shelf()
    size = 2 * PIECE_BYTES + 7
    burst = read_together([Request("f", 10, size)], 1, seconds=9, store=shelf, clock=shelf.clock)
    assert shelf.reads == [
        ("f", 10, PIECE_BYTES),
        ("f", 10 + PIECE_BYTES, PIECE_BYTES),
        ("f", 10 + 2 * PIECE_BYTES, 7),
    ]
    assert burst.accesses[0].length == size


def test_no_request_begins_after_the_time_is_up() -> None:
    shelf = Shelf()
    burst = read_together(requests(50), 1, seconds=3, store=shelf, clock=shelf.clock)
    assert len(burst.accesses) == 3  # the third ends at 3.75 s
    assert len(shelf.reads) == 3


def test_readers_share_the_requests_and_each_is_served_once() -> None:
    shelf = Shelf()
    burst = read_together(requests(200), 8, seconds=1e9, store=shelf, clock=shelf.clock)
    assert burst.readers == 8
    assert sorted(path for path, _, _ in shelf.reads) == sorted(f"f{i}" for i in range(200))
    ends = [access.ended_s for access in burst.accesses]
    assert ends == sorted(ends)


def test_a_file_stays_open_when_the_manner_says_so() -> None:
    again = [Request("f", index * 100, 100) for index in range(20)]
    often, once = Shelf(), Shelf()
    read_together(again, 1, seconds=100, store=often, clock=often.clock)
    read_together(
        again, 1, seconds=100, store=once, manner=Manner(keeps_open=True), clock=once.clock
    )
    assert (often.opened["f"], often.closed) == (20, 20)
    assert (once.opened["f"], once.closed) == (1, 1)


def test_open_files_are_limited_and_all_closed_in_the_end() -> None:
    shelf = Shelf()
    read_together(
        requests(100),
        1,
        seconds=1e9,
        store=shelf,
        manner=Manner(keeps_open=True),
        clock=shelf.clock,
    )
    assert shelf.closed == 100


def test_reads_that_fail_are_listed_and_not_timed() -> None:
    shelf = Shelf(broken=frozenset({"f1"}))
    burst = read_together(requests(3), 1, seconds=100, store=shelf, clock=shelf.clock)
    assert len(burst.accesses) == 2
    assert burst.failures == ("f1: Input/output error",)


def test_real_files_are_read_completely(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(os.urandom(3 * PIECE_BYTES // 2))
    whole = Request(str(path), 0, 3 * PIECE_BYTES // 2)
    beyond = Request(str(path), PIECE_BYTES, PIECE_BYTES)
    missing = Request(str(tmp_path / "none"), 0, 10)
    burst = read_together([whole, beyond, missing], 2, seconds=10, store=Files())
    lengths = sorted(access.length for access in burst.accesses)
    assert lengths == [PIECE_BYTES // 2, 3 * PIECE_BYTES // 2]
    assert burst.failures == (f"{tmp_path / 'none'}: No such file or directory",)
    assert burst.cpu_s > 0
