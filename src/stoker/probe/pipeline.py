"""What can be done with a watched iterable, of which nothing is known but that it gives batches.

It may work ahead in threads of its own, but has no worker count that could be changed and no data
set that could be asked for a sample. Standard library only.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable
from typing import Any

from stoker import clocks
from stoker.probe.session import Session
from stoker.probe.side_loader import kept_random_state

# A pipeline that works ahead is idle when the process uses less than a tenth of a core for this
# long: threads that wait in numeric libraries may spin for a while, but yield.
_QUIET_S = 0.02
_QUIET_CORES = 0.1
# The first batches of a fresh iteration wait for its start, and for buffers that fill.
_SKIPPED = 2


class Pipeline:
    """Stands where a loader stands in a track."""

    def __init__(self, batches: Iterable[Any] | None) -> None:
        """`batches` can be iterated anew without harm; None where it is its own iterator."""
        self.batches = batches

    def quiesce(self, limit_s: float) -> None:
        """Wait until threads that work ahead have nothing left to do."""
        end = clocks.wall_s() + limit_s
        while clocks.wall_s() < end:
            used, began = clocks.process_s(), clocks.wall_s()
            time.sleep(_QUIET_S)
            used, took = clocks.process_s() - used, clocks.wall_s() - began
            if used < _QUIET_CORES * took:
                return

    def rehearsal(self, session: Session) -> PipelineRehearsal:
        """Iterations beside the script's own."""
        return PipelineRehearsal(self.batches, session)


class PipelineRehearsal:
    """A second iteration of the same iterable, for leg L. A `conductor.Rehearsal`.

    It is drained once: what a queue of unknown depth has gathered until a second time could not be
    told from what is made then.
    """

    threads = 0  # of workers; there are none
    start_each_s: float | None = None

    def __init__(self, batches: Iterable[Any] | None, session: Session) -> None:
        self._batches = batches
        self._session = session
        self._is_drained = batches is None

    def drain(self, what: str, workers: int, *, batches: int, limit_s: float) -> list[float]:
        """Periods of leg L as the script has it; nothing for the legs that need a DataLoader."""
        if what != "L" or workers or self._is_drained or self._batches is None:
            return []
        self._is_drained = True
        began = clocks.wall_s()
        with kept_random_state():
            source = _endless(self._batches)
            try:
                for _ in range(_SKIPPED):
                    next(source)
                started = now = clocks.wall_s()
                cpu = clocks.process_s()
                periods: list[float] = []
                while len(periods) < batches and now - started < limit_s:
                    next(source)
                    before, now = now, clocks.wall_s()
                    periods.append(now - before)
                cpu = clocks.process_s() - cpu
            finally:
                source.close()
        self._session.write(
            "drain",
            what=what,
            workers=workers,
            ramp_s=round(started - began, 6),
            skipped=_SKIPPED,
            periods=[round(value, 7) for value in periods],
            cpu_s=round(cpu, 6),
            runqueue_s=None,
            foreign_cores=None,
            main_cpu_s=round(cpu, 6),
            threads=0,
        )
        return periods

    def start_drainer(self) -> Any:
        """Leg C is for loaders with workers."""
        raise RuntimeError("a watched iterable has no workers that could run beside the step")

    def offers(self) -> None:
        """There are no settings to try."""

    def begin_trial(self, workers: int, variant: str) -> None:
        """There is no worker count to try."""
        raise RuntimeError(f"a watched iterable can't be given {variant or f'{workers} workers'}")

    def on_trial(self, anew: int | None) -> Any:
        """Nothing was begun."""
        raise RuntimeError(f"nothing is on trial (epoch: {anew})")

    on_trial_now = None

    def end_trial(self) -> None:
        """Nothing is on trial."""

    def once(self, limit_s: float) -> None:
        """No data set that could be asked for single samples."""

    def close(self) -> None:
        """A drain leaves nothing open."""


def _endless(batches: Iterable[Any]) -> Generator[Any, None, None]:
    """Over and over; RuntimeError when there is nothing."""
    while True:
        is_empty = True
        for batch in batches:
            is_empty = False
            yield batch
        if is_empty:
            raise RuntimeError("the watched iterable gives no batch when iterated again")
