"""What lies under a path: its files, and what listing folders and looking files up costs.

Reads folders only. Stays on one file system and within a number of files and a time.
"""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from stoker import clocks

# Enough to choose from, and listed within a second or two on a local disk.
_MOST_FILES = 20_000


class FoundFile(NamedTuple):
    """A plain file with something in it."""

    path: str
    size: int


class Inventory(NamedTuple):
    """The files found, the seconds of each listing and look-up, and what was passed over."""

    files: tuple[FoundFile, ...]
    listing_s: tuple[float, ...]  # one a folder
    stat_s: tuple[float, ...]  # one a file
    is_complete: bool
    skipped: tuple[str, ...]


class _Passed:
    """Counts of what was not taken, by reason."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def count(self, reason: str) -> None:
        self._counts[reason] = self._counts.get(reason, 0) + 1

    def texts(self) -> tuple[str, ...]:
        return tuple(f"{count:,} {reason}" for reason, count in self._counts.items())


def take_inventory(
    top: str, *, seconds: float, clock: Callable[[], float] = clocks.wall_s
) -> Inventory:
    """Walk the folders below `top`, breadth first; links to files count, links to folders don't.

    Raises OSError when `top` itself can't be listed.
    """
    until_s = clock() + seconds
    device = Path(top).stat().st_dev
    folders = deque([top])
    files: list[FoundFile] = []
    listing_s: list[float] = []
    stat_s: list[float] = []
    passed = _Passed()
    while folders and len(files) < _MOST_FILES and (clock() < until_s or not listing_s):
        folder = folders.popleft()
        began = clock()
        try:
            with os.scandir(folder) as listing:
                entries = list(listing)
        except OSError:
            if folder == top:
                raise
            passed.count("folders can't be listed")
            continue
        listing_s.append(clock() - began)
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.path)
                continue
            began = clock()
            try:
                facts = entry.stat()
            except OSError:
                passed.count("files can't be looked up")
                continue
            stat_s.append(clock() - began)
            if facts.st_dev != device:
                passed.count("files lie on another file system")
            elif not stat.S_ISREG(facts.st_mode):
                passed.count("entries are no plain files")
            elif facts.st_size == 0:
                passed.count("files are empty")
            elif not os.access(entry.path, os.R_OK):
                passed.count("files may not be read")
            else:
                files.append(FoundFile(entry.path, facts.st_size))
            if len(files) >= _MOST_FILES or clock() >= until_s:
                break
    is_complete = not folders and len(files) < _MOST_FILES and clock() < until_s
    return Inventory(tuple(files), tuple(listing_s), tuple(stat_s), is_complete, passed.texts())


def open_times(
    files: Sequence[FoundFile],
    *,
    seconds: float,
    clock: Callable[[], float] = clocks.wall_s,
) -> Iterator[float]:
    """Seconds to open each file without reading it, until the time is up."""
    until_s = clock() + seconds
    for file in files:
        began = clock()
        if began >= until_s:
            return
        try:
            handle = os.open(file.path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            continue
        opened = clock()
        os.close(handle)
        yield opened - began
