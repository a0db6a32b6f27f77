"""Tensors in memory that is used again once nobody refers to it.

Fresh memory is dear: the kernel clears every page, 0.1 ms for a picture of 224² in floats.
"""

from __future__ import annotations

import math
import weakref
from collections import deque
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from stoker.loader.slots import View, host_memory

# Blocks of a size that are kept although nobody uses them: a loop holds two batches at a time.
_KEPT = 2


class Room:
    """Where the steps of a recipe put their results on the host. Safe to use from many threads."""

    def __init__(self) -> None:
        self._free: dict[int, deque[View]] = {}
        self._leases: dict[int, weakref.ref[NDArray[np.uint8]]] = {}

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """A contiguous tensor with anything in it."""
        size = math.prod(shape) * dtype.itemsize
        if not size:
            return torch.empty(shape, dtype=dtype)
        free = self._free.setdefault(size, deque())
        try:
            block = free.pop()
        except IndexError:
            block = host_memory(size)
        root = block()
        self._leases[id(root)] = weakref.ref(root, self._back(block, free, id(root)))
        return torch.from_numpy(root).view(dtype).view(shape)

    def _back(self, block: View, free: deque[View], key: int) -> Any:
        leases = self._leases

        def back(_: Any) -> None:
            leases.pop(key, None)
            if len(free) < _KEPT:
                free.append(block)

        return back
