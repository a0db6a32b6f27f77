"""What the kernel counts of this process."""

from __future__ import annotations

import mmap
from pathlib import Path

import pytest

from stoker.probe.kernel_counts import BytesRead, RunQueue

SIZE = 3_000_000
# Whatever else reads in this process meanwhile, a test runner's pipe for one.
SLACK = 100_000


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "data.bin"
    path.write_bytes(bytes(SIZE))
    return path


def test_what_read_calls_return_is_counted_from_memory_too(file: Path) -> None:
    counter = BytesRead()
    before = counter.now()
    file.read_bytes()
    read = counter.since(before)
    assert read is not None
    assert SIZE <= read < SIZE + SLACK


def test_a_reading_of_the_counter_does_not_count_itself() -> None:
    counter = BytesRead()
    found = [counter.since(counter.now()) for _ in range(50)]
    assert 0 in found


def test_pages_of_a_mapped_file_are_no_reads(file: Path) -> None:
    counter = BytesRead()
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as view:
        before = counter.now()
        assert sum(view[place] for place in range(0, SIZE, 4096)) == 0
        read = counter.since(before)
    assert read is not None
    assert read < SLACK


def test_where_nothing_is_counted_nothing_is_told() -> None:
    assert BytesRead().since(None) is None


def test_the_wait_for_a_core_only_grows() -> None:
    queue = RunQueue()
    first, second = queue.waited_ns(), queue.waited_ns()
    assert first is not None
    assert second is not None
    assert first <= second
