"""Whether the files that a Dataset reads are still those that its pack was made of.

Files are known by name, size and time of change, as Python opened them while it was packed. None of
this is read from a pack whose samples have no files.
"""

from __future__ import annotations

import builtins
import contextlib
import io
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from stoker.pack.reader import Pack
from stoker.pack.recipe import refused
from stoker.pack.sources.dataset import SAMPLE_ERRORS
from stoker.pack.sources.opened import SourceFile, first_file

_SEED = 20_011
_FILES_S = 1.0  # for the files, which may lie on a slow store


def require_unchanged(pack: Pack) -> None:
    """Raise InputError where a file that a sample was made of changed since.

    Looks at as many as a second allows, in random order; files that are not there are none of them.
    """
    for index, then in _packed_files(pack):
        now = SourceFile.now(then.path)
        if now is not None and now != then:
            raise refused(
                pack, f"{then.path}, of which sample {index} was made, changed since it was packed"
            )


def require_same(pack: Pack, read: Callable[[int], None], indices: Iterable[int]) -> None:
    """Raise InputError where the Dataset reads files of another place, and one is of another size.

    `read` reads what a sample is made of. What it opens is compared with what it was packed from;
    when that lies in another folder now, so do the others, which are looked up there: a copy of the
    data has other times of change, so only sizes are compared.
    """
    for index in indices:
        then = pack.source(index) if "source" in pack.fields else ""
        if not then.startswith(os.sep):
            return
        with _opened() as paths, contextlib.suppress(*SAMPLE_ERRORS):
            read(index)  # what can't be made is told where samples are compared
        now = first_file(paths)
        folders = _apart(then, now.path) if now is not None and now.path != then else None
        if folders is not None:
            _compare_sizes(pack, *folders)
            return


def _compare_sizes(pack: Pack, there: str, here: str) -> None:
    """Look up all files of one folder in another one, with the same names below it."""
    below = there.rstrip(os.sep) + os.sep  # "/photos" is no folder of "/photos2/1.jpg"
    for index, then in _packed_files(pack):
        if not then.path.startswith(below):
            continue
        path = str(Path(here, then.path.removeprefix(below)))
        now = SourceFile.now(path)
        if now is None or now.size != then.size:
            size = f"{now.size:,} bytes" if now is not None else "not there"
            raise refused(
                pack,
                f"sample {index} was made of {then.path} ({then.size:,} bytes), and the data set "
                f"reads {here} now: {path} is {size}",
            )


def _apart(there: str, here: str) -> tuple[str, str] | None:
    """Two paths without the folders and the name that they end in alike; None if they don't."""
    old, new = Path(there).parts, Path(here).parts
    same = 0
    while same < min(len(old), len(new)) - 1 and old[-1 - same] == new[-1 - same]:
        same += 1
    return (str(Path(*old[:-same])), str(Path(*new[:-same]))) if same else None


def _packed_files(pack: Pack) -> Iterator[tuple[int, SourceFile]]:
    """Samples and their files in random order, for as long as there is time."""
    first = int(pack.usable[0]) if len(pack.usable) else -1
    if first < 0 or "source_stat" not in pack.fields:
        return
    if not pack.source(first).startswith(os.sep):
        return  # the names of samples, not of files
    end = time.perf_counter() + _FILES_S
    for index in np.random.default_rng(_SEED).permutation(pack.usable).tolist():
        yield index, SourceFile(pack.source(index), *map(int, pack.value("source_stat", index)))
        if time.perf_counter() > end:
            return


@contextlib.contextmanager
def _opened() -> Iterator[list[str]]:
    """The paths that this thread opens meanwhile by Python's `open`, which is put back.

    This runs in the user's training: an audit hook would stay in it.
    """
    paths: list[str] = []
    me, own = threading.get_ident(), builtins.open

    def noting(file: Any, *arguments: Any, **options: Any) -> Any:
        if isinstance(file, str | os.PathLike) and threading.get_ident() == me:
            paths.append(os.fsdecode(file))
        return own(file, *arguments, **options)

    builtins.open = io.open = noting
    try:
        yield paths
    finally:
        builtins.open = io.open = own
