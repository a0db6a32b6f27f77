"""How much of some files is cached, told by reads that do not wait."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from stoker.loader.residency import cached_share


@pytest.fixture
def files(tmp_path: Path) -> list[tuple[str, int]]:
    made = []
    for number in range(4):
        path = tmp_path / str(number)
        path.write_bytes(bytes(100_000))
        made.append((str(path), 100_000))
    return made


def test_what_was_just_written_is_cached_where_that_can_be_seen(
    files: list[tuple[str, int]],
) -> None:
    assert cached_share(files) in (1.0, None)


def test_the_share_is_that_of_reads_that_need_not_wait(
    files: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def preadv(handle: int, buffers: Any, offset: int, flags: int) -> int:
        assert flags == os.RWF_NOWAIT
        asked.append(offset)
        if offset >= 50_000:
            raise BlockingIOError
        return 1

    monkeypatch.setattr(os, "preadv", preadv)
    assert cached_share(files) == pytest.approx(0.5, abs=0.05)
    assert 60 <= len(asked) <= 70 and max(asked) < 100_000


def test_where_it_cannot_be_seen_nothing_is_said(
    files: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def preadv(*_: Any) -> int:
        raise OSError("not supported here")

    monkeypatch.setattr(os, "preadv", preadv)
    assert cached_share(files) is None
    assert cached_share([]) is None


def test_a_look_does_not_warm_the_places_of_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [(str(tmp_path / f"{number}"), 2**20) for number in range(64)]
    for path, size in files:
        with open(path, "wb") as file:  # noqa: PTH123
            file.write(os.urandom(size))
            file.flush()
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    # One place in each file, drawn by chance: the two looks' own are half of a file apart here, or
    # what is read ahead of the first might hold that of the second.
    starts = iter((2**18, 3 * 2**18))
    monkeypatch.setattr(os, "urandom", lambda count: next(starts).to_bytes(count, "big"))
    first = cached_share(files)
    if first is None or first > 0.5:
        pytest.skip("this file system does not say what is cached, or keeps all of it")
    time.sleep(0.1)  # reading ahead goes on behind the first look
    second = cached_share(files)
    assert second is not None and second < 0.5
