"""What parent and workers tell each other: records of one size through pipes.

A pipe is the queue: the kernel gives each record to exactly one reader, whichever is free, and a
process that is killed holds no lock. Records of 64 bytes never straddle a page of the pipe.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
from collections.abc import Iterable
from enum import IntEnum
from typing import NamedTuple

_LAYOUT = struct.Struct("8q")
# 4,096 records; a user who may not have that much is given what the kernel gives.
_WANTED_BYTES = 1 << 18
_READ_RECORDS = 1024


class Kind(IntEnum):
    """What is to be made, or was."""

    WHOLE = 0  # a batch, by one worker
    ROWS = 1  # some samples of it
    MISFIT = 2  # rows that have no place: the batch is to be made whole


class Record(NamedTuple):
    """A task, or what came of it.

    `first`, `samples`: where they begin in the batch, and how many. `slot`: of a task the block, of
    an answer the worker. `offset`, `length`: where in the block the inputs lie, or the batch.
    `extra`: of a task the batch's samples; of an answer nanoseconds, negative when global random
    numbers were drawn. Of a batch made whole `first` is the end of what was written,
    and `samples` the bytes before it that hold the samples' layout; 0 without one.
    """

    kind: int
    batch: int
    slot: int
    first: int
    samples: int
    offset: int
    length: int
    extra: int


class Pipe:
    """A queue of records between processes. Made in the parent; children get it when they start."""

    def __init__(self) -> None:
        self.reader, self.writer = os.pipe()
        os.set_blocking(self.reader, False)
        with contextlib.suppress(OSError):
            fcntl.fcntl(self.writer, fcntl.F_SETPIPE_SZ, _WANTED_BYTES)
        self.capacity = fcntl.fcntl(self.writer, fcntl.F_GETPIPE_SZ) // _LAYOUT.size

    def close(self) -> None:
        """Close both ends, in this process."""
        for end in (self.reader, self.writer):
            os.close(end)


def write(writer: int, records: Iterable[Record]) -> None:
    """Put records in; the caller sees to it that there is room."""
    data = b"".join(_LAYOUT.pack(*record) for record in records)
    while data:
        data = data[os.write(writer, data) :]


def read_one(reader: int) -> Record | None:
    """The next record; None when another process was faster."""
    try:
        data = os.read(reader, _LAYOUT.size)
    except BlockingIOError:
        return None
    return Record(*_LAYOUT.unpack(data)) if data else None


def read_all(reader: int) -> list[Record]:
    """What there is."""
    try:
        data = os.read(reader, _LAYOUT.size * _READ_RECORDS)
    except BlockingIOError:
        return []
    return [Record(*numbers) for numbers in _LAYOUT.iter_unpack(data)]
