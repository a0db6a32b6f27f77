"""A stoker.Loader under the doctor: what it says of itself, and Loaders beside the script's own.

Its private parts are read here, as torch's are elsewhere. Standard library only.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from stoker import clocks
from stoker.probe.draining import drained
from stoker.probe.pipeline import Pipeline
from stoker.probe.session import Session
from stoker.probe.side_loader import TicketDrainer, kept_random_state

# As the profile has it: in place of a data set, and of a start method.
_NAME = "stoker.Loader"
_THREADS = "threads"
_REST_STEP_S = 0.002
# Behind the engine's batches: two in a feed, and one on the way to it.
_IN_FEED = 3

# More than the script or a Loader beside it will come to.
_EPOCHS = 1000

# Times the stages of all loading threads: stage -> calls, wall ns, CPU ns.
Timed = Callable[[dict[str, list[int]]], AbstractContextManager[None]]


def facts_of(loader: Any) -> dict[str, Any]:
    """What a Loader says of itself; its threads are those that it begins with."""
    try:
        batches = len(loader)
    except TypeError:
        batches = None  # a sampler without a length
    threads = loader._pace.threads
    return {
        "workers": threads,
        "batch_size": loader._share.batch_size,
        "batches": batches,
        "samples": len(loader._contents.usable),
        "prefetch_factor": max(1, loader._pace.depth // threads),
        "persistent_workers": False,
        "pin_memory": loader._device is not None,
        "start_method": _THREADS,
        "dataset": _NAME,
        "iterable": True,
    }


class OwnLoader(Pipeline):
    """Stands where a loader stands in a track, for a Loader that the script may drop."""

    def __init__(self, loader: Any, timed: Timed) -> None:
        self._begun_with = loader._pace.threads
        self._twin = loader._beside()
        self._timed = timed
        self._running: Callable[[], Any] = lambda: None
        super().__init__(self._twin)

    def follow(self, running: Any) -> None:
        """The script's pass is that one now."""
        self._running = weakref.ref(running)

    def quiesce(self, limit_s: float) -> None:
        """Wait until its threads have made what they may make ahead."""
        end = clocks.wall_s() + limit_s
        while (running := self._running()) is not None and not running.is_at_rest:
            if clocks.wall_s() > end:
                return
            time.sleep(_REST_STEP_S)
        super().quiesce(end - clocks.wall_s())  # an augment has a thread of its own

    def rehearsal(self, session: Session) -> LoaderRehearsal:  # type: ignore[override]
        """Loaders beside the script's own."""
        return LoaderRehearsal(self._twin, self._begun_with, session, self._timed)


class _Side:
    """One Loader beside the script's own, in the midst of its epochs. A `draining.Side`."""

    def __init__(self, loader: Any, workers: int) -> None:
        self._loader = loader
        self.workers = workers
        self.is_empty = True
        self.running: Any = None  # the pass

    pids: list[int] = []  # noqa: RUF012 - never any: a protocol asks for them

    @property
    def thread_ids(self) -> list[int]:
        """The threads that read and decode."""
        return list(self.running.thread_ids) if self.running is not None else []

    def open(self) -> None:
        """Begin a pass, unless one is open."""
        if self.running is None:
            # Not by `iter`, which is followed: a drain beside the step has a thread of its own.
            self.running = self._loader._begun()

    def lying_ready(self) -> int:
        """One batch of a pass that begins, else all that may be made ahead."""
        skip = 1 if self.is_empty else self._loader._pace.depth + _IN_FEED
        self.is_empty = False
        return int(skip)

    def take(self) -> Any:
        """The next batch, of the next epoch where this one is through."""
        try:
            return next(self.running)
        except StopIteration:
            self.running = self._loader._begun()
        try:
            return next(self.running)
        except StopIteration:
            raise RuntimeError("the Loader gives no batch when iterated again") from None

    @property
    def threads(self) -> int:
        """Threads that load at the moment."""
        return int(self._loader._pace.threads)

    def close(self) -> None:
        """End the pass and its threads."""
        running, self.running = self.running, None
        if running is not None:
            running.close()


