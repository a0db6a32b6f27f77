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
        """Samples that are given out, over all ranks; None where that is not known."""
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
    """Batches of a sampler that may never end: its entries are taken when a batch is begun."""

    total = None

    def __init__(self, entries: Iterator[int], share: Share, start: int) -> None:
        self._entries = itertools.islice(entries, start, None)
        self._share = share
        self._is_whole_epoch = not start

    def __next__(self) -> Indices:
        size = self._share.batch_size
        batch = np.fromiter(itertools.islice(self._entries, size), np.int64)
        if not order.batch_count(len(batch), self._share):
            if self._is_whole_epoch and len(batch):
                check_gives(len(batch), self._share)
            raise StopIteration
        self._is_whole_epoch = False
        return batch


def of_sampler(sampler: Iterable[Any], usable: Indices, share: Share, start: int) -> Plan:
    """The batches of a sampler, which gives this rank's samples; the first `start` are left out.

    So many entries as it has by its length are taken here and now: its random numbers may be the
    caller's. Raises InputError for an entry that is no sample, and where there is no batch at all.
    """
    entries = _samples(sampler, usable)
    length = len(sampler) if isinstance(sampler, Sized) else 0
    first = np.fromiter(itertools.islice(entries, length + 1), np.int64)
    if len(first) > length:
        return _AsAsked(itertools.chain(first.tolist(), entries), share, start)
    if len(first):
        check_gives(len(first), share)
    return Known(first[start:], share)


def _samples(sampler: Iterable[Any], usable: Indices) -> Iterator[int]:
    """The samples that the entries name. InputError for one that names none."""
    numbers = _numbers_of(sampler)
    if numbers is not None and not np.array_equal(numbers, usable):
        raise InputError(
            "the sampler was made over a PackDataset of other samples than the Loader has",
            looked_at=f"{len(numbers):,} samples there, {len(usable):,} here",
            run_next="make the sampler over stoker.loader.faces.PackDataset of the Loader's pack",
        )
    last = int(usable[-1]) if numbers is None else len(numbers) - 1
    is_usable = np.zeros(int(usable[-1]) + 1, np.uint8)
    is_usable[usable] = 1
    good = is_usable.tobytes()  # asked for every sample: bytes are ten times as fast
    for place, entry in enumerate(sampler):
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
