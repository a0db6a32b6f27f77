"""The batches of an epoch in turn: of the Loader's own order, or of what a sampler gives."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable, Iterator, Sized
from typing import Any, Protocol

import numpy as np

from stoker.errors import InputError
from stoker.loader import order
from stoker.loader.faces import PackDataset
from stoker.loader.order import Indices, Share
from stoker.loader.settings import check_gives


class Plan(Protocol):
    """This rank's samples, batch after batch."""

    @property
    def total(self) -> int | None:
        """Samples that are given out, over all ranks; None where that is not known, or not yet."""
        ...

    def __iter__(self) -> Iterator[Indices]: ...

    def __next__(self) -> Indices: ...


class Known(Iterator[Indices]):
    """Batches of samples whose whole order is known."""

    def __init__(self, samples: Indices, share: Share) -> None:
        self.total = order.usable(len(samples), share)
        numbers = range(order.batch_count(len(samples), share))
        self._batches = (order.batch(samples, number, share) for number in numbers)

    def __next__(self) -> Indices:
        return next(self._batches)


class _AsAsked(Iterator[Indices]):
    """Batches of a sampler that may never end: its entries are taken when a batch is begun.

    The first one raises InputError where the sampler ends before `start`, and where it is an
    iterator (`is_once`) that has come to its end: another epoch of it would be empty without a
    word.
    """

    def __init__(
        self, entries: Iterator[int], share: Share, start: int, *, is_once: bool = False
    ) -> None:
        self.total: int | None = None  # a batch that is not full is the last one
        self._entries = entries
        self._share = share
        self._start = start
        self._is_once = is_once
        self._given: int | None = None  # samples; None before the first batch

    def __next__(self) -> Indices:
        if self._given is None:
            self._leave_out()
            self._given = 0
        size = self._share.batch_size
        batch = np.fromiter(itertools.islice(self._entries, size), np.int64)
        if self._is_once and not len(batch) and not self._given and not self._start:
            raise InputError(
                "the sampler is an iterator that gives no entry, or none any more",
                looked_at="the sampler, asked for the first entry of an epoch",
                run_next="give something that each epoch can begin anew: a list, a torch Sampler, "
                "or a class with __iter__",
            )
        if not order.batch_count(len(batch), self._share):
            if not self._start and not self._given and len(batch):
                check_gives(len(batch), self._share)
            raise StopIteration
        self._given += len(batch)
        if len(batch) < size:
            self.total = self._given
        return batch

    def _leave_out(self) -> None:
        there = sum(1 for _ in itertools.islice(self._entries, self._start))
        _check_reaches(there, self._start)


def of_sampler(sampler: Iterable[Any], usable: Indices, share: Share, start: int) -> Plan:
    """The batches of a sampler, which gives this rank's samples; the first `start` are left out.

    So many entries as it has by its length are taken here and now: its random numbers may be the
    caller's. One without a length may take its time for each: only `iter` is called here, as that
    is where many draw, and no entry asked for. Raises InputError for an entry that is no sample,
    where there is no batch at all, and where the sampler ends before `start`; of entries that are
    taken later, as they are taken.
    """
    entries = _samples(sampler, usable)
    if not isinstance(sampler, Sized):
        return _AsAsked(entries, share, start, is_once=isinstance(sampler, Iterator))
    length = len(sampler)
    first = np.fromiter(itertools.islice(entries, length + 1), np.int64)
    if len(first) > length:
        return _AsAsked(itertools.chain(first.tolist(), entries), share, start)
    if len(first):
        check_gives(len(first), share)
    _check_reaches(len(first), start)
    return Known(first[start:], share)


def _check_reaches(there: int, start: int) -> None:
    """Raises InputError for a state beyond the end of what the sampler gives in this epoch."""
    if there < start:
        raise InputError(
            f"the state cannot have position={start}: the sampler gives {there} entries in this "
            "epoch, and that many are left out",
            looked_at="the sampler, gone through up to that position",
            run_next="give load_state_dict a state of this sampler and data, or begin the epoch "
            "anew, without it",
        )


def _samples(sampler: Iterable[Any], usable: Indices) -> Iterator[int]:
    """The samples that the entries name, begun now. InputError for one that names none."""
    numbers = _numbers_of(sampler)
    if numbers is not None and not np.array_equal(numbers, usable):
        raise InputError(
            "the sampler was made over a PackDataset of other samples than the Loader has",
            looked_at=f"{len(numbers):,} samples there, {len(usable):,} here",
            run_next="make the sampler over stoker.loader.faces.PackDataset of the Loader's pack",
        )
    return _checked(iter(sampler), usable, numbers)


def _checked(entries: Iterator[Any], usable: Indices, numbers: Indices | None) -> Iterator[int]:
    """The samples of the entries, which `numbers` says where they count in a data set's own."""
    last = int(usable[-1]) if numbers is None else len(numbers) - 1
    is_usable = np.zeros(int(usable[-1]) + 1, np.uint8)
    is_usable[usable] = 1
    good = is_usable.tobytes()  # asked for every sample: bytes are ten times as fast
    for place, entry in enumerate(entries):
        try:
            number = operator.index(entry)
        except TypeError:
            raise _no_index(entry, place, last) from None
        if not 0 <= number <= last:
            raise _no_index(entry, place, last)
        sample = number if numbers is None else int(numbers[number])
        if not good[sample]:
            raise InputError(
                f"the sampler gave {entry!r} as entry {place}, and that sample is quarantined",
                looked_at=f"the pack's usable samples: {len(usable):,} of 0 to {last}",
                run_next="let the sampler choose among pack.usable, or make a torch sampler over a "
                "stoker.loader.faces.PackDataset of the pack, which numbers the usable ones",
            )
        yield sample


def _numbers_of(sampler: Iterable[Any]) -> Indices | None:
    """The samples by a data set's own numbers, where the sampler was made over a PackDataset."""
    for name in ("data_source", "dataset"):  # as torch's samplers call it
        source = getattr(sampler, name, None)
        if isinstance(source, PackDataset):
            return source.indices
    return None


def _no_index(entry: Any, place: int, last: int) -> InputError:
    if isinstance(entry, Iterable) and not isinstance(entry, str):
        return InputError(
            f"the sampler gave {entry!r:.80} as entry {place}, which is a whole batch",
            looked_at="what a BatchSampler gives; stoker.Loader makes the batches itself",
            run_next="stoker.Loader(…, batch_size=…, sampler=…) with the sampler inside of it, "
            "which is batch_sampler.sampler",
        )
    return InputError(
        f"the sampler gave {entry!r} as entry {place}, which is no index of a sample",
        looked_at=f"allowed: whole numbers, 0 to {last}",
        run_next="mend the sampler, or leave it out: shuffle=True mixes all samples",
    )
