"""The ring of blocks that batches are made in: lent with the batch, used again when it is gone."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable

import numpy as np

from stoker.loader.processes.block import Block, Bytes

# With the loop, in a feed and on their way between them; who keeps more batches gets copies, so
# that neither files nor shared memory grow with what is kept.
LENT = 6


class Ring:
    """At most `limit` blocks and `LENT` more. `introduce` is told of each new one."""

    def __init__(self, limit: int, introduce: Callable[[int, Block], None]) -> None:
        self._limit = limit + LENT
        self._introduce = introduce
        self._blocks: list[Block] = []
        self._free: list[int] = []
        # Filled by weak references, at any moment and in any thread: appending needs no lock.
        self._returned: deque[int] = deque()
        self._leases: dict[int, weakref.ref[Bytes]] = {}
        self._bytes = 0  # of the largest block so far

    @property
    def held_bytes(self) -> int:
        """Bytes of all blocks, lent ones too."""
        return sum(block.size for block in self._blocks)

    def __getitem__(self, slot: int) -> Block:
        return self._blocks[slot]

    def acquire(self) -> int:
        """A slot that nobody refers to. Raises OSError when no file can be opened."""
        self._collect()
        if self._free:
            return self._free.pop()
        slot = len(self._blocks)
        block = Block.new(self._bytes)
        self._blocks.append(block)
        try:
            self._introduce(slot, block)
        except BaseException:
            block.close()  # its number is not used again: some workers may know it already
            raise
        return slot

    def release(self, slot: int) -> None:
        """Take back a slot that was not lent."""
        self._free.append(slot)

    def lend(self, slot: int, used: int) -> Bytes:
        """The bytes of a slot for the loop; it comes back when they are not referenced any more."""
        block = self._blocks[slot]
        block.reach(used)
        block.forget_old()
        self._bytes = max(self._bytes, block.size)
        self._collect()
        if len(self._leases) >= LENT:
            copy: Bytes = np.array(block.memory[:used])
            self._free.append(slot)
            return copy
        root = block.view()
        returned = self._returned
        self._leases[slot] = weakref.ref(root, lambda _: returned.append(slot))
        return root

    def close(self) -> None:
        """Give up all blocks; what is lent stays readable."""
        for block in self._blocks:
            block.close()
        self._blocks.clear()

    def _collect(self) -> None:
        while self._returned:
            slot = self._returned.popleft()
            del self._leases[slot]
            self._free.append(slot)
