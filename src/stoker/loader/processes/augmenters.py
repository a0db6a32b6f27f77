"""A Loader's `augment` in worker processes: for one in Python, which would hold the loop's GIL."""

from __future__ import annotations

import os
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from queue import Empty, SimpleQueue
from typing import Any

from stoker.loader.augmenting import Augment, augmented
from stoker.loader.processes.making import OfBatches
from stoker.loader.processes.passes import Desk, Pass
from stoker.loader.processes.pool import Pool
from stoker.loader.processes.ways import Ways
from stoker.loader.processes.worker import Job

# One that it works at, and one that lies ready for it.
_BATCHES_A_WORKER = 2
# How long the workers of a loop that was left are waited for, before new ones are started.
_COMING_S = 5.0


class _Change:
    """`augment` with its seed; can be pickled where `augment` can."""

    def __init__(self, augment: Augment, seed: int) -> None:
        self._augment = augment
        self._seed = seed

    def __call__(self, given: tuple[int, Any]) -> Any:
        epoch, batch = given
        return augmented(self._augment, seed=self._seed, epoch=epoch)(batch)


class Augmenters:
    """The workers of one Loader, kept over its epochs."""

    def __init__(self, augment: Augment, seed: int, workers: int, watchdog_s: float) -> None:
        self._job = Job(OfBatches(_Change(augment, seed)), None, None)
        self._workers = workers
        self._watchdog_s = watchdog_s
        self._kept: SimpleQueue[Desk | None] = SimpleQueue()
        self._pass: weakref.ref[Any] = weakref.ref(self)  # the last one; none yet

    def desk(self) -> Desk:
        """Workers for a pass: those of the last one, or new ones."""
        desk = self._given_back()
        if desk is None or desk.pool.is_closed or desk.pool.process != os.getpid():
            pool = Pool(self._job, self._workers)
            ways = Ways(self._workers, is_free=True)
            desk = Desk(pool, ways, _BATCHES_A_WORKER * self._workers, self._watchdog_s)
        return desk

    def changed(
        self, desk: Desk, batches: Iterator[Any], epoch: int, owner: object
    ) -> tuple[Pass, Callable[[], Any]]:
        """The batches as `augment` makes them, in their order, and what gives the workers back.

        That is called when the pass is over and nobody is asking for its batches; also by itself
        when the batches are forgotten, which follows when a loop forgets its pass, the `owner`.
        """
        # `map` keeps no batch that it has handed on; a generator would.
        running = Pass(desk, ((epoch, batch) for batch in batches), has_keys=False)
        self._pass = weakref.ref(owner)
        give_back = weakref.finalize(running, _give_back, desk, running.under_way, self._kept)
        give_back.atexit = False
        return running, give_back

    def _given_back(self) -> Desk | None:
        # A loop that has just been left: its thread is at its last batch.
        wait_s = _COMING_S if self._pass() is None else 0.0
        try:
            return self._kept.get(timeout=wait_s)
        except Empty:
            return None


def _give_back(desk: Desk, under_way: deque[int], kept: SimpleQueue[Desk | None]) -> None:
    """Keep the workers of a pass that is over, unless they are dead or others are kept already."""
    while under_way:
        desk.leave(under_way.popleft())
    if desk.is_broken:
        desk.close()
    if kept.empty():
        kept.put(None if desk.is_broken else desk)
