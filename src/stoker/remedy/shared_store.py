"""Blobs by number in memory that all workers share and that ends with the last process.

An anonymous file (memfd): nothing of it stands in /dev/shm. Blobs are only added, until the budget
is used up or all are forgotten. Linux, standard library only.
"""

from __future__ import annotations

import fcntl
import mmap
import multiprocessing.reduction
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

_HEAD = struct.Struct("<QQQ")  # bytes used behind the table, blobs there, the flag
_ENTRY = struct.Struct("<QQ")  # where, counted from the file's start (0: nowhere), and how long


class SharedStore:
    """Room for `slots` blobs of together `budget` bytes."""

    def __init__(self, slots: int, budget: int) -> None:
        self._slots = slots
        self._budget = budget
        self._fd = os.memfd_create("stoker-cache", os.MFD_CLOEXEC)
        os.ftruncate(self._fd, self._first + budget)  # pages are taken when they are written
        self._map: mmap.mmap | None = None

    @property
    def _first(self) -> int:
        return _HEAD.size + self._slots * _ENTRY.size

    def _memory(self) -> mmap.mmap:
        if self._map is None:
            self._map = mmap.mmap(self._fd, self._first + self._budget)
        return self._map

    def get(self, number: int) -> memoryview | None:
        """The blob of that number; None where there is none."""
        where, size = _ENTRY.unpack_from(self._memory(), self._entry(number))
        return memoryview(self._memory())[where : where + size] if where else None

    def put(self, number: int, blob: bytes) -> bool:
        """Keep a blob; False when there is no room for it any more."""
        memory = self._memory()
        with self._locked():
            used, count, flag = _HEAD.unpack_from(memory)
            if used + len(blob) > self._budget:
                return False
            _HEAD.pack_into(memory, 0, used + len(blob), count + 1, flag)
        where = self._first + used
        memory[where : where + len(blob)] = blob
        with self._locked():  # also the barrier between the blob and the entry that leads to it
            _ENTRY.pack_into(memory, self._entry(number), where, len(blob))
        return True

    def forget(self) -> None:
        """Drop all blobs, and give their memory back; only while nobody reads or adds any."""
        with self._locked():
            memory = self._memory()
            flag = self.flag
            _HEAD.pack_into(memory, 0, 0, 0, flag)
            memory[_HEAD.size : self._first] = bytes(self._first - _HEAD.size)
            begin = -(-self._first // mmap.PAGESIZE) * mmap.PAGESIZE
            if begin < len(memory):
                # Whole pages go, for all processes. Where the kernel can't do that they are kept,
                # to be filled again.
                with suppress(OSError):
                    memory.madvise(mmap.MADV_REMOVE, begin, len(memory) - begin)

    @property
    def flag(self) -> int:
        """A number that any process may set for all: 0 at first."""
        return int(_HEAD.unpack_from(self._memory())[2])

    def set_flag(self, value: int) -> None:
        """Set it."""
        with self._locked():
            used, count, _ = _HEAD.unpack_from(self._memory())
            _HEAD.pack_into(self._memory(), 0, used, count, value)

    @property
    def used(self) -> int:
        """Bytes of all blobs."""
        return int(_HEAD.unpack_from(self._memory())[0])

    @property
    def count(self) -> int:
        """How many blobs there are."""
        return int(_HEAD.unpack_from(self._memory())[1])

    def __contains__(self, number: int) -> bool:
        return 0 <= number < self._slots

    def _entry(self, number: int) -> int:
        return _HEAD.size + number * _ENTRY.size

    @contextmanager
    def _locked(self) -> Iterator[None]:
        # POSIX locks belong to the process, so they hold between workers that share the file.
        fcntl.lockf(self._fd, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.lockf(self._fd, fcntl.LOCK_UN)

    def __getstate__(self) -> dict[str, Any]:
        return {
            "slots": self._slots,
            "budget": self._budget,
            "fd": multiprocessing.reduction.DupFd(self._fd),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._slots, self._budget = state["slots"], state["budget"]
        self._fd = state["fd"].detach()
        self._map = None

    def __del__(self) -> None:
        fd, self._fd = getattr(self, "_fd", -1), -1
        if fd >= 0:
            os.close(fd)
