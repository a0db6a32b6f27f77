"""Takes batches from a loader beside the script's own as fast as they come, and meters it.

Standard library only.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from stoker import clocks
from stoker.probe.process import CpuMeter, busy_s

# Shorter drains of fast loaders tell more about the scheduler than about the loader.
_LEAST_S = 0.4


class Side(Protocol):
    """A loader beside the script's own."""

    workers: int
    is_empty: bool  # nothing lies ready

    @property
    def pids(self) -> list[int]:
        """Its worker processes."""
        ...

    @property
    def thread_ids(self) -> list[int]:
        """Its workers that are threads of this process."""
        ...

    def open(self) -> None:
        """Begin, unless it has begun."""
        ...

    def lying_ready(self) -> int:
        """Batches to skip now."""
        ...

    def take(self) -> Any:
        """The next batch."""
        ...


class Drained(NamedTuple):
    """What a drain gave: `used` are the fields about CPU time of its line."""

    ramp_s: float
    skipped: int
    periods: list[float]
    used: dict[str, float | None]

    def fields(self) -> dict[str, Any]:
        """As they are written down."""
        return {
            "ramp_s": round(self.ramp_s, 6),
            "skipped": self.skipped,
            "periods": [round(value, 7) for value in self.periods],
            **self.used,
        }


def drained(side: Side, *, batches: int, limit_s: float) -> Drained:
    """Skip what lies ready, then take so many batches, or as many as the time allows.

    What lay ready at the start is skipped: the queue of a loader that was used before, the first
    round of one that has just begun. The limit counts from there.
    """
    began = clocks.wall_s()
    side.open()
    skip = side.lying_ready()
    for _ in range(skip):
        side.take()
    meter = _Meter(side)
    periods: list[float] = []
    now = clocks.wall_s()
    started, end = now, now + limit_s
    while now < end and (len(periods) < batches or now - started < _LEAST_S):
        side.take()
        before, now = now, clocks.wall_s()
        periods.append(now - before)
    return Drained(started - began, skip, periods, meter.read())


class _Meter:
    """What the cores do from now on: for a side loader's workers, for this thread, for others."""

    def __init__(self, side: Side) -> None:
        self._has_workers = side.workers > 0
        self._processes = CpuMeter(side.pids, clock=clocks.wall_s)
        self._threads = CpuMeter((), threads=side.thread_ids, clock=clocks.wall_s)
        self._main_s, self._own_s, self._busy_s = clocks.cpu_s(), clocks.process_s(), busy_s()

    def read(self) -> dict[str, float | None]:
        """The fields of a drain about it."""
        processes, threads = self._processes.read(), self._threads.read()
        main_s = clocks.cpu_s() - self._main_s
        # Threads of numeric libraries spin on for a while after a step: they are our own.
        own_s = clocks.process_s() - self._own_s
        workers_s = processes.cpu_s if self._has_workers else main_s
        if threads.processes:
            # All threads but the one that takes: what libraries start below them counts, too.
            workers_s += own_s - main_s
        queued = [use.runqueue_s for use in (processes, threads) if use.runqueue_s is not None]
        foreign, now = None, busy_s()
        if self._busy_s is not None and now is not None:
            foreign = (now - self._busy_s - processes.cpu_s - own_s) / processes.wall_s
        return {
            "cpu_s": round(workers_s, 6),
            "runqueue_s": round(sum(queued), 6) if queued else None,
            "main_cpu_s": round(main_s, 6),
            "foreign_cores": round(foreign, 3) if foreign is not None else None,
        }
