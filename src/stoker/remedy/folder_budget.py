"""The bytes in a folder of copies, counted once for all that add to it: workers, ranks, other runs.

The count stands in a file of the folder. Whoever copies takes the bytes first, so that all together
keep within the limit. Linux, standard library only.
"""

from __future__ import annotations

import fcntl
import os
import re
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from stoker import clocks

_COUNT = struct.Struct("<QQ")  # bytes of the copies and of those under way; copies
_NAME = ".stoker-count"
# The part of a copy that is under way: its name, its size when it is whole, and who writes it.
_PART = re.compile(r"\.[0-9a-f]{62}.*\.(\d+)-\d+")
# A count is changed in microseconds; but at the start of a run all files are counted anew.
_PATIENCE_S, _PATIENCE_AT_START_S = 5.0, 60.0
_PAUSE_S = 0.002


class FolderBudget:
    """Room for copies of together `limit` bytes. May be pickled."""

    def __init__(self, folder: str, limit: int) -> None:
        self._folder = Path(folder)
        self._limit = limit

    def recount(self) -> int:
        """Bytes that lie there. Removes what writers that were killed have left of their copies.

        Raises OSError where the folder can't be used.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        with self._locked(_PATIENCE_AT_START_S) as fd:
            return self._counted(fd)[0]

    def used(self) -> int:
        """The same by the count alone."""
        with self._locked() as fd:
            return self._read(fd)[0]

    @property
    def copies(self) -> int:
        """How many files were copied so far, by whomever."""
        try:
            return int(_COUNT.unpack((self._folder / _NAME).read_bytes())[1])
        except (OSError, struct.error):
            return 0

    def add(self, copy: Path, size: int, write: Callable[[IO[bytes]], Any]) -> bool:
        """Have the file `copy` written, whole or not at all; False when there is no room for it, or
        it did not come to `size` bytes. Raises OSError.
        """
        copy.parent.mkdir(parents=True, exist_ok=True)
        # The size in the name: others count it before it is there.
        part = copy.with_name(f".{copy.name}.{size}-{threading.get_native_id()}")
        with self._locked() as fd:
            used, copies = self._read(fd)
            if copy.exists():
                return True
            if used + size > self._limit:
                return False
            file = part.open("xb")
            # Held as long as the writer lives, by which a part is told from one that was left.
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _write(fd, used + size, copies)
        is_whole = False
        with file:
            try:
                write(file)
                file.flush()
                is_whole = file.tell() == size
            finally:
                is_there = self._settle(part, copy if is_whole else None, size)
        return is_there

    def _settle(self, part: Path, copy: Path | None, size: int) -> bool:
        """Give the part its name, or its bytes back; True when the copy is there."""
        with self._locked() as fd:
            used, copies = self._read(fd)
            if copy is not None and not copy.exists():
                part.replace(copy)
                _write(fd, used, copies + 1)
                return True
            part.unlink(missing_ok=True)
            _write(fd, max(0, used - size), copies)
        return copy is not None

    def _read(self, fd: int) -> tuple[int, int]:
        data = os.pread(fd, _COUNT.size, 0)
        return _COUNT.unpack(data) if len(data) == _COUNT.size else self._counted(fd)

    def _counted(self, fd: int) -> tuple[int, int]:
        """Counted by the files themselves, and noted."""
        used = copies = 0
        for file in self._folder.glob("??/*"):
            with suppress(FileNotFoundError):
                part = _PART.fullmatch(file.name)
                if part is None:
                    used += file.stat().st_size
                    copies += 1
                elif _is_left(file):
                    file.unlink()
                else:
                    used += int(part[1])
        _write(fd, used, copies)
        return used, copies

    @contextmanager
    def _locked(self, patience_s: float = _PATIENCE_S) -> Iterator[int]:
        """The file of the count, while nobody else changes it. Raises BlockingIOError when somebody
        does so for long.
        """
        fd = os.open(self._folder / _NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            _lock(fd, patience_s)
            try:
                yield fd
            finally:
                # Not by closing: a process that was forked meanwhile would hold it on.
                fcntl.flock(fd, fcntl.LOCK_UN)
        finally:
            os.close(fd)


def _write(fd: int, used: int, copies: int) -> None:
    os.pwrite(fd, _COUNT.pack(used, copies), 0)


def _lock(fd: int, patience_s: float) -> None:
    end = clocks.wall_s() + patience_s
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if clocks.wall_s() > end:
                raise
            time.sleep(_PAUSE_S)
        else:
            return


def _is_left(part: Path) -> bool:
    """True when nobody writes this part any more."""
    with part.open("r+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True
