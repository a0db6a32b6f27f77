"""Rows of chunked arrays: any row that is asked for has its whole chunk unpacked.

Counted along the first axis, for single rows and slices. Standard library only.
"""

from __future__ import annotations

import math
import operator
from typing import Any

from stoker.probe.hooks.calls import ROW, Decodes

# Data sets of which the last chunk is remembered; handles are made anew by some scripts.
_MOST_REMEMBERED = 64
# A data set this many times as large as its library's cache finds next to nothing in it when it is
# read in any order.
_BEYOND_CACHE = 8


def _asked_for(index: Any, length: int) -> range | None:
    """The rows of an index; None for one that is no row and no slice of rows."""
    first = index[0] if isinstance(index, tuple) and index else index
    if isinstance(first, slice):
        return range(*first.indices(length))
    try:
        row = operator.index(first)
    except TypeError:
        return None
    row += length if row < 0 else 0
    return range(row, row + 1)


def _unpacked(rows: range, per_chunk: int, length: int) -> int:
    """Rows of all chunks that hold one of these; slices with wide steps leave chunks out."""
    if abs(rows.step) >= per_chunk:
        return min(length, len(rows) * per_chunk)
    first, last = sorted((rows[0] // per_chunk, rows[-1] // per_chunk))
    return min(length, (last + 1) * per_chunk) - first * per_chunk


def _of_zarr(arguments: tuple[Any, ...], _: Any) -> tuple[int, int]:
    """Zarr keeps no chunk: what is asked for is unpacked each time."""
    array, index, *_rest = arguments
    rows = _asked_for(index, array.shape[0])
    if not rows:
        return 0, 0
    return _unpacked(rows, array.chunks[0], array.shape[0]), len(rows)


class _Cached:
    """HDF5 keeps chunks that fit into a cache, so a chunk that is read on is not unpacked again."""

    def __init__(self) -> None:
        # Handle of a data set -> rows of a chunk (0: not counted), whether the cache holds one.
        self._known: dict[int, tuple[int, bool]] = {}
        self._last: dict[int, int] = {}  # handle -> the chunk that was asked last

    def count(self, arguments: tuple[Any, ...], _: Any) -> tuple[int, int]:
        """Nothing of data sets that are not chunked, or are little more than the cache."""
        dataset, index, *_rest = arguments
        handle = dataset.id.id
        if handle not in self._known:
            if len(self._known) >= _MOST_REMEMBERED:
                self._known.clear()
                self._last.clear()
            self._known[handle] = _chunks_of(dataset)
        per_chunk, is_kept = self._known[handle]
        length = dataset.shape[0] if per_chunk else 0
        rows = _asked_for(index, length) if per_chunk else None
        if not rows:
            return 0, 0
        unpacked = _unpacked(rows, per_chunk, length)
        first = rows[0] // per_chunk
        if is_kept and self._last.get(handle) == first:
            unpacked -= min(length, (first + 1) * per_chunk) - first * per_chunk
        self._last[handle] = rows[-1] // per_chunk
        return unpacked, len(rows)


def _chunks_of(dataset: Any) -> tuple[int, bool]:
    """Rows of a chunk, or 0 where the cache may hold much of the data set; whether it holds one."""
    cache = dataset.id.get_access_plist().get_chunk_cache()[1]
    if not dataset.chunks or dataset.nbytes < _BEYOND_CACHE * cache:
        return 0, True
    return dataset.chunks[0], math.prod(dataset.chunks) * dataset.dtype.itemsize <= cache


ZARR_ROWS = Decodes(ROW, _of_zarr)
HDF5_ROWS = Decodes(ROW, _Cached().count)
