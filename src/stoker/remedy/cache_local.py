"""Files that the data set reads, copied into a local folder on their first read.

Works for what is opened by Python's `open`, the usual way of picture and text libraries. Copies
stay for the next run: they are named by path, size and time of change.
"""

from __future__ import annotations

import builtins
import contextlib
import hashlib
import io
import os
import shutil
import stat
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

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
        self._budget = budget
        self._known: dict[str, str] = {}  # where a path is read from: its copy, or itself
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
        place = self._known.get(path)
        if place is None:
            try:
                place = self._copy_of(os.path.realpath(path)) or path
            except OSError:
                return path  # the script's own open says what is wrong with it
            self._known[path] = place
        return place

    def _copy(self, source: str, target: Path) -> None:
        # By the own open: the one in its place would want a copy of the source first.
        assert self._open is not None
        with self._open(source, "rb") as read, self._open(target, "wb") as written:
            shutil.copyfileobj(read, written)

    def _copy_of(self, path: str) -> str | None:
        """The copy of a file, made when it is missing; None for what is not copied."""
        if path.startswith((*_NOT_DATA, self._folder + "/")) or path.endswith(_CODE):
            return None
        facts = os.stat(path)  # noqa: PTH116 - a str all the way: this runs for every file
        if not stat.S_ISREG(facts.st_mode):
            return None
        name = f"{path}\0{facts.st_size}\0{facts.st_mtime_ns}"
        digest = hashlib.sha256(name.encode(errors="surrogateescape")).hexdigest()
        copy = Path(self._folder, digest[:2], digest[2:] + Path(path).suffix)
        if copy.exists():
            return str(copy)
        if _size_of(self._folder) + facts.st_size > self._budget:
            return None
        copy.parent.mkdir(parents=True, exist_ok=True)
        part = copy.with_name(f".{copy.name}.{os.getpid()}")
        try:
            self._copy(path, part)
            if part.stat().st_size == facts.st_size:  # not while it was being written
                part.replace(copy)
                _note_size(self._folder, facts.st_size)
                return str(copy)
        finally:
            with contextlib.suppress(OSError):
                part.unlink()
        return None


_sizes: dict[str, int] = {}


def _size_of(folder: str) -> int:
    """Bytes in the folder: counted once a process, then as this process adds to them."""
    if folder not in _sizes:
        _sizes[folder] = sum(file.stat().st_size for file in Path(folder).glob("??/*"))
    return _sizes[folder]


def _note_size(folder: str, size: int) -> None:
    _sizes[folder] = _size_of(folder) + size


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


def cache_local(subject: Subject, settings: Settings, request: Request) -> Change | Refusal:
    """Read through copies in that folder."""
    if subject.is_iterable:
        return Refusal("an iterable data set reads when it likes, not sample by sample")
    folder, budget = Path(request.folder or ""), request.count or 0
    try:
        folder.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return Refusal(f"{folder} can't be used: {error.strerror}")
    if not os.access(folder, os.W_OK):
        return Refusal(f"{folder} can't be written to")
    if budget > free + _size_of(str(folder)):
        return Refusal(f"{folder} has {free / 1e9:.1f} GB free, not {size_text(budget)}")
    layers = (*settings.layers, LocalCopies(str(folder), budget))
    return Change(
        replace(settings, layers=layers),
        f"files are read through copies in {folder}, up to {size_text(budget)}",
        SAME,
    )
