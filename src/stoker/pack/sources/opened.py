"""Which file a sample was made of: what the user's Dataset opens while it makes it.

Seen by Python's audit events: `open` and what is built on it (Pillow, numpy), not what C libraries
open by themselves. A hook can't be taken away again, so it is set only in processes that pack.
"""

from __future__ import annotations

import os
import stat
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

# Code and kernel files are nobody's data.
_NOT_DATA = ("/proc/", "/sys/", "/dev/")
_CODE = (".py", ".pyc", ".so")

_noted = threading.local()  # .paths: what this thread opens, while somebody asks
_is_set = False


class SourceFile(NamedTuple):
    """A file as it was when a sample was made of it."""

    path: str
    size: int
    mtime_ns: int

    @classmethod
    def now(cls, path: str) -> SourceFile | None:
        """As it is now; None where it is no file any more."""
        try:
            path.encode()  # a pack's text is UTF-8
            found = os.stat(path)  # noqa: PTH116 - a str all the way: this runs for every file
        except (OSError, ValueError):
            return None
        if not stat.S_ISREG(found.st_mode):
            return None
        return cls(path, found.st_size, found.st_mtime_ns)


@contextmanager
def noted() -> Iterator[list[str]]:
    """The paths that this thread opens meanwhile, in order."""
    _set_hook()
    paths: list[str] = []
    _noted.paths = paths
    try:
        yield paths
    finally:
        _noted.paths = None


def first_file(paths: list[str]) -> SourceFile | None:
    """The first that is data."""
    found = (SourceFile.now(str(Path(path).absolute())) for path in paths if _is_data(path))
    return next((one for one in found if one is not None), None)


def _is_data(path: str) -> bool:
    return not path.startswith((*_NOT_DATA, sys.prefix + "/")) and not path.endswith(_CODE)


def _set_hook() -> None:
    global _is_set
    if not _is_set:
        _is_set = True
        sys.addaudithook(_hook)


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open":
        paths = getattr(_noted, "paths", None)
        if paths is not None and isinstance(arguments[0], str):
            paths.append(arguments[0])
