"""One loader beside the script's own, made from its arguments, and what drains it.

Torch objects are used as the hooks hand them over; nothing is imported but the standard library.
"""

from __future__ import annotations

import copy
import itertools
import multiprocessing
import random
import sys
import threading
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from stoker import clocks
from stoker.probe.draining import Side
from stoker.probe.session import Session
from stoker.probe.snapshot import copy_leaf, rebuild
from stoker.probe.worker import WorkerStart

# In place of a start method, as the profile has it.
_THREADS = "threads"


def threads_of(loader: Any) -> int | None:
    """Threads that make a loader's samples; 0 where none do, None where it will find that out."""
    found: int | None = getattr(loader, "_sample_threads", 0)
    return found


def worker_count(loader: Any) -> int:
    """The workers of a loader, threads or processes."""
    return int(threads_of(loader) or loader.num_workers)


def start_method_of(loader: Any) -> str | None:
    """How its workers are started; None where there are none, or where it is not known yet."""
    threads = threads_of(loader)
    if threads != 0 or not loader.num_workers:
        return _THREADS if threads else None
    context = getattr(loader, "multiprocessing_context", None) or multiprocessing.get_context()
    return str(context.get_start_method())


class Endless:
    """A sampler that begins in its middle and starts again when it is through.

    A drain is never cut short, and it reads other samples than the script does: in an order that
    is the same each time, those from the start on are in the page cache already.
    """

    def __init__(self, sampler: Any, *, start: int) -> None:
        self._sampler = sampler
        self._start = start

    def skip(self, count: int) -> None:
        """Begin so many later."""
        self._start += count

    def __iter__(self) -> Iterator[Any]:
        yield from itertools.islice(iter(self._sampler), self._start, None)
        while True:
            is_empty = True
            for index in self._sampler:
                is_empty = False
                yield index
            if is_empty:
                return

    def __len__(self) -> int:
        return len(self._sampler)


class Drawn(Iterator[Any]):
    """What a sampler gives, drawn by whoever takes batches and not by the threads that make them.

    Those would ask at any moment, also when the script's random numbers are its own again.
    """

    def __init__(self, sampler: Any) -> None:
        self._source = iter(sampler)
        self._ready: deque[Any] = deque()

    def draw(self, count: int) -> None:
        """Let the threads have so many more."""
        self._ready.extend(itertools.islice(self._source, count))

    def __next__(self) -> Any:
        if not self._ready:
            raise StopIteration
        return self._ready.popleft()


def _shared_copy(leaf: Any) -> Any:
    """A leaf as collation leaves it in a worker: tensors written once, into shared memory."""
    if not hasattr(leaf, "_typed_storage"):
        return copy_leaf(leaf)
    storage = leaf._typed_storage()._new_shared(leaf.numel(), device=leaf.device)
    return leaf.new(storage).resize_(*leaf.size()).copy_(leaf)


class NullBatches:
    """A data set without work: every item is a fresh copy of one ready batch."""

    def __init__(self, batch: Any, *, is_shared: bool = True) -> None:
        """`is_shared`: copied into the memory in which processes hand batches over."""
        self._batch = batch
        self._copy = _shared_copy if is_shared else copy_leaf

    def __len__(self) -> int:
        return 1 << 40

    def __getitem__(self, index: int) -> Any:
        return rebuild(self._batch, self._copy)


def only_one(batches: list[Any]) -> Any:
    """A collate function for a list with one batch."""
    return batches[0]


def pass_through(batch: Any) -> Any:
    """A collate function for what is a batch already."""
    return batch


@contextmanager
def kept_random_state() -> Iterator[None]:
    """Leave the script's random numbers where they are."""
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    state = random.getstate()
    torch_state = torch.get_rng_state() if torch else None
    numpy_state = numpy.random.get_state() if numpy else None
    try:
        yield
    finally:
        random.setstate(state)
        if torch:
            torch.set_rng_state(torch_state)
        if numpy:
            numpy.random.set_state(numpy_state)


