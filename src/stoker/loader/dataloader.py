"""`stoker.DataLoader`: torch's DataLoader with threads where they do, processes where they don't.

A real subclass, because training libraries look for one: one of two places where inheriting is
the interface. Everything that is not about how samples are made is torch's own.
"""

from __future__ import annotations

import copy
import itertools
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch.utils.data import IterableDataset

from stoker.errors import LoaderError
from stoker.loader.activity import Activity
from stoker.loader.arguments import check_arguments, check_mode, gives_samples
from stoker.loader.endings import when_gone
from stoker.loader.engine import Engine, Fill
from stoker.loader.gil import Verdict
from stoker.loader.objects import ITEM, KEY, ObjectSlots
from stoker.loader.order import Indices
from stoker.loader.pace import Limits, Pace
from stoker.loader.processes.iterators import Processes, desk_of, is_ours, rest_of
from stoker.loader.processes.passes import Pass
from stoker.loader.processes.ways import Ways
from stoker.loader.slots import Fields
from stoker.loader.whole import is_whole

Mode = Literal["auto", "threads", "processes"]

_log = logging.getLogger("stoker.loader")
# What torch makes ahead for each worker when nothing is said.
_PREFETCH_FACTOR = 2
# A data set that waits for ever is torch's default too; this only names who does.
_WATCHDOG_S = 600.0
# Two threads make two samples in the time of one, and three in that of two: with four or more the
# ratio says something, whatever the size of a batch.
_SAMPLES_A_TURN = 4
# What was said aloud: loaders may be made anew each epoch, and say the same again.
_said: set[tuple[str, bool | None]] = set()
_ONE_THREAD = "; only with 2 or more is it found out whether threads help this data set"


class DataLoader(torch.utils.data.DataLoader):  # type: ignore[misc, unused-ignore]
    """In place of `torch.utils.data.DataLoader`, with the same arguments.

        loader = stoker.DataLoader(dataset, batch_size=64, shuffle=True, num_workers=4)

    Samples are made by `num_workers` threads (one for 0), each sample by whichever is free, so that
    a slow one does not hold the others; batches come in the sampler's order. The first batches show
    whether the data set's work lets go of the GIL; if it does not, worker processes make the rest.
    `loader.verdict` says which and why, and once so does the logger "stoker.loader": on stderr,
    where the program sets up no logging.

    Worker processes write samples into the batch itself, in memory that they share with this one
    and that is in no folder. They are seeded as torch's own are. Where the first batches draw from
    a global random generator or ask `get_worker_info()`, all go to workers as torch sends them, and
    are the batches that those make; otherwise each sample is whoever's is free, and with a
    `collate_fn` of your own each batch. So what a data set draws from generators of its own, keeps
    from one sample to the next, or begins to draw only later, may be another than torch's.

    mode: "auto", or "threads" or "processes" to decide it. Threads share the data set: one with an
    open file that it seeks in, or that draws from a global random generator in a fixed order,
    needs "processes". Iterable data sets, `batch_size=None`, those with `__getitems__` alone, a
    `worker_init_fn` and, in mode "auto" with workers, `in_order=False` get them anyway; torch's own
    are those of the first two and the last. With `num_workers=0` there are none, as with torch:
    "processes" makes samples in the loop itself then.

    timeout: seconds without any progress before it is an error; 600 where it is 0.

    Raises InputError when it is made, for what no pass could begin with, and what torch raises
    then; what the data set raises, in the loop, where its batch would be, with stage and sample
    as notes, and the worker's traceback; LoaderError names a sample that hangs, and a worker that
    died with the sample it was at.
    """

    def __init__(self, dataset: Any, *arguments: Any, mode: Mode = "auto", **settings: Any) -> None:
        check_mode(mode)
        super().__init__(dataset, *arguments, **settings)
        self._no_threads = _no_threads(self, mode)
        self._mode: Mode = "processes" if self._no_threads else mode
        check_arguments(self, has_threads=self._mode != "processes")
        self._verdict = Verdict(len(os.sched_getaffinity(0)))
        self._ways = Ways(self.num_workers)
        if self._mode == "threads":
            self._verdict.stays = True

    def __repr__(self) -> str:
        return (
            f"stoker.DataLoader({type(self.dataset).__name__}, batch_size={self.batch_size}, "
            f"num_workers={self.num_workers}; {self.verdict})"
        )

    @property
    def verdict(self) -> str:
        """How samples are made, and why; or that it is not known yet."""
        if self._sample_threads == 0:
            if self.num_workers == 0:
                return "no worker: samples are made in the loop itself, as num_workers=0"
            if self._mode == "auto":
                return self._verdict.sentence
            how = self._ways.sentence if is_ours(self) else "torch's own"
            return f"processes: {self._no_threads or 'as it was asked for'}; {how}"
        if self.num_workers < 2:
            why = "" if self._verdict.stays else _ONE_THREAD
            return f"threads: one, as num_workers={self.num_workers}{why}"
        if self._mode == "threads":
            return "threads: as it was asked for"
        return self._verdict.sentence or "not known yet: the first batches of a pass show it"

    @property
    def _sample_threads(self) -> int | None:
        """Threads that make the samples; None while it is not known.

        0 where processes do, also where there are none: with num_workers=0 torch makes the batches
        in the loop itself then.
        """
        if self._mode == "processes" or self._verdict.stays is False:
            return 0
        is_known = self._verdict.stays or self.num_workers < 2
        return max(1, self.num_workers) if is_known else None

    def _verdict_with(self, workers: int) -> Verdict:
        """That of a copy with so many workers, which finds out for itself what this could not."""
        is_known = self._mode != "auto" or min(workers, self.num_workers) >= 2
        return copy.copy(self._verdict) if is_known else Verdict(self._verdict.cores)

    def __iter__(self) -> Iterator[Any]:
        if self._sample_threads == 0:
            by_processes: Iterator[Any] = super().__iter__()  # asks for `_get_iterator`
            return by_processes
        threaded: Iterator[Any] = self._get_iterator()
        return threaded

    def _get_iterator(self) -> Any:
        """By torch's name: whoever makes a loader like this one, to follow it, calls it too."""
        threads = self._sample_threads
        if threads == 0:
            return self._process_iterator()
        batches = iter(self.batch_sampler)
        # torch draws a seed for its workers here, and the sampler its own at the first batch: both
        # now, in this thread, so that what the caller draws next is what it would be with torch.
        seed = int(torch.empty((), dtype=torch.int64).random_(generator=self.generator))
        batches = itertools.chain(list(itertools.islice(batches, 1)), batches)
        if threads is None:
            return _FindingOut(self, self._verdict, self._ways, batches, seed)
        return _Threaded(self, batches, threads)

    def _process_iterator(self) -> Any:
        if is_ours(self):
            self.check_worker_number_rationality()
            if self._ways.workers != self.num_workers:  # a copy that was changed
                self._ways = Ways(self.num_workers)
            return Processes(self, self._ways)
        return super()._get_iterator()


