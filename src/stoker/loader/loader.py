"""`stoker.Loader`: a pack or a folder of pictures as batches, exact and resumable.

What it promises. The order is a function of data, seed and epoch. A state counts the batches that
the loop was given, not those made ahead. A batch stays as it is for as long as it is referenced.
"""

from __future__ import annotations

import importlib
import itertools
import math
import operator
import os
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from stoker.loader import order, slots
from stoker.loader.access import Reading
from stoker.loader.activity import Activity
from stoker.loader.augmenting import Augment, augmented
from stoker.loader.batch import presenter
from stoker.loader.checks import check
from stoker.loader.contents import Wanted, contents_of
from stoker.loader.crops import Crop, Size
from stoker.loader.device import CudaLane, bytes_beside, lane_to, pinned_bytes
from stoker.loader.endings import when_gone
from stoker.loader.engine import Engine, Room
from stoker.loader.feed import FeedIterator
from stoker.loader.filling import chunk_of, filler, pace_of
from stoker.loader.folder import Folder
from stoker.loader.jpeg import DECODERS, Decoder
from stoker.loader.order import Mode, Share
from stoker.loader.pinned import PinnedMemory
from stoker.loader.place import Place, place_of
from stoker.loader.plans import Known, Plan, of_sampler
from stoker.loader.sending import Sending
from stoker.loader.settings import check_gives, crop_of, fields_of
from stoker.loader.slots import Field
from stoker.loader.stats import LoaderStats, Measured
from stoker.loader.whole import is_positive, is_whole
from stoker.pack import Pack

STATE = "stoker.loader/1"
_MOST_DEPTH = 16
_MEMORY_BYTES = 2**31
_MIXING_BATCHES = 100
# On the device ahead of the loop.
_DEVICE_DEPTH = 2
# An epoch that is closed waits so long for the thread that augments: it may hang.
_PATIENCE_S = 2.0