class SideLoader:
    """One loader with a worker count of its own, and its iterator."""

    def __init__(
        self,
        loader: Any,
        session: Session,
        *,
        workers: int,
        start: int = 0,
        duty: str = "",
        asked: int | None = None,
        beside: Sequence[SideLoader] = (),
        in_line: bool = False,
        verdicts: dict[int, Any] | None = None,
    ) -> None:
        """`duty` and `asked`: see `WorkerStart`. `in_line`: no workers of any kind.

        `verdicts`: what loaders that find out how they make samples have found out, by their ids.
        Each of `beside` gives a batch for every batch of this one, before it.
        """
        self.workers = workers
        self._beside = beside
        self._opened_s: float | None = None
        self.start_s: float | None = None  # from the start of the workers to the first batch
        self.taken = 0
        self.is_empty = True  # nothing lies ready in the queue
        self._depth = workers * int(loader.prefetch_factor or 2)
        starter = WorkerStart(
            loader.worker_init_fn,
            session.folder,
            duty=duty,
            asked=workers if asked is None else asked,
        )
        self._loader = self._twin(loader, starter, workers, start, verdicts)
        self._in_line = in_line
        self._order: Any = None  # the sampler, behind those that are drawn from it
        self._drawn: Drawn | None = None
        self._iterator: Any = None

    @staticmethod
    def _twin(
        loader: Any,
        starter: WorkerStart,
        workers: int,
        start: int,
        verdicts: dict[int, Any] | None,
    ) -> Any:
        """A shallow copy with another worker count and samplers that do not end."""
        twin = copy.copy(loader)
        changes: dict[str, Any] = {
            "num_workers": workers,
            "prefetch_factor": (loader.prefetch_factor or 2) if workers else None,
            "persistent_workers": False,
            "timeout": loader.timeout if workers else 0,
            "_iterator": None,
            "worker_init_fn": starter,
        }
        if hasattr(loader, "_verdict_with"):  # a stoker.DataLoader
            verdict = loader._verdict_with(workers)
            if verdicts is not None and workers >= 2:
                # Found out once for all numbers: it takes some batches, and is to be the same.
                verdict = verdicts.setdefault(id(loader), verdict)
            changes["_verdict"] = verdict
        if not workers:
            changes["_DataLoader__multiprocessing_context"] = None
        if loader._dataset_kind == 0:
            if loader.batch_sampler is not None:
                changes["batch_sampler"] = Endless(loader.batch_sampler, start=start)
            else:
                changes["sampler"] = Endless(loader.sampler, start=start)
        for name, value in changes.items():
            object.__setattr__(twin, name, value)
        return twin

    def lying_ready(self) -> int:
        """Batches to skip now: a whole queue, or the first round of workers that begin anew."""
        skip = max(1, self.workers if self.is_empty else self._depth)
        self.is_empty = False
        return skip

    def settle(self) -> None:
        """Let a loader that finds out on its first batches how it makes samples do so."""
        for side in self._beside:
            side.settle()
        if self._in_line or threads_of(self._loader) is not None:
            return
        finding = self._loader._get_iterator()
        while threads_of(self._loader) is None:
            next(finding)
            self._loader.batch_sampler.skip(1)

    @property
    def is_threaded(self) -> bool:
        """True where threads of this process make its samples."""
        return not self._in_line and bool(threads_of(self._loader))

    @property
    def start_method(self) -> str | None:
        """How its workers are started."""
        return start_method_of(self._loader) if self.workers else None

    def open(self) -> None:
        """Start the iterator and its workers, unless they are there."""
        for side in self._beside:
            side.open()
        if self._iterator is not None:
            return
        if self._opened_s is None:
            self._opened_s = clocks.wall_s()
        with warnings.catch_warnings():
            # Other worker counts than the script's: torch's advice about them is not for the user.
            warnings.simplefilter("ignore")
            if self._in_line:
                torchs = sys.modules["torch.utils.data.dataloader"].DataLoader
                self._iterator = torchs._get_iterator(self._loader)
                return
            if self.is_threaded:
                if self._order is None:
                    self._order = self._loader.batch_sampler
                self._drawn = Drawn(self._order)
                # One thread makes batches ahead also where no worker is asked for.
                ahead = worker_count(self._loader) * int(self._loader.prefetch_factor or 2)
                self._drawn.draw(ahead + 1)
                object.__setattr__(self._loader, "batch_sampler", self._drawn)
            self._iterator = self._loader._get_iterator()

    def take(self) -> Any:
        """The next batch; an iterable data set that ends is begun anew."""
        for side in self._beside:
            side.take()
        self.taken += 1
        if self._drawn is not None:
            self._drawn.draw(1)
        try:
            batch = next(self._iterator)
            if self.start_s is None and self._opened_s is not None:
                self.start_s = clocks.wall_s() - self._opened_s
            return batch
        except StopIteration:
            self._iterator = None
            self.open()
            try:
                return next(self._iterator)
            except StopIteration:
                raise RuntimeError("the data set gives no batch when iterated again") from None

    def begin_epoch(self, batches: int) -> None:
        """Its samplers do not end: it goes on. A `offers.Variant`."""

    @property
    def iterator(self) -> Any:
        """The library's own; None before it is opened."""
        return self._iterator

    @property
    def pids(self) -> list[int]:
        """Its worker processes, and those of the loaders that go along."""
        own = [worker.pid for worker in getattr(self._iterator, "_workers", [])]
        return own + [pid for side in self._beside for pid in side.pids]

    @property
    def thread_ids(self) -> list[int]:
        """Its workers that are threads of this process, and those of the loaders that go along."""
        own = list(getattr(self._iterator, "thread_ids", []))
        return own + [thread for side in self._beside for thread in side.thread_ids]

    def close(self) -> None:
        """End the workers."""
        for side in self._beside:
            side.close()
        shutdown = getattr(self._iterator, "_shutdown_workers", None)
        if shutdown is not None:
            shutdown()
        self._iterator = None


class TicketDrainer:
    """Takes one batch for each ticket in a thread of its own; late tickets are kept."""

    def __init__(self, side: Side) -> None:
        self._side = side
        self._tickets = threading.Semaphore(0)
        self._is_over = False
        self._taken: list[float] = []
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="stoker-drainer", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while True:
                self._tickets.acquire()
                if self._is_over:
                    return
                self._side.take()
                self._taken.append(clocks.wall_s())
        except Exception as error:  # noqa: BLE001 - told by stop(); the script must run on
            self._failure = error

    def ticket(self) -> None:
        """One more batch may be taken."""
        self._tickets.release()

    def stop(self) -> list[float]:
        """End; the periods between batches taken. Raises what the loader raised."""
        self._is_over = True
        # Tickets left over: the loader was the slower one, and nothing lies ready in its queue.
        self._side.is_empty = self._tickets.acquire(blocking=False)
        self._tickets.release()
        self._thread.join()
        if self._failure is not None:
            raise self._failure
        return [after - before for before, after in itertools.pairwise(self._taken)]
