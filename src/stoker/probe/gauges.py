"""What is read beside a window: CPU time of the job and of this process, memory, stacks.

Standard library only.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import Any

from stoker import clocks
from stoker.probe.process import CpuMeter, anonymous_memory, busy_s, unique_memory
from stoker.probe.stacks import StackSampler


class Gauges:
    """The readings of one window, from its first step to its last."""

    def __init__(
        self, workers: Sequence[int] | None, *, samples_stack: bool, device: str | None
    ) -> None:
        """`workers`: the job's other processes, or None where only this one is read."""
        main = threading.main_thread()
        self._sampler = StackSampler(main, device) if samples_stack else None
        own = os.getpid()
        clock = clocks.wall_s
        self._job = CpuMeter([own, *workers], clock=clock) if workers is not None else None
        self._main = CpuMeter([own], clock=clock)
        self._busy_s = busy_s() if workers is not None else None
        self._steps: list[tuple[float, float]] = []
        self.inside: dict[str, Any] | None = None  # what the stack samples say, once stopped

    def step(self, began: float, ended: float) -> None:
        """A whole step lies in the window."""
        self._steps.append((began, ended))

    def stop(self) -> dict[str, float | None]:
        """Cores kept busy by the job, by this process and by others; None for what was not read."""
        if self._sampler is not None:
            self.inside = self._sampler.stop(self._steps)
        job = self._job.read() if self._job is not None else None
        foreign, now = None, busy_s()
        if job is not None and not job.lost and self._busy_s is not None and now is not None:
            foreign = round((now - self._busy_s - job.cpu_s) / max(job.wall_s, 1e-9), 3)
        return {
            # workers that ended with an epoch took their times along
            "job_cores": round(job.cores, 4) if job is not None and not job.lost else None,
            "foreign_cores": foreign,
            "main_cores": round(self._main.read().cores, 4),
        }


def memory_of(workers: Sequence[int]) -> dict[str, Any]:
    """Memory that no other process shares, of the workers, and the objects of this process."""
    sizes = [size for pid in workers if (size := unique_memory(pid)) is not None]
    return {
        "workers": len(sizes),
        "unique_bytes": sum(sizes),
        "main_bytes": anonymous_memory(os.getpid()),
        "pids": list(workers),
    }
