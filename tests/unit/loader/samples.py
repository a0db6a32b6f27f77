"""Samples for tests of workers, threads or processes, and the processes that there are."""

from __future__ import annotations

import gc
import threading
from collections import namedtuple
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

import numpy as np
import torch

PATIENCE_S = 60.0  # of a test that would hang else
Pair = namedtuple("Pair", "left right")


class Alike:
    """Samples of one layout, in nested containers, with no chance in them."""

    def __init__(self, count: int = 40) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Any:
        image = torch.arange(24, dtype=torch.uint8).view(2, 3, 4) + index
        parts = Pair(np.full(3, index, np.float32), [index, index / 3])
        return {"image": image, "parts": parts, "odd": bool(index % 2), "scalar": np.int16(index)}


class Squares:
    """Pictures and labels, and who made them."""

    def __init__(self, count: int = 20) -> None:
        self.count = count
        self.makers: set[str] = set()

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        self.makers.add(threading.current_thread().name)
        return torch.full((2, 2), float(index)), index * index


def same(one: Any, other: Any) -> bool:
    """True for batches of equal tensors."""
    return all(
        torch.equal(a, b)
        for x, y in zip(one, other, strict=True)
        for a, b in zip(x, y, strict=True)
    )


def children() -> list[int]:
    gc.collect()
    found = []
    for task in Path("/proc/self/task").iterdir():
        found += [int(word) for word in (task / "children").read_text().split()]
    # Of Python's own, which spawning starts once.
    return [pid for pid in found if pid != resource_tracker._resource_tracker._pid]
