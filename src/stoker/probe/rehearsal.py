"""Side loaders: made from the script's own loader, drained beside it, never seen by the script.

The legs L, N and C drain these, so that the script's own iterator keeps its place in the epoch.
Torch objects are used as the hooks hand them over; nothing is imported but the standard library.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from stoker import clocks
from stoker.probe import offers, stages, twin
from stoker.probe.draining import drained
from stoker.probe.gauges import memory_of
from stoker.probe.offers import Offers, Variant
from stoker.probe.process import process_times
from stoker.probe.session import Session
from stoker.probe.side_loader import (
    NullBatches,
    SideLoader,
    TicketDrainer,
    kept_random_state,
    only_one,
    pass_through,
    threads_of,
    worker_count,
)
from stoker.probe.snapshot import size_of
from stoker.probe.stage_lines import opened_files, stage_lines, waiting_share
from stoker.probe.stage_twin import examine_stages
from stoker.probe.storage.leg import Plan, measure_reads
from stoker.split import find_cut, packed_bytes

# Batches of the sampler's order between what the script reads and what each side loader reads.
# Leaping costs a microsecond a batch; the script will not get so far while it is examined, unless
# its batches are so quick that they are in memory anyway.
_LEAP = 5_000
_READS_S = 3.0  # for leg Q: cold, warm, and up to eight readers
_CUT_S = 0.5  # for where the transforms can be cut
_SIZES_S = 0.2  # for how large samples are there
_STAGES_S = 2.0  # for which stages give the same each time
_AHEAD = 2  # batches a worker is ahead of what was taken

_DUTIES = {"S": "stages", "T": "one-thread"}


def _threads(pids: list[int]) -> int:
    """Threads of all these processes together."""
    return sum(times.threads for pid in pids if (times := process_times(pid)) is not None)


class Rehearsal:
    """All side loaders of one training loader."""

    def __init__(
        self,
        loader: Any,
        session: Session,
        sample: Any,
        *,
        served: int,
        beside: Sequence[Any] = (),
    ) -> None:
        """`sample` is a batch of the loader, `served` how many it has given the script so far.

        `beside` are the loaders that give a batch for every step, too.
        """
        self._loader = loader
        self._workers = worker_count(loader)
        self._verdicts: dict[int, Any] = {}
        self._beside = beside
        self._position = served + _LEAP
        self._session = session
        self._sample = sample
        self._own: SideLoader | None = None
        self._offers: Offers | None = None
        self._trial: Variant | None = None
        self._trial_name = ""
        self.threads = 0
        self.start_each_s: float | None = None

    def drain(self, what: str, workers: int, *, batches: int, limit_s: float) -> list[float]:
        """Take batches as fast as they come and write down what it took."""
        if threads_of(self._loader):
            if what == "T":
                return []  # native threads are kept to one in a process, not in a thread
            if what == "S":
                if workers != self._workers:
                    return []  # their number makes no difference to what follows
                workers = 0  # sample after sample, here: threads would wait for one another
        with kept_random_state(), self._stages_here(what, workers):
            side, is_kept = self._side(what, workers)
            if what == "L" and not workers and side.is_threaded:
                return []  # one thread is the least that it has
            try:
                found = drained(side, batches=batches, limit_s=limit_s)
                self._note_start(side)
                if what == "L" and workers == self._workers:
                    self.threads = _threads(side.pids)
            finally:
                if not is_kept:
                    side.close()
                    self._position += side.taken + workers * _AHEAD
        self._session.write(
            "drain",
            what=what,
            workers=workers,
            threads=self.threads,
            start_method=side.start_method,
            **found.fields(),
        )
        return found.periods

    def start_drainer(self) -> TicketDrainer:
        """Begin to take a batch for every ticket from the loader as the script made it."""
        with kept_random_state():
            side, _ = self._side("L", self._workers)
            side.open()
            # The start of workers and what lies ready are over before the first step beside it.
            for _ in range(side.lying_ready()):
                side.take()
            self._note_start(side)
        return TicketDrainer(side)

    def offers(self) -> Offers | None:
        """What may be tried in place of this loader; None where nothing was handed down."""
        make = offers.maker()
        if self._offers is None and make is not None:
            self._offers = make(self._loader, size_of(self._sample)[0])
        return self._offers

    def begin_trial(self, workers: int, variant: str) -> None:
        """Start a loader with that many workers, or the one offered under that name."""
        if self._trial is not None:
            return
        with kept_random_state():
            if variant and self._offers is not None:
                self._trial = self._offers.open(variant, start=self._start(self._loader))
                self._position += _LEAP
            else:
                self._trial, _ = self._side("V", workers)
            self._trial_name = variant
            self._trial.open()

    def on_trial(self, anew: int | None) -> Any:
        """The next batch of the loader on trial, for the script itself."""
        if self._trial is None:
            raise RuntimeError("nothing is on trial")
        if anew:
            self._trial.begin_epoch(anew)
        return self._trial.take()

    @property
    def on_trial_now(self) -> Any:
        """The iterator of the loader on trial; None without."""
        return self._trial.iterator if self._trial is not None else None

    def end_trial(self) -> None:
        """End the loader on trial, and note what memory it took."""
        trial, self._trial = self._trial, None
        if trial is None:
            return
        try:
            if self._trial_name:
                self._session.write("tried", name=self._trial_name, **memory_of(trial.pids))
        finally:
            trial.close()

    @contextmanager
    def _stages_here(self, what: str, workers: int) -> Iterator[None]:
        """Without workers the stages are those of this process."""
        if what != "S" or workers:
            yield
            return
        restore = stages.install(self._loader.dataset, self._write_stages, where="main")
        try:
            yield
        finally:
            restore()

    def _write_stages(self, record: dict[str, Any]) -> None:
        # Threads are the workers of a loader that has them, whichever thread was watched.
        where, count = ("worker", self._workers) if threads_of(self._loader) else ("main", 0)
        self._session.write("stages", **{**record, "where": where, "workers": count})

    def once(self, limit_s: float) -> None:
        """What is learned from single samples, in this process: twin runs and the collation.

        Comes last: files that the data set opens lazily are opened here, and no worker may be
        forked after that.
        """
        dataset, found = self._loader.dataset, None
        if self._loader._dataset_kind == 0 and hasattr(dataset, "__getitem__"):
            with kept_random_state():
                indices = self._some_indices()
                found = twin.examine(dataset, indices, 0.5 * limit_s) if indices else None
                if found is not None:
                    told = self._where_cut(dataset, indices, found["random_op"], limit_s)
                    # A data set that keeps samples makes only those that it was not asked for.
                    index = indices[-1 if found["is_kept"] else 0]
                    self._session.write(
                        "twin", **found, **told, **self._collation(dataset, index, len(indices))
                    )
        self._read_files(min(_READS_S, 0.4 * limit_s))
        if found is not None:
            with kept_random_state():
                repeats = examine_stages(dataset, indices, min(_STAGES_S, 0.3 * limit_s))
            self._session.write("repeats", stages=repeats)

    @staticmethod
    def _where_cut(
        dataset: Any, indices: list[Any], random_op: str | None, limit_s: float
    ) -> dict[str, Any]:
        """Where the transforms can be cut, and how large a sample is there.

        Without a cut a pack holds whole samples, where these are the same every time.
        """
        cut = find_cut(dataset, limit_s=min(_CUT_S, 0.2 * limit_s))
        is_kept = cut is not None or random_op is None
        size = packed_bytes(dataset, cut, indices, limit_s=_SIZES_S) if is_kept else None
        return {"cut": str(cut) if cut is not None else None, "packed_bytes": size}

    def _read_files(self, seconds: float) -> None:
        """Leg Q: raw reads of the files from which the samples of leg S came."""
        lines = [
            line
            for line in stage_lines(self._session.folder, os.getpid())
            if line["workers"] == self._workers
        ]
        files = opened_files(lines)
        if files:
            found = measure_reads(
                files, plan=Plan(seconds=seconds), waiting_share=waiting_share(lines)
            )
            self._session.write("reads", **found)

    def _some_indices(self) -> list[Any]:
        """The first indices that the sampler gives, of one batch."""
        for drawn in self._loader._index_sampler:
            is_batch = self._loader.batch_sampler is not None and isinstance(drawn, (list, tuple))
            return list(drawn) if is_batch else [drawn]  # without batches it is a key as it stands
        return []

    def _collation(self, dataset: Any, index: Any, count: int) -> dict[str, float | None]:
        """Seconds of one plain sample, and of putting a batch together, without tracing."""
        began = clocks.wall_s()
        sample = dataset[index]
        sample_s = clocks.wall_s() - began
        if self._loader.batch_sampler is None:
            return {"plain_s": sample_s, "collate_s": None}
        samples = [sample] * count
        self._loader.collate_fn(samples)
        began = clocks.wall_s()
        self._loader.collate_fn(samples)
        return {"plain_s": sample_s, "collate_s": clocks.wall_s() - began}

    def close(self) -> None:
        """End all workers."""
        self.end_trial()
        if self._own is not None:
            self._own.close()
            self._own = None

    def _note_start(self, side: SideLoader) -> None:
        """Starting workers is work of the cores: twice as many take twice as long."""
        if side.workers and side.start_s is not None:
            self.start_each_s = side.start_s / side.workers

    def _side(self, what: str, workers: int) -> tuple[SideLoader, bool]:
        """The side loader for a drain, and whether it is kept for the next one."""
        is_own = what == "L" and workers == self._workers
        if is_own and self._own is not None:
            return self._own, True
        if what == "N":
            return SideLoader(self._null_loader(), self._session, workers=workers), False
        side = SideLoader(
            self._loader,
            self._session,
            workers=workers,
            start=self._start(self._loader),
            duty="batches" if is_own and not self._beside else _DUTIES.get(what, ""),
            beside=self._sides_beside(what, workers),
            in_line=what == "S" and not workers and bool(threads_of(self._loader)),
            verdicts=self._verdicts,
        )
        side.settle()
        if not is_own:
            return side, False
        # Kept for all its drains: it gets a stretch of the order that no other one will reach.
        self._position += _LEAP
        self._own = side
        return side, True

    def _sides_beside(self, what: str, workers: int) -> list[SideLoader]:
        """Those that go along, with as many workers; on trial they are the script's own."""
        is_own = workers == self._workers
        return [
            SideLoader(
                loader,
                self._session,
                workers=worker_count(loader) if is_own else workers,
                asked=workers,
                start=self._start(loader),
                duty=_DUTIES.get(what, ""),
                in_line=what == "S" and not workers and bool(threads_of(loader)),
                verdicts=self._verdicts,
            )
            for loader in (self._beside if what != "V" else ())
        ]

    def _start(self, loader: Any) -> int:
        """Where the next side loader begins in the sampler's order."""
        try:
            length = len(loader._index_sampler)
        except TypeError:
            return 0  # nobody knows how far it goes
        return self._position % length if length else 0

    def _null_loader(self) -> Any:
        """A loader of the same kind over `NullBatches`."""
        if threads_of(self._loader):
            return self._null_threads()
        module = sys.modules["torch.utils.data.dataloader"]
        make: Callable[..., Any] = module.DataLoader
        workers = self._loader.num_workers
        return make(
            NullBatches(self._sample),
            batch_size=None,
            num_workers=workers,
            collate_fn=pass_through,
            pin_memory=self._loader.pin_memory,
            prefetch_factor=self._loader.prefetch_factor if workers else None,
            multiprocessing_context=self._loader.multiprocessing_context if workers else None,
        )

    def _null_threads(self) -> Any:
        """The same for samples that are made by threads, which make whole batches of samples."""
        module = sys.modules["stoker.loader.dataloader"]
        make: Callable[..., Any] = module.DataLoader
        return make(
            NullBatches(self._sample, is_shared=False),
            batch_size=1,
            num_workers=self._workers,
            collate_fn=only_one,
            pin_memory=self._loader.pin_memory,
            prefetch_factor=self._loader.prefetch_factor,
            mode="threads",
        )
