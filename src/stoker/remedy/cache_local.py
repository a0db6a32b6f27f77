"""Files that the data set reads, copied into a local folder on their first read.

Works for what is opened by Python's `open`, the usual way of picture and text libraries. Copies
stay for the next run: they are named by path, size and time of change.
"""

from __future__ import annotations

import builtins
import errno
import hashlib
import io
import os
import shutil
import stat
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO, Any

from stoker.remedy.folder_budget import FolderBudget
from stoker.remedy.request import Request, size_text
from stoker.remedy.settings import SAME, Change, Refusal, Settings, Subject
from stoker.stand_in import StandIn

_READING = frozenset({"r", "rb", "rt", "br"})
# Code, kernel files and devices are nobody's data.
_NOT_DATA = ("/proc/", "/sys/", "/dev/", sys.prefix + "/", sys.base_prefix + "/")
_CODE = (".py", ".pyc", ".so")


class LocalCopies:
    """The layer: files by their path, copied until the folder holds `budget` bytes."""

    def __init__(self, folder: str, budget: int) -> None:
        self._folder = folder
        self._room = FolderBudget(folder, budget)
        # Where a path is read from, its copy or itself, as long as the file is the same.
        self._known: dict[str, tuple[tuple[int, int], str]] = {}
        self._is_full = False  # the disk itself, before the budget is used up
        self._open: Callable[..., Any] | None = None

    def around(self, dataset: Any) -> Any:
        """The data set, whose files are opened from the folder."""
        reading = _Reading(dataset, self)
        return StandIn(dataset, reading.one, reading.many)

    def renew(self) -> None:
        """Other samples of the same files: copies remain what they are."""

    def problem(self) -> str | None:
        """Why nothing is copied any more: never, a full folder is read from all the same."""
        return None

    def held(self) -> int | None:
        """Files in the folder."""
        return self._room.copies

    def opened(self, file: Any, mode: str = "r", *args: Any, **options: Any) -> Any:
        """`open`, from the copy where there is one."""
        assert self._open is not None
        if mode in _READING and isinstance(file, str | os.PathLike):
            file = self._place_of(os.fspath(file))
        return self._open(file, mode, *args, **options)

    def begin(self) -> Callable[[], None]:
        """Take `open`'s place; the function that gives it back."""
        original = builtins.open
        if original == self.opened:  # a data set within a data set
            return lambda: None
        self._open = original
        builtins.open = self.opened
        io.open = self.opened

        def end() -> None:
            builtins.open = original
            io.open = original

        return end

    def _place_of(self, path: Any) -> Any:
        if not isinstance(path, str):
            return path
        try:
            facts = os.stat(path)  # noqa: PTH116 - a str all the way: this runs for every file
            stamp = facts.st_mtime_ns, facts.st_size
            known = self._known.get(path)
            if known is None or known[0] != stamp:  # new, or rewritten since
                known = self._known[path] = stamp, self._copy_of(path, facts) or path
        except OSError:
            return path  # the script's own open says what is wrong with it
        return known[1]

    def _copy_of(self, path: str, facts: os.stat_result) -> str | None:
        """The copy of a file, made when it is missing; None for what is not copied. Raises
        BlockingIOError where that can't be told now.
        """
        path = os.path.realpath(path)
        if path.startswith((*_NOT_DATA, self._folder + "/")) or path.endswith(_CODE):
            return None
        if not stat.S_ISREG(facts.st_mode):
            return None
        name = f"{path}\0{facts.st_size}\0{facts.st_mtime_ns}"
        digest = hashlib.sha256(name.encode(errors="surrogateescape")).hexdigest()
        copy = Path(self._folder, digest[:2], digest[2:] + Path(path).suffix)
        if copy.exists():
            return str(copy)
        if self._is_full:
            return None
        try:
            is_there = self._room.add(copy, facts.st_size, partial(self._write, path))
        except BlockingIOError:
            raise
        except OSError as error:
            # What is left of a disk is for others; each try would write until it is full again.
            self._is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            return None
        return str(copy) if is_there else None

    def _write(self, source: str, copy: IO[bytes]) -> None:
        # By the own open: the one in its place would want a copy of the source first.
        assert self._open is not None
        with self._open(source, "rb") as read:
            shutil.copyfileobj(read, copy)


class _Reading:
    """Asks the data set; `open` is replaced only while a sample is made."""

    def __init__(self, dataset: Any, copies: LocalCopies) -> None:
        self._dataset = dataset
        self._copies = copies

    def one(self, index: Any) -> Any:
        """A sample."""
        end = self._copies.begin()
        try:
            return self._dataset[index]
        finally:
            end()

    def many(self, indices: list[Any]) -> Any:
        """The samples of a batch."""
        end = self._copies.begin()
        try:
            return self._dataset.__getitems__(indices)
        finally:
            end()


_seen: set[str] = set()  # folders whose files this process has counted


def _used(folder: str, budget: int) -> int:
    """Bytes that lie there; counted file by file once a process."""
    room = FolderBudget(folder, budget)
    used = room.used() if folder in _seen else room.recount()
    _seen.add(folder)
    return used


def cache_local(subject: Subject, settings: Settings, request: Request) -> Change | Refusal:
    """Read through copies in that folder."""
    if subject.is_iterable:
        return Refusal("an iterable data set reads when it likes, not sample by sample")
    folder, budget = Path(request.folder or ""), request.count or 0
    try:
        if folder.exists() and not folder.is_dir():
            return Refusal(f"{folder} is no folder")
        used = _used(str(folder), budget)
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return Refusal(f"{folder} can't be used: {error.strerror}")
    if budget > free + used:
        return Refusal(f"{folder} has {free / 1e9:.1f} GB free, not {size_text(budget)}")
    return Change(
        settings,
        f"files are read through copies in {folder}, up to {size_text(budget)}",
        SAME,
        layer=LocalCopies(str(folder), budget),
    )
