"""A file to read where there is none: written without a name, so that nothing can stay behind.

The only place in this package that writes. The file has no entry in any folder, and the kernel
frees it with the last handle, however the process ends.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from stoker import clocks

_BLOCK_BYTES = 1024 * 1024


class Scratch(NamedTuple):
    """The file's path for as long as it is held, and its size."""

    path: str
    size: int


@contextmanager
def scratch_file(
    folder: str,
    most_bytes: int,
    *,
    seconds: float,
    clock: Callable[[], float] = clocks.wall_s,
) -> Iterator[Scratch]:
    """Write up to `most_bytes` within `seconds` into a nameless file of `folder`, and free it.

    At least one block is written. Raises OSError when the folder takes no file or is full.
    """
    handle = _nameless(folder)
    try:
        until_s = clock() + seconds
        size = 0
        while size + _BLOCK_BYTES <= most_bytes or size == 0:
            # Random, because some stores compress and some know zeros.
            written = os.write(handle, os.urandom(_BLOCK_BYTES))
            size += written
            if clock() >= until_s:
                break
        os.fsync(handle)  # only pages that were written out can be evicted
        yield Scratch(f"/proc/self/fd/{handle}", size)
    finally:
        os.close(handle)


def _nameless(folder: str) -> int:
    """A writable handle to a file without a name."""
    try:
        return os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        # Not every file system knows O_TMPFILE; EISDIR comes from kernels that don't either.
        if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT):
            raise
    handle, path = tempfile.mkstemp(prefix=".stoker-", dir=folder)
    os.unlink(path)  # noqa: PTH108 - at once: from here on nothing can be left behind
    return handle
