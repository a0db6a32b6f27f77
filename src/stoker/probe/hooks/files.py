"""Files through `open()`: opening is a stage, and so is each read that goes to the system.

The methods of files are compiled, so within a fetch `open` puts the usual buffer around a raw file
of a class of ours: what the buffer serves costs nothing. Writing and unbuffered files stay as is.
"""

from __future__ import annotations

import builtins
import io
import os
import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, Protocol

from stoker.probe.hooks.patches import Patches

_OPEN, _READ = "open (file)", "read (file)"
_READING = frozenset({"r", "rt", "rb"})
_LARGEST_BUFFER = 8 << 20  # from Python 3.14 on


class Recording(Protocol):
    """Knows whether a fetch is under way, and keeps what file a sample came from."""

    @property
    def is_inside(self) -> bool:
        """True within a fetch."""
        ...

    def note_file(self, path: str, size: int | None) -> None:
        """A file was opened."""
        ...


def time_files(recorder: Recording, patches: Patches) -> None:
    """Patch `open`, under both its names, and the reading functions of `os`."""
    timed_open = _timed_open(builtins.open, recorder, patches)
    patches.attribute(builtins, "open", timed_open, stage=_OPEN)
    patches.attribute(io, "open", timed_open, stage=_OPEN)
    for name in ("read", "pread", "preadv", "readv"):
        original = getattr(os, name, None)
        if original is not None:
            patches.attribute(os, name, patches.timed(_READ, original), stage=_READ)


def _timed_open(original: Any, recorder: Recording, patches: Patches) -> Callable[..., Any]:
    opening = patches.timing.timed(_OPEN, original)
    raw_class = _raw_class(patches)
    opening_raw = patches.timing.timed(_OPEN, raw_class)

    @wraps(original)
    def open(  # noqa: A001 - takes the place of the built-in
        file: Any,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        closefd: bool = True,
        opener: Any = None,
    ) -> Any:
        if not recorder.is_inside:
            return original(file, mode, buffering, encoding, errors, newline, closefd, opener)
        if mode not in _READING or buffering != -1:
            made = opening(file, mode, buffering, encoding, errors, newline, closefd, opener)
            _note(made, file, recorder)
            return made
        raw = opening_raw(file if isinstance(file, int) else os.fspath(file), "r", closefd, opener)
        _note(raw, file, recorder)
        buffered = io.BufferedReader(raw, _buffer_bytes(raw))
        if mode == "rb":
            return buffered
        try:
            text = io.TextIOWrapper(buffered, encoding, errors, newline)
        except BaseException:  # an unknown encoding, for one: the built-in closes the file, too
            buffered.close()
            raise
        text.mode = mode  # type: ignore[misc]
        return text

    open.__stoker_timed__ = True  # type: ignore[attr-defined]
    return open


def _buffer_bytes(raw: io.FileIO) -> int:
    """As large as `open` makes it: a block of the file system, on network mounts megabytes.

    A smaller one would split reads that the run itself makes in one call.
    """
    block = int(getattr(raw, "_blksize", io.DEFAULT_BUFFER_SIZE))
    if sys.version_info >= (3, 14):
        return max(min(block, _LARGEST_BUFFER), io.DEFAULT_BUFFER_SIZE)
    return max(block, 1)


def _raw_class(patches: Patches) -> type[io.FileIO]:
    """A raw file whose reads are a stage."""
    timed = {
        name: patches.timing.timed(_READ, getattr(io.FileIO, name))
        for name in ("read", "readall", "readinto")
    }
    return type("FileIO", (io.FileIO,), {**timed, "__module__": "_io"})


def _note(opened: Any, file: Any, recorder: Recording) -> None:
    """Keep the path and the size of a file that has a path."""
    if isinstance(file, str | bytes | os.PathLike):
        try:
            size = os.fstat(opened.fileno()).st_size
        except (AttributeError, OSError, ValueError):
            size = None  # something that is no file, through an opener
        recorder.note_file(os.fsdecode(file), size)