class LoaderRehearsal:
    """Loaders of the same contents with any number of threads. A `roles.Rehearsal`."""

    threads = 0  # that its threads have started: none
    start_each_s: float | None = None

    def __init__(self, loader: Any, workers: int, session: Session, timed: Timed) -> None:
        """`workers`: the threads that the script's Loader began with."""
        self._loader = loader
        self._workers = workers
        self._session = session
        self._timed = timed
        self._epochs = 0  # that were left to others: each reads in an order of its own
        self._own: _Side | None = None
        self._trial: _Side | None = None

    def drain(self, what: str, workers: int, *, batches: int, limit_s: float) -> list[float]:
        """Periods of leg L with so many threads, or of leg S; nothing of legs for processes."""
        if what not in ("L", "S") or workers < 1:
            return []
        is_own = what == "L" and workers == self._workers
        stages: dict[str, list[int]] = {}
        with kept_random_state(), self._timed(stages) if what == "S" else nullcontext():
            side = self._opened() if is_own else self._side(workers)
            try:
                found = drained(side, batches=batches, limit_s=limit_s)
                threads = side.threads
            finally:
                if not is_own:
                    side.close()
        if stages:
            taken = found.skipped + len(found.periods)
            self._write_stages(stages, workers, taken * self._loader._share.batch_size)
        self._session.write(
            "drain",
            what=what,
            workers=workers,
            threads=threads,
            start_method=_THREADS,
            **found.fields(),
        )
        return found.periods

    def start_drainer(self) -> TicketDrainer:
        """Begin to take a batch for every ticket from one like the script's."""
        with kept_random_state():
            side = self._opened()
            side.open()
            for _ in range(side.lying_ready()):
                side.take()
        return TicketDrainer(side)

    def offers(self) -> None:
        """No remedy is for a Loader."""

    def begin_trial(self, workers: int, variant: str) -> None:
        """Start one with that many threads."""
        if variant:
            raise RuntimeError(f"a stoker.Loader can't be given {variant}")
        if self._trial is None:
            with kept_random_state():
                self._trial = self._side(workers)
                self._trial.open()

    def on_trial(self, anew: int | None) -> Any:
        """The next batch of it; its epochs follow each other by themselves."""
        del anew
        if self._trial is None:
            raise RuntimeError("nothing is on trial")
        return self._trial.take()

    @property
    def on_trial_now(self) -> Any:
        """Its pass; None without."""
        return self._trial.running if self._trial is not None else None

    def end_trial(self) -> None:
        """End it."""
        trial, self._trial = self._trial, None
        if trial is not None:
            trial.close()

    def once(self, limit_s: float) -> None:
        """No data set of the script's that could be asked for single samples."""

    def close(self) -> None:
        """End all threads."""
        self.end_trial()
        own, self._own = self._own, None
        if own is not None:
            own.close()

    def _opened(self) -> _Side:
        """The one for leg L, kept for all its drains: it finds its own threads as it goes on."""
        if self._own is None:
            self._own = _Side(self._beside(None), self._workers)
        return self._own

    def _side(self, threads: int) -> _Side:
        return _Side(self._beside(threads), threads)

    def _beside(self, threads: int | None) -> Any:
        self._epochs += _EPOCHS
        return self._loader._beside(threads, epoch=self._loader.epoch + self._epochs)

    def _write_stages(self, stages: dict[str, list[int]], workers: int, samples: int) -> None:
        self._session.write(
            "stages",
            where="worker",
            workers=workers,
            stages=stages,
            records=[],
            samples=samples,
            wall_ns=sum(wall for _, wall, _ in stages.values()),
            cpu_ns=sum(cpu for _, _, cpu in stages.values()),
            runqueue_ns=None,
        )
