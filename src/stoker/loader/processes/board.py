"""What each worker is at, where the parent sees it without asking: it may be stuck, or dead."""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np

from stoker.loader.processes.block import Block

WAITING = "waiting for work"
STAGES = (WAITING, "worker_init_fn", "dataset", "collate", "augment")
_COLUMNS = 4


class At(NamedTuple):
    """One worker's place: `batch` and `row` are -1 where there is none."""

    stage: str
    batch: int
    row: int
    since_s: float

    @property
    def lasted_s(self) -> float:
        """Seconds that it has been there."""
        return time.monotonic() - self.since_s


class Board:
    """A line for each worker; only it writes there."""

    def __init__(self, block: Block, workers: int) -> None:
        self._lines = block.memory[: workers * _COLUMNS * 8].view(np.int64).reshape(workers, -1)

    def note(self, worker: int, stage: str, batch: int = -1, row: int = -1) -> None:
        """Say what the worker is at from now on."""
        self._lines[worker] = STAGES.index(stage), batch, row, time.monotonic_ns()

    def at(self, worker: int) -> At:
        """Where a worker was last seen."""
        stage, batch, row, since_ns = self._lines[worker].tolist()
        return At(STAGES[stage], batch, row, since_ns / 1e9)

    def marks(self) -> bytes:
        """Changes whenever any worker comes on."""
        return self._lines.tobytes()