class _Turn(NamedTuple):
    """Batches that hold `least` samples or more, made by so many threads.

    `note` is given the seconds that a sample took.
    """

    threads: int
    least: int
    note: Callable[[float], None]


class _FindingOut:
    """The first epoch: some samples by one thread, some by two, and the rest as that says.

    The very first batch opens files and imports what it needs, and would count against whoever
    makes it. Batches of a turn are handed out when all are made: the loop's own work would count.
    """

    def __init__(
        self, loader: DataLoader, verdict: Verdict, ways: Ways, batches: Iterator[Any], seed: int
    ) -> None:
        self._loader = loader
        self._verdict = verdict
        self._ways = ways
        self._batches = batches
        self._seed = seed
        pair = (
            _Turn(1, _SAMPLES_A_TURN, verdict.alone),
            _Turn(2, _SAMPLES_A_TURN, verdict.together),
        )
        first = (_Turn(2, 1, lambda _: None),)
        self._turns = itertools.chain(first, itertools.cycle(pair))
        self._made: deque[Any] = deque()  # batches of the last turn
        self._rest: Iterator[Any] | None = None  # what comes after them, once it is known
        self._pass: Pass | None = None  # where processes do

    def __iter__(self) -> _FindingOut:
        return self

    def __next__(self) -> Any:
        if not self._made and self._rest is None:
            if self._verdict.stays is None:
                self._try()
            else:
                _say(self._loader, self._verdict)
                self._rest = self._settled()
        if self._made:
            return self._made.popleft()
        assert self._rest is not None
        return next(self._rest)

    @property
    def is_at_rest(self) -> bool:
        """True while no thread has anything to do."""
        if self._pass is not None:
            return bool(self._loader.pin_memory) or self._pass.is_at_rest
        return bool(getattr(self._rest, "is_at_rest", True))

    @property
    def _workers(self) -> list[Any]:
        """By torch's name, as those of `Processes`."""
        return self._pass.desk.pool.children if self._pass is not None else []

    def _try(self) -> None:
        """Another turn."""
        turn = next(self._turns)
        sizes: list[int] = []
        batches = _with_samples(self._batches, turn.least, sizes)
        began = time.perf_counter()
        try:
            self._made.extend(_Threaded(self._loader, batches, turn.threads))
        except Exception as error:  # noqa: BLE001 - after the batches before it
            self._rest = _raising(error)
        except BaseException:
            self._made.clear()
            self._rest = iter(())
            raise
        else:
            if sum(sizes) >= turn.least:
                turn.note((time.perf_counter() - began) / sum(sizes))
            else:
                self._rest = iter(())

    def _settled(self) -> Iterator[Any]:
        if self._verdict.stays:
            threads: int = self._loader.num_workers
            return _Threaded(self._loader, self._batches, threads)
        self._pass = Pass(desk_of(self._loader, self._seed, self._ways), self._batches)
        return rest_of(self._loader, self._pass)


