"""Memory that several processes see: an anonymous file, gone with the last one that has it open.

It has no name under /dev/shm, so nothing stays there however a process ends, and the size of
/dev/shm is no limit.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]

# Widest vector registers, and a cache line.
ALIGNMENT = 64
# Growing is rare, and a huge page is the least that is worth it.
_STEP_BYTES = 2 << 20


def aligned(size: int) -> int:
    """The next multiple of a cache line."""
    return size + -size % ALIGNMENT


class Block:
    """An anonymous file, mapped. Any process that has it may let it grow; none can shrink it."""

    def __init__(self, file: int) -> None:
        self.file = file
        self._closing = weakref.finalize(self, os.close, file)
        self._closing.atexit = False
        self._maps: list[Bytes] = []
        self._map()

    @classmethod
    def new(cls, size: int) -> Block:
        """A block of zeros. Raises OSError when no file can be opened."""
        file = os.memfd_create("stoker-batch", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(file, max(_STEP_BYTES, size + -size % _STEP_BYTES))
        # Two that let it grow at once would else leave it with the size of the slower one.
        fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
        return cls(file)

    @property
    def size(self) -> int:
        """Bytes that this process sees."""
        return len(self._maps[-1])

    @property
    def memory(self) -> Bytes:
        """All bytes, for a moment: `view` is for what lasts."""
        return self._maps[-1]

    def view(self) -> Bytes:
        """A new array over the whole, which is the base of whatever is cut from it."""
        return np.frombuffer(self._mapped, np.uint8)

    def reach(self, size: int) -> None:
        """Let the block hold so many bytes, by what others have added or by adding."""
        if size <= self.size:
            return
        there = os.fstat(self.file).st_size
        if there < size:
            with contextlib.suppress(PermissionError):  # another let it grow by more meanwhile
                os.ftruncate(self.file, size + -size % _STEP_BYTES)
        # Arrays over the old map stay valid: it shows the same pages.
        self._map()

    def offset_of(self, address: int, size: int) -> int | None:
        """Where in the block these bytes lie, through whichever of its maps; None: elsewhere."""
        for one in self._maps:
            offset = address - one.ctypes.data
            if offset >= 0 and offset + size <= len(one):
                return offset
        return None

    def forget_old(self) -> None:
        """Drop the maps from before the block has grown."""
        del self._maps[:-1]

    def close(self) -> None:
        """Give the file back; its pages stay for as long as an array over them is referenced."""
        self._closing()

    def _map(self) -> None:
        size = os.fstat(self.file).st_size
        self._mapped = mmap.mmap(self.file, size)
        self._maps.append(np.frombuffer(self._mapped, np.uint8))


class Arena:
    """Room in a block, given out from a place on; nothing is taken back."""

    def __init__(self, block: Block, start: int = 0) -> None:
        self.block = block
        self.end = start

    def take(self, size: int) -> Bytes:
        """The next `size` bytes, aligned."""
        start = aligned(self.end)
        self.block.reach(start + size)
        self.end = start + size
        return self.block.memory[start : self.end]

    def put(self, data: Any) -> tuple[int, int]:
        """Copy bytes in; where they lie, and how many. What lies in the block stays there."""
        source = np.frombuffer(data, np.uint8)
        offset = self.block.offset_of(source.ctypes.data, len(source))
        if offset is None:
            target = self.take(len(source))
            target[:] = source
            offset = self.end - len(source)
        return offset, len(source)


def cut(root: Bytes, places: Sequence[tuple[int, int]]) -> list[Bytes]:
    """The parts of a block that lie at (offset, length)."""
    return [root[offset : offset + length] for offset, length in places]