class Loader:
    """Batches of a pack or a folder of pictures, made ahead by threads.

        loader = stoker.Loader("packed/", 256, shuffle=True, crop=224)
        for batch in loader:
            step(batch["image"], batch["label"])

    A batch is a mapping (`batch.image` works too) with the fields of the source and "index". Arrays
    of pictures are tensors (N, C, H, W) in channels_last memory; `array="numpy"` gives arrays as
    they are stored, (N, H, W, C). Each `iter()` is one epoch, and the next one follows by itself;
    `set_epoch` chooses.

    source: the folder of a pack or of pictures (one subfolder a class), or an open Pack.
    batch_size: samples of one rank's batch; the last one may be smaller, unless `drop_last`.
    shuffle: True or "global" (any sample anywhere), "window" (mixed near each other, for disks), or
        False. `seed` chooses among the orders.
    crop: a number or (height, width) for a random crop, or a crop of `stoker.augment`. Without one
        the samples, which have to be of one size, are taken whole. Which part is a function of
        (seed, epoch, index).
    augment: called with (batch, seed=, epoch=), in the background, on the CUDA device if there is
        one, behind the copy: `stoker.augment.imagenet(224)`, or any function. "index" is on the
        host all the same.
    workers: processes that run `augment`, on the host, for a function in Python that would hold
        the loop's GIL; 0: a thread runs it.
    device: as for `stoker.feed`. Two batches at most are on it ahead of the loop.
    rank, world_size: this process's share; all ranks get equally many batches.
    sampler: any iterable of indices, such as a torch Sampler, instead of `shuffle`; it has to
        make the ranks' shares itself. It may be endless. Over a `faces.PackDataset` it counts in
        that one's numbers.
    reuse: hand out memory that the next batch is written to: a batch is valid for one step.
    memory_bytes: for all batches that are not with the loop, on the host, staged for a device and
        on it, before `augment`; 2 GiB.
    threads: a fixed number; otherwise from what is waited for. decoder: "simplejpeg", or "pillow"
    for the very pixels of Pillow. reading: "mmap" or "preadv"; otherwise by what is cached.
    watchdog_s: how long a standstill is borne before it is an error; math.inf: for ever.

    Raises InputError for settings that cannot be, PackError and its kinds for a pack that cannot
    be read. In the loop, LoaderError names the stage and sample that failed or hang.
    """

    def __init__(
        self,
        source: str | os.PathLike[str] | Pack | Folder,
        batch_size: int = 1,
        *,
        shuffle: bool | Mode = False,
        seed: int = 0,
        crop: Size | Crop | None = None,
        augment: Augment | None = None,
        workers: int = 0,
        fields: Sequence[str] | None = None,
        device: Any = None,
        rank: int = 0,
        world_size: int = 1,
        sampler: Iterable[int] | None = None,
        drop_last: bool = False,
        array: Literal["torch", "numpy"] = "torch",
        reuse: bool = False,
        memory_bytes: int = _MEMORY_BYTES,
        threads: int | None = None,
        decoder: Decoder = "simplejpeg",
        reading: Reading | None = None,
        watchdog_s: float = 120.0,
    ) -> None:
        check(is_whole(batch_size, 1), "batch_size", batch_size, "a whole number, 1 or more")
        check(is_whole(world_size, 1), "world_size", world_size, "a whole number, 1 or more")
        is_rank = is_whole(rank, 0) and rank < world_size
        check(is_rank, "rank", rank, f"0 to world_size - 1 = {world_size - 1}")
        is_count = threads is None or is_whole(threads, 1)
        check(is_count, "threads", threads, "None, or a whole number, 1 or more")
        check(is_whole(seed), "seed", seed, "a whole number")
        check(augment is None or callable(augment), "augment", augment, "a function of a batch")
        check(is_whole(workers, 0), "workers", workers, "a whole number, 0 or more")
        check(not workers or augment is not None, "workers", workers, "0 without an augment")
        check(array in ("torch", "numpy"), "array", array, "torch or numpy")
        check(decoder in DECODERS, "decoder", decoder, " or ".join(DECODERS))
        check(reading in (None, "mmap", "preadv"), "reading", reading, "None, mmap or preadv")
        check(is_positive(watchdog_s), "watchdog_s", watchdog_s, "more than 0 seconds")
        is_size = is_positive(memory_bytes) and memory_bytes < math.inf
        check(is_size, "memory_bytes", memory_bytes, "a number of bytes, more than 0")
        is_handed_on = augment is not None or device is not None
        check(not (reuse and is_handed_on), "reuse", reuse, "False with augment or device")
        self._mode: Mode = _mode_of(shuffle)
        is_sampler = sampler is None or hasattr(sampler, "__iter__")
        check(is_sampler, "sampler", sampler, "any iterable of indices")
        check(sampler is None or not shuffle, "shuffle", shuffle, "False beside a sampler")
        wanted = Wanted(fields_of(fields), crop_of(crop), decoder, reading)
        self._contents = contents_of(source, wanted)
        self._source = str(getattr(source, "path", source))
        # Of Python from here on: those of NumPy may be of 8 bits, and products of them no more.
        batch_size = int(batch_size)
        self._share = Share(batch_size, int(rank), int(world_size), drop_last)
        whole = self._share if sampler is None else Share(1)  # what a sampler gives is seen later
        check_gives(len(self._contents.usable), whole)
        self._seed = int(seed)
        self._augment = augment
        self._workers = int(workers)
        self._watchdog_s = min(float(watchdog_s), threading.TIMEOUT_MAX)
        self._augmenters = self._new_augmenters()
        self._sampler = sampler
        self._device = device
        self._lane = lane_to(device)
        is_on_cuda = isinstance(self._lane, CudaLane)
        check(array == "torch" or not is_on_cuda, "array", array, "torch with a CUDA device")
        self._reuse = reuse
        self._present = presenter(array)
        self._layout = (*(c.field for c in self._contents.columns), Field.of("index", (), np.int64))
        block_bytes = slots.slot_bytes(self._layout, batch_size)
        self._allocate: slots.Allocate = slots.host_memory
        if isinstance(self._lane, CudaLane) and not self._workers:  # which have memory of their own
            self._allocate = PinnedMemory(self._lane)
            block_bytes = pinned_bytes(block_bytes)
        one = {"on the host": block_bytes}
        parts = [field.sample_bytes * batch_size for field in self._layout]
        beside = bytes_beside(self._lane, parts, _DEVICE_DEPTH)
        self._depth = slots.depth_within(int(memory_bytes), one, beside, wanted=_MOST_DEPTH)
        self._place = Place()
        self._measured: Measured | None = None
        # Kept over epochs: what was learnt, and memory that the kernel need not clear again.
        self._threads = None if threads is None else int(threads)
        self._pace = pace_of(self._contents, self._threads, self._depth)
        self._paced_for = self._contents.reading
        self._slots: Room | None = None

    def __repr__(self) -> str:
        fields = ", ".join(column.field.name for column in self._contents.columns)
        mode = "sampler" if self._sampler is not None else self._mode
        return (
            f"stoker.Loader({self._source!r}, {len(self._contents.usable):,} samples of {fields}; "
            f"{self._share.batch_size:,} a batch, {mode} order, epoch {self.epoch})"
        )

    def __len__(self) -> int:
        """Batches of a whole epoch."""
        count = len(self._contents.usable)
        if self._sampler is not None:
            count = len(self._sampler)  # type: ignore[arg-type]
        return order.batch_count(count, self._own_share)

    def __iter__(self) -> _Epoch:
        return self._begun()

    def _begun(self) -> _Epoch:
        """A pass. Who follows a Loader stands before `__iter__`; what is part of one calls this."""
        return _Epoch(self, *self._place.begin())

    def __reduce__(self) -> Any:
        raise TypeError(
            "a stoker.Loader cannot be pickled or copied: its threads are of one process\n"
            "looked at: what pickle, copy or a spawned process asked for\n"
            "next: make the Loader in each process; state_dict() can be pickled"
        )

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the labels 0, 1, …; empty when there are none."""
        return self._contents.classes

    @property
    def epoch(self) -> int:
        """The epoch that is running, or comes next."""
        return self._place.epoch

    def set_epoch(self, epoch: int) -> None:
        """Let the next `iter()` be that epoch. A position from `load_state_dict` in it is kept.

        In the loop, another epoch leaves the running pass as it is; the state is then that of the
        beginning of the epoch chosen. Raises InputError for what is no whole number from 0 on.
        """
        check(is_whole(epoch, 0), "epoch", epoch, "a whole number, 0 or more")
        epoch = int(epoch)
        self._place.choose(epoch)
        tell = getattr(self._sampler, "set_epoch", None)
        if tell is not None:
            tell(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Where the loop is: a small dict of plain values.

        `position` counts the samples in batches that the loop was given, over all ranks, so that
        a run may go on with another number of ranks, or another batch size.
        """
        return {
            "schema": STATE,
            "epoch": self._place.epoch,
            "position": self._place.position,
            "seed": self._seed,
            "order": "sampler" if self._sampler is not None else self._mode,
            "samples": len(self._contents.usable),
            "generation": self._contents.generation,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where `state_dict` was taken: the next `iter()` gives the batch after it.

        Raises InputError when the data, the seed or the kind of order is not that of the state, and
        for a state with values that none can have; nothing is loaded then.
        """
        most: int | None = len(self._contents.usable)
        if self._sampler is not None:
            # What only has a length may go on beyond it.
            most = len(self._sampler) if isinstance(self._sampler, Sequence) else None
        self._place.load(*place_of(state, self.state_dict(), most))

    def stats(self) -> LoaderStats:
        """What the running epoch, or else the last one, was like so far. Zeros before the first."""
        if self._measured is None:
            return LoaderStats.nothing(self._contents.reading)
        return self._measured.stats(self._contents.reading)

    def mixing(self) -> float:
        """How mixed the classes of the first 100 batches are: 1.0 as in a random order.

        1.0 where no labels are known.
        """
        labels = self._contents.labels
        if labels is None:
            return 1.0
        batches = itertools.islice(self._plan(self.epoch, 0), _MIXING_BATCHES)
        samples = np.concatenate([np.empty(0, np.int64), *batches])
        return order.mixing(labels, samples, self._share.batch_size)

    def _beside(self, threads: int | None = None, *, epoch: int = 0) -> Loader:
        """A Loader over the same contents, for whoever measures it beside this one's loop.

        It has threads, memory and a way to the device of its own. Raises TypeError for a sampler
        whose entries this one's loop would miss.
        """
        if isinstance(self._sampler, Iterator):
            raise TypeError("a sampler that can be gone through once is its loop's")
        other = object.__new__(type(self))
        vars(other).update(vars(self))
        other._threads = threads or self._threads
        other._pace = pace_of(self._contents, other._threads, self._depth)
        other._augmenters = other._new_augmenters()
        other._lane = lane_to(self._device)
        other._slots = other._measured = None
        other._place = Place(epoch)
        return other

    def _new_augmenters(self) -> Any:
        """Worker processes that augment; None without."""
        if not self._workers:
            return None
        # On first use: it needs torch, and a Loader of NumPy arrays does without.
        module = importlib.import_module("stoker.loader.processes.augmenters")
        return module.Augmenters(self._augment, self._seed, self._workers, self._watchdog_s)

    @property
    def _own_share(self) -> Share:
        """A sampler gives this rank's samples already."""
        if self._sampler is None:
            return self._share
        return self._share._replace(rank=0, world_size=1)

    def _take_slots(self) -> Room:
        """The memory of the last epoch, unless another epoch is using it."""
        kept, self._slots = self._slots, None
        limit = self._depth + slots.LENT
        return kept or slots.Slots(
            self._layout,
            self._share.batch_size,
            limit=limit,
            is_ring=self._reuse,
            allocate=self._allocate,
        )

    def _plan(self, epoch: int, start: int) -> Plan:
        """This rank's batches of an epoch, without the first `start` samples of all ranks."""
        usable = self._contents.usable
        if self._sampler is not None:
            return of_sampler(self._sampler, usable, self._own_share, start)
        samples = usable[order.sequence(len(usable), self._seed, epoch, mode=self._mode)]
        return Known(samples[start:], self._share)

    def _look_again(self) -> None:
        """Read as is best now; threads for another way of reading have to be found anew."""
        if self._contents.access is not None:
            self._contents.access.look_again()
        if self._contents.reading != self._paced_for:
            self._paced_for = self._contents.reading
            self._pace = pace_of(self._contents, self._threads, self._depth)


class _Epoch:
    """One pass over the data."""

    def __init__(self, loader: Loader, epoch: int, start: int) -> None:
        self._loader = loader
        self._epoch = epoch
        self._start = start
        self._given = 0
        self._is_open = True  # neither closed nor failed: its end is that of the epoch
        self._plan = loader._plan(epoch, start)
        loader._look_again()
        augmenters = loader._augmenters
        # Before there are threads: who is forked beside them may find a lock held for ever.
        desk = None if augmenters is None else augmenters.desk()
        engine = Engine(
            self._plan,
            filler(loader._contents, loader._seed, epoch),
            loader._take_slots(),
            pace=loader._pace,
            chunk=chunk_of(loader._contents),
            watchdog_s=loader._watchdog_s,
        )
        when_gone(self, engine.end)
        self._engine = engine
        # Chains of `map` keep no batch that they have handed on; generators would.
        fields = map(operator.attrgetter("fields"), engine)
        self._batches: Iterator[Any] = map(loader._present, fields)
        self._give_back: Callable[[], Any] | None = None  # worker processes that augment
        fed, activity = None, Activity()
        if loader._augment is not None or loader._device is not None:
            ahead, change = self._batches, None
            if augmenters is not None:
                ahead, self._give_back = augmenters.changed(desk, ahead, epoch, self)
            elif loader._augment is not None:
                change = augmented(loader._augment, seed=loader._seed, epoch=epoch)
            self._batches = FeedIterator(
                ahead,
                Sending(loader._lane, change, activity),
                _DEVICE_DEPTH,
                activity=activity,
                watchdog_s=loader._watchdog_s,
            )
            fed = self._batches.tally
        self._mark = loader._place.follow()
        loader._measured = Measured(engine, fed, activity, loader._own_share, self._plan.total)

    def __iter__(self) -> _Epoch:
        return self

    def __next__(self) -> Any:
        loader = self._loader
        try:
            batch = next(self._batches)
        except Exception as ended:
            is_end = self._is_open and isinstance(ended, StopIteration)
            self.close()
            if is_end:
                loader._place.ended(self._mark, self._epoch)
            raise
        self._given += loader._own_share.global_batch
        total = self._plan.total
        is_last = total is not None and self._given >= total
        given = self._given if total is None else min(self._given, total)
        loader._place.given(self._mark, self._start + given, is_last=is_last)
        if is_last and self._give_back is not None:
            self._end_feed()  # a loop that counts does not ask for the end
        return batch

    @property
    def is_at_rest(self) -> bool:
        """True while no thread has anything to do."""
        return self._engine.is_at_rest

    @property
    def thread_ids(self) -> list[int]:
        """The threads that read and decode, as the kernel numbers them."""
        return self._engine.thread_ids

    def close(self) -> None:
        """End the threads. Leaving the loop does so too."""
        self._is_open = False
        self._engine.close()
        self._end_feed()
        # A second call hands nothing back, and the memory of another pass may be kept by then.
        self._loader._slots = self._engine.hand_back() or self._loader._slots

    def _end_feed(self) -> None:
        if isinstance(self._batches, FeedIterator):
            # Workers are given back when nobody is asking them any more; they have their watchdog.
            self._batches.close(None if self._give_back is not None else _PATIENCE_S)
        if self._give_back is not None:
            self._give_back()


def _mode_of(shuffle: Any) -> Mode:
    names: dict[Any, Mode] = {True: "global", False: "sequential"}
    name: Any = names.get(shuffle, shuffle) if isinstance(shuffle, Hashable) else None
    check(name in order.MODES, "shuffle", shuffle, f"True, False, {', '.join(order.MODES)}")
    mode: Mode = name
    return mode