def _with_samples(batches: Iterator[Any], least: int, sizes: list[int]) -> Iterator[Any]:
    """Batches until they hold so many samples, fewer at the end; `sizes` is told how many each."""
    while sum(sizes) < least and (given := next(batches, None)) is not None:
        batch = list(given)
        sizes.append(len(batch))
        yield batch


def _raising(error: Exception) -> Iterator[Any]:
    """No batch, but this."""
    yield from ()
    raise error


def _say(loader: DataLoader, verdict: Verdict) -> None:
    """Say aloud who makes the samples from now on; once for a kind of data set."""
    kind = type(loader.dataset).__qualname__
    if (kind, verdict.stays) not in _said:
        _said.add((kind, verdict.stays))
        _log.warning("stoker.DataLoader of %s: %s", kind, verdict.sentence)


def _no_threads(loader: DataLoader, mode: Mode) -> str:
    """Why threads don't make a loader's batches; empty where they may."""
    if isinstance(loader.dataset, IterableDataset):
        return "a stream divides itself among them by get_worker_info(), or each gives all of it"
    if loader.batch_sampler is None:
        return "needed for batch_size=None"
    if not gives_samples(loader.dataset):
        return "the data set gives whole batches only"
    if loader.worker_init_fn is not None:
        return "needed for worker_init_fn"
    # Threads deliver in order.
    is_loose = mode == "auto" and loader.num_workers > 0 and not getattr(loader, "in_order", True)
    return "needed for in_order=False" if is_loose else ""


class _Threaded:
    """One pass by threads."""

    def __init__(self, loader: DataLoader, batches: Iterator[Any], threads: int) -> None:
        ahead = (loader.prefetch_factor or _PREFETCH_FACTOR) * threads
        # The indices of a batch may be anything that the data set takes, so they go by number.
        keys: dict[int, Any] = {}
        self._engine = Engine(
            _numbered(batches, keys),
            _maker(loader.dataset, keys),
            ObjectSlots(),
            pace=Pace(Limits(threads, threads, ahead, ahead)),
            chunk=1,
            watchdog_s=min(loader.timeout or _WATCHDOG_S, threading.TIMEOUT_MAX),
            complete=_collated(loader.collate_fn, loader.pin_memory),
        )
        when_gone(self, self._engine.end)

    def __iter__(self) -> _Threaded:
        return self

    @property
    def is_at_rest(self) -> bool:
        """True while no thread has anything to do."""
        return self._engine.is_at_rest

    @property
    def thread_ids(self) -> list[int]:
        """The threads, as the kernel numbers them."""
        return self._engine.thread_ids

    def _shutdown_workers(self) -> None:
        """By torch's name: whoever wants the workers gone calls this, also within a pass."""
        self._engine.close()

    def __next__(self) -> Any:
        try:
            return next(self._engine).made
        except LoaderError as error:
            self._engine.close()
            # A data set's StopIteration would end the loop as if all was well (PEP 479).
            if error.__cause__ is None or isinstance(error.__cause__, StopIteration):
                raise
            # Who replaces torch's loader may catch what the data set raises.
            cause = error.__cause__
            for note in error.__notes__:
                cause.add_note(note)
            raise cause from None


def _numbered(batches: Iterator[Any], keys: dict[int, Any]) -> Iterator[Indices]:
    """Batches of numbers, and under each number what the sampler gave."""
    first = 0
    for given in batches:
        batch = list(given)  # torch goes through it too, whatever it is
        numbers = np.arange(first, first + len(batch))
        keys.update(zip(numbers.tolist(), batch, strict=True))
        first += len(batch)
        yield numbers


def _maker(dataset: Any, keys: dict[int, Any]) -> Fill:
    def make(numbers: Indices, out: Fields, activity: Activity) -> None:
        for row, number in enumerate(numbers.tolist()):
            key = out[KEY][row] = keys.pop(number)
            _enter(activity, "dataset", key)
            out[ITEM][row] = dataset[key]

    return make


def _enter(activity: Activity, stage: str, key: Any) -> None:
    """Note a stage with the sample's key in the data set, which need be no number."""
    is_number = is_whole(key, 0)
    activity.enter(stage, int(key) if is_number else -1, "" if is_number else f"key {key!r:.80}")


def _collated(
    collate: Callable[[list[Any]], Any], is_pinned: bool
) -> Callable[[Fields, Activity], Any]:
    def complete(fields: Fields, activity: Activity) -> Any:
        first = fields[KEY][:1]
        if len(first):
            _enter(activity, "collate", first[0])
        else:
            activity.enter("collate")
        batch = collate(list(fields[ITEM]))
        if is_pinned and torch.cuda.is_available():
            return torch.utils.data._utils.pin_memory.pin_memory(batch)
        return batch

    return complete
