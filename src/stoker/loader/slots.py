"""Memory of batches: blocks that are filled, lent out, and used again when nobody holds them.

A block is lent as one array that all fields are views of; it comes back when that array and every
view of a view of it are gone. Knows no threads: whoever shares it between threads holds a lock.
"""

from __future__ import annotations

import contextlib
import mmap
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from stoker.errors import InputError

Fields = dict[str, NDArray[Any]]
# Gives a new 1-D uint8 array over the block at each call, whose base is no array.
View = Callable[[], NDArray[np.uint8]]
Allocate = Callable[[int], View]

# Widest vector registers, and a cache line.
_ALIGNMENT = 64
# One batch is with the caller and the one before it is about to be let go.
LENT = 2


class Field(NamedTuple):
    """What one sample holds under a name; `shape` without the batch."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @classmethod
    def of(cls, name: str, shape: Sequence[int], dtype: DTypeLike) -> Field:
        """A field from anything that NumPy takes for a type."""
        return cls(name, tuple(shape), np.dtype(dtype))

    @property
    def sample_bytes(self) -> int:
        """Bytes of one sample."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize


def host_memory(size: int) -> View:
    """Pages of this process, in huge pages where the kernel has them: 500 times fewer faults.

    A forked child has a copy: left to its default, mmap would let both write to the same pages.
    """
    block = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # a kernel built without them: ordinary pages do
            block.madvise(mmap.MADV_HUGEPAGE)
    return lambda: np.frombuffer(block, np.uint8)


class Slot:
    """One block, laid out for `rows` samples."""

    __slots__ = ("_places", "fields", "size", "view")

    def __init__(self, layout: Sequence[Field], rows: int, allocate: Allocate) -> None:
        self._places: list[tuple[Field, int, int]] = []
        self.size = 0
        for field in layout:
            length = field.sample_bytes * rows
            self._places.append((field, self.size, self.size + length))
            self.size += length + -length % _ALIGNMENT
        self.view = allocate(max(self.size, 1))
        self.fields = self.cut(self.view())

    def cut(self, root: NDArray[np.uint8]) -> Fields:
        """The fields as views of `root`, which is one of `view`."""
        return {
            field.name: root[start:stop].view(field.dtype).reshape(-1, *field.shape)
            for field, start, stop in self._places
        }


class Slots:
    """At most `limit` blocks that are not lent out; what is lent belongs to the caller's memory.

    `is_ring`: a block is written to again after the next one was lent, whoever still refers to it.
    """

    def __init__(
        self,
        layout: Sequence[Field],
        rows: int,
        *,
        limit: int,
        is_ring: bool = False,
        allocate: Allocate = host_memory,
    ) -> None:
        self._layout = tuple(layout)
        self._rows = rows
        self._allocate = allocate
        self._limit = limit
        self._is_ring = is_ring
        self._last: Slot | None = None  # of a ring: what was lent last
        self._held = 0  # blocks that exist, are not lent, and were not just returned
        self._free: list[Slot] = []
        # Both changed by weak references, at any moment and in any thread: without a lock, by what
        # is one step to Python.
        self._returned: deque[Slot] = deque()
        self._leases: dict[int, weakref.ref[NDArray[np.uint8]]] = {}  # by the slot's id

    @property
    def held_bytes(self) -> int:
        """Bytes of the blocks that are not lent out."""
        return (self._held + len(self._returned)) * slot_bytes(self._layout, self._rows)

    def acquire(self, rows: int) -> Slot | None:
        """A block for `rows` samples; None when as many as are allowed are in use.

        Raises ValueError for more samples than a block holds.
        """
        if rows > self._rows:
            raise ValueError(f"{rows} samples, and a block holds {self._rows}")
        self._collect()
        if self._free:
            return self._free.pop()
        if self._held >= self._limit:
            return None
        self._held += 1
        return Slot(self._layout, self._rows, self._allocate)

    def release(self, slot: Slot) -> None:
        """Take back a block that was not lent."""
        self._free.append(slot)

    def lend(self, slot: Slot, rows: int) -> Fields:
        """Hand a filled block out; it comes back by itself, in a ring when the next one goes."""
        if self._is_ring:
            if self._last is not None:
                self._free.append(self._last)
            self._last = slot
            return {name: field[:rows] for name, field in slot.fields.items()}
        self._held -= 1
        root = slot.view()
        # The slot lives in its lease, and the lease here: were it the slot's own, they would be a
        # circle that nothing else refers to, and that a garbage collection takes away.
        came_back = partial(_came_back, weakref.ref(self), slot)
        self._leases[id(slot)] = weakref.ref(root, came_back)
        return {name: field[:rows] for name, field in slot.cut(root).items()}

    def _take_back(self, slot: Slot) -> None:
        self._leases.pop(id(slot), None)
        if self._held + len(self._returned) < self._limit:  # else it goes, and its memory with it
            self._returned.append(slot)

    def _collect(self) -> None:
        while self._returned:
            slot = self._returned.popleft()
            if self._held < self._limit:  # as above: more may have come at the same moment
                self._held += 1
                self._free.append(slot)


def _came_back(owner: weakref.ref[Slots], slot: Slot, _: object) -> None:
    """Nothing refers to what was lent any more."""
    slots = owner()
    if slots is not None:
        slots._take_back(slot)


def slot_bytes(layout: Sequence[Field], rows: int) -> int:
    """Bytes of one block."""
    sizes = (field.sample_bytes * rows for field in layout)
    return sum(size + -size % _ALIGNMENT for size in sizes)


def depth_within(
    budget_bytes: int,
    one: Mapping[str, int],
    beside: Mapping[str, int] | None = None,
    *,
    wanted: int,
) -> int:
    """How many batches may be made ahead within the budget, `wanted` at most.

    `one` are the bytes of a batch by what they are for, `beside` those that are needed however many
    are made ahead. Raises InputError when the budget holds not even one batch ahead, beside the two
    that come back from the caller.
    """
    size = sum(one.values())
    fixed = sum((beside or {}).values())
    ahead = (budget_bytes - fixed) // size - LENT if size else wanted
    if ahead < 1:
        least = (LENT + 1) * size + fixed
        parts = [f"{LENT + 1} x {part / 1e6:,.1f} MB {name}" for name, part in one.items()]
        parts += [f"{part / 1e6:,.1f} MB {name}" for name, part in (beside or {}).items()]
        raise InputError(
            f"memory_bytes={budget_bytes:,} is too little: {least:,} are needed, for one batch "
            "ahead and two that the loop still has",
            looked_at=", ".join(parts),
            run_next=f"give memory_bytes={least} or more, or a smaller batch_size",
        )
    return min(wanted, ahead)
