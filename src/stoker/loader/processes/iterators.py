"""What `iter` of a stoker.DataLoader gives where worker processes make the batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import IterableDataset, MapDataPipe
from torch.utils.data.dataloader import _BaseDataLoaderIter

from stoker.loader.feed import FeedIterator
from stoker.loader.processes.making import OfDataset
from stoker.loader.processes.passes import Desk, Pass
from stoker.loader.processes.pool import Pool
from stoker.loader.processes.ways import Ways
from stoker.loader.processes.worker import Job

# What torch makes ahead for each worker when nothing is said, and a standstill that is none yet.
_PREFETCH_FACTOR = 2
_WATCHDOG_S = 600.0
_PINNED_AHEAD = 2


def is_ours(loader: Any) -> bool:
    """True for a loader whose batches this can make; False for what stays torch's own.

    Streams divide themselves among torch's workers, and single samples are no batches.
    """
    is_torchs = isinstance(loader.dataset, IterableDataset | MapDataPipe)
    in_order = getattr(loader, "in_order", True)
    return bool(
        loader.num_workers > 0 and loader.batch_sampler is not None and in_order and not is_torchs
    )


def desk_of(loader: Any, base_seed: int, ways: Ways) -> Desk:
    """Start a loader's workers."""
    job = Job(OfDataset(loader.dataset, loader.collate_fn), base_seed, loader.worker_init_fn)
    depth = max(loader.prefetch_factor or _PREFETCH_FACTOR, 1) * loader.num_workers
    pool = Pool(job, loader.num_workers, loader.multiprocessing_context)
    return Desk(pool, ways, depth, loader.timeout or _WATCHDOG_S)


class Processes(_BaseDataLoaderIter):  # type: ignore[misc, unused-ignore]
    """One pass, or all of a loader with persistent workers.

    Of torch's class, because whoever follows a loader follows that.
    """

    _batches: Iterator[Any]  # the pass's, or those that a thread has pinned

    def __init__(self, loader: Any, ways: Ways) -> None:
        super().__init__(loader)
        # Twice, as torch does it: a sampler may draw whenever it is asked for an iterator.
        super()._reset(loader, True)
        self._ways = ways
        self._begin(loader)

    @property
    def _workers(self) -> list[Any]:
        """By torch's name: whoever follows a loader measures its workers too."""
        return self._desk.pool.children

    @property
    def is_at_rest(self) -> bool:
        """True while no worker has anything to do; where a thread pins batches that isn't known."""
        return isinstance(self._batches, FeedIterator) or self._pass.is_at_rest

    def _shutdown_workers(self) -> None:
        """By torch's name: whoever wants the workers gone calls this, also within a pass."""
        batches = self._batches
        _end(self._desk, batches)
        if isinstance(batches, FeedIterator):
            # Those that lay ready went with the thread; the pass tells a loop that wants more.
            self._pass.is_cut = batches.tally.batches < self._pass.begun
            self._batches = self._pass

    def _begin(self, loader: Any) -> None:
        self._desk = desk_of(loader, self._base_seed, self._ways)
        self._start()

    def _start(self) -> None:
        self._pass = Pass(self._desk, self._sampler_iter)
        self._pass.send()  # now, as torch does: the sampler's draws are made in the same order
        self._batches = _pinned(self._pass, self._pin_memory)

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        """The next pass of persistent workers; torch's loader calls it."""
        super()._reset(loader, first_iter)
        if isinstance(self._batches, FeedIterator):
            self._batches.close()
        self._pass.leave()
        if self._desk.pool.is_closed:
            self._begin(loader)
        else:
            self._start()

    def _next_data(self) -> Any:
        try:
            return next(self._batches)
        except StopIteration:
            if not self._persistent_workers:
                _end(self._desk, self._batches)
            raise
        except Exception:
            # Also persistent ones: a worker may be dead or stuck.
            _end(self._desk, self._batches)
            raise


def rest_of(loader: Any, rest: Pass) -> Iterator[Any]:
    """What is left of a pass that threads have begun, by worker processes."""
    made = _pinned(rest, loader.pin_memory and torch.cuda.is_available())
    try:
        yield from made
    finally:
        _end(rest.desk, made)


class _PinLane:
    """A feed's way to pinned memory, in a thread, as torch has one."""

    def send(self, batch: Any) -> Any:
        """A copy that a device can fetch by itself; batches with a `pin_memory` do it their way."""
        return torch.utils.data._utils.pin_memory.pin_memory(batch)

    def receive(self, sent: Any) -> Any:
        """The copy."""
        return sent


def _end(desk: Desk, batches: Iterator[Any]) -> None:
    """End the workers, and before their blocks go the thread that takes from them."""
    if isinstance(batches, FeedIterator):
        batches.close(0.0)  # nobody wants more; it may be waiting for a worker
        desk.pool.close()
        batches.close()
    desk.close()


def _pinned(running: Pass, is_pinned: bool) -> Iterator[Any]:
    return FeedIterator(running, _PinLane(), _PINNED_AHEAD) if is_pinned else running
