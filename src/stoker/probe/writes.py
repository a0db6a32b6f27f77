"""Reads the upper directory of an overlay: what was made, changed or deleted over the real files.

Looks only; it removes nothing. Standard library only.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

# The mark of a folder that hides the real one; `trusted.` from root, `user.` from anybody else.
_OPAQUE = ("trusted.overlay.opaque", "user.overlay.opaque")
# A folder that was renamed as a whole says here what it was called.
_REDIRECT = ("trusted.overlay.redirect", "user.overlay.redirect")
# Python's own cache of compiled modules: written by any script, and no result of it.
_NOISE = frozenset({"__pycache__"})


class Change(NamedTuple):
    """One path that the real run would have changed."""

    verb: str
    path: Path
    size: int | None = None

    def __str__(self) -> str:
        text = f"{self.verb} {self.path}"
        return text if self.size is None else f"{text} ({_in_words(self.size)})"


def list_changes(upper: Path, real: Path) -> Iterator[Change]:
    """The changes kept in `upper`, the layer over the folder `real`, in the order of paths."""
    for name in sorted(os.listdir(upper)):  # noqa: PTH208 - names, not paths
        if name in _NOISE:
            continue
        here, there = upper / name, real / name
        kept = here.lstat()
        if stat.S_ISCHR(kept.st_mode) and kept.st_rdev == 0:
            yield Change("deletes", there)
        elif stat.S_ISDIR(kept.st_mode):
            yield from _folder_changes(here, there)
        else:
            yield from _file_changes(kept, there)


def _folder_changes(here: Path, there: Path) -> Iterator[Change]:
    origin = _mark(here, _REDIRECT)
    if origin is not None:
        yield Change(f"renames {origin} to", there)
    elif not _is_real_folder(there):
        yield Change("makes folder", there)
    elif _mark(here, _OPAQUE) is not None:
        yield Change("replaces folder", there)
    yield from list_changes(here, there)


def _file_changes(kept: os.stat_result, there: Path) -> Iterator[Change]:
    size = kept.st_size if stat.S_ISREG(kept.st_mode) else None
    try:
        was = there.lstat()
    except OSError:
        yield Change("creates", there, size)
        return
    # Opened for writing but not written: the copy has the size and time of the original.
    if (kept.st_size, kept.st_mtime_ns) != (was.st_size, was.st_mtime_ns):
        yield Change("overwrites", there, size)
    elif kept.st_mode != was.st_mode:
        yield Change("changes the mode of", there)


def _is_real_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except OSError:
        return False


def _mark(path: Path, names: tuple[str, ...]) -> str | None:
    for name in names:
        try:
            return os.fsdecode(os.getxattr(path, name, follow_symlinks=False))
        except OSError:
            continue
    return None


def _in_words(size: int) -> str:
    number = float(size)
    for unit in ("bytes", "kB", "MB", "GB"):
        if number < 1000 or unit == "GB":
            break
        number /= 1000
    return f"{size} bytes" if unit == "bytes" else f"{number:.1f} {unit}"
