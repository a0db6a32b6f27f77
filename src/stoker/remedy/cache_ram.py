"""Finished samples kept in memory, shared by all workers, within a budget of bytes.

Only samples that draw no random numbers; one that does ends the caching for all. The global
generators show draws; for generators of other places samples are made twice, now and then.
"""

from __future__ import annotations

from typing import Any

from stoker.random_state import states, undisturbed
from stoker.remedy.private_random import own_generators
from stoker.remedy.request import Request, size_text
from stoker.remedy.sample_bytes import NotStorable, pack, unpack
from stoker.remedy.settings import SAME, Change, Refusal, Settings, Subject
from stoker.remedy.shared_store import SharedStore
from stoker.stand_in import StandIn, gives_batches

# What a cache is given beyond the samples' own bytes: heads of the entries, and shorter samples.
_ROOM = 1.15
# What the flag of the store says: why nothing more is cached.
_RANDOM, _NOT_STORABLE, _DIFFERENT = 1, 2, 3
_PROBLEMS = {
    _RANDOM: "making a sample draws random numbers, so that no result can be kept",
    _NOT_STORABLE: "samples of this kind can't be kept as bytes",
    _DIFFERENT: "a sample made twice was not the same, so that no result can be kept",
}
# Made twice are a process's first samples, and later one of so many.
_FIRST_TWICE, _TWICE_EVERY = 8, 64


class RamCache:
    """The layer: samples of a data set by their index."""

    def __init__(self, samples: int, budget: int) -> None:
        self._store = SharedStore(samples, budget)

    def around(self, dataset: Any) -> Any:
        """The data set, asked only for what is not kept."""
        cached = _Cached(dataset, self._store)
        return StandIn(dataset, cached.one, cached.many)

    def renew(self) -> None:
        """The data set changed: what is kept is out of date."""
        self._store.forget()

    @property
    def is_keeping(self) -> bool:
        """True while samples are kept and given again."""
        return not self._store.flag

    def problem(self) -> str | None:
        """Why caching has ended; None while it goes on."""
        return _PROBLEMS.get(self._store.flag)

    def held(self) -> int | None:
        """Samples kept so far; None once caching has ended."""
        return self._store.count if self.is_keeping else None


class _Cached:
    """Asks the store first, and the data set for what it has not."""

    def __init__(self, dataset: Any, store: SharedStore) -> None:
        self._dataset = dataset
        self._store = store
        self._is_full = False
        self._made = 0

    def one(self, index: Any) -> Any:
        """A sample."""
        kept = self._kept(index)
        if kept is not None:
            return kept[0]
        if not self._wants(index):
            return self._dataset[index]
        before = states()
        sample = self._dataset[index]
        if states() != before:
            self._store.set_flag(_RANDOM)
        elif self._is_same_again(index, sample):
            self._keep(index, sample)
        return sample

    def many(self, indices: list[Any]) -> list[Any]:
        """The samples of a batch."""
        found = [self._kept(index) for index in indices]
        missing = [index for index, kept in zip(indices, found, strict=True) if kept is None]
        if not missing:
            return [kept[0] for kept in found if kept is not None]
        before = states()
        made = list(self._dataset.__getitems__(missing))
        if states() != before:
            self._store.set_flag(_RANDOM)
        elif len(made) == len(missing):
            for index, sample in zip(missing, made, strict=True):
                if self._wants(index) and self._is_same_again(index, sample):
                    self._keep(index, sample)
        fresh = iter(made)
        return [next(fresh) if kept is None else kept[0] for kept in found]

    def _kept(self, index: Any) -> tuple[Any] | None:
        if type(index) is not int or index not in self._store or self._store.flag:
            return None
        blob = self._store.get(index)
        return None if blob is None else (unpack(blob),)

    def _wants(self, index: Any) -> bool:
        is_open = not self._is_full and not self._store.flag
        return is_open and type(index) is int and index in self._store

    def _is_same_again(self, index: int, sample: Any) -> bool:
        """False when this is a sample to make twice, and it came out otherwise."""
        self._made += 1
        # Spread over the data set by its number: no random generator is touched for it.
        if self._made > _FIRST_TWICE and index * 2654435761 % 2**32 >= 2**32 // _TWICE_EVERY:
            return True
        put_back = undisturbed()
        try:
            is_same = pack(self._make(index)) == pack(sample)
        except NotStorable:
            self._store.set_flag(_NOT_STORABLE)
            return False
        except Exception:  # noqa: BLE001 - the script asked for it once, and has it
            is_same = False
        finally:
            put_back()
        if not is_same:
            self._store.set_flag(_DIFFERENT)
        return is_same

    def _make(self, index: int) -> Any:
        if gives_batches(self._dataset):
            return self._dataset.__getitems__([index])[0]
        return self._dataset[index]

    def _keep(self, index: int, sample: Any) -> None:
        try:
            self._is_full = not self._store.put(index, pack(sample))
        except NotStorable:
            self._store.set_flag(_NOT_STORABLE)


def cache_ram(subject: Subject, settings: Settings, request: Request) -> Change | Refusal:
    """Keep finished samples in that many bytes."""
    budget = request.count or 0
    if subject.is_iterable:
        return Refusal("an iterable data set gives no sample by its number")
    try:
        samples = len(subject.dataset)
    except TypeError:
        return Refusal("the data set has no length")
    lack = subject.lacks_memory(budget)
    if lack is not None:
        return Refusal(lack)
    own = own_generators(subject.dataset)
    if own is not None:
        return Refusal(f"{own} is a random generator of the data set's own: samples differ")
    return Change(
        settings,
        f"finished samples are kept in up to {size_text(budget)}",
        SAME,
        layer=RamCache(samples, budget),
        needs_bytes=budget,
    )


def room_for(samples: int, sample_bytes: float) -> int:
    """Bytes of a cache that holds so many samples, in whole megabytes."""
    return max(1, round(samples * sample_bytes * _ROOM / 1e6)) * 1_000_000
