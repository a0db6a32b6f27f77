"""What `stoker doctor --try` may try on a loader: remedies, and what is refused for which reason.

The preconditions are those of `stoker run`. Standard library only.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from stoker.probe import offers
from stoker.probe.offers import Candidate, Variant
from stoker.remedy.apply import plan
from stoker.remedy.cache_ram import RamCache, room_for
from stoker.remedy.request import Request, parse
from stoker.remedy.settings import REORDERED, SAME, Settings
from stoker.remedy.staging import HELD
from stoker.remedy.subject import subject_of
from stoker.remedy.variant import LoaderVariant, entries

# Batches that a cache on trial is filled with, and then gives over and over.
_CACHED_BATCHES = 4
_HEADS_BYTES = 8_000_000  # for what stands beside small samples
_DEEPER = 4  # times the batches ahead


@dataclass(frozen=True)
class _Offer:
    """How a candidate's loader is made."""

    settings: Settings
    repeated: int = 0  # entries of the sampler that it is given over and over


def start() -> None:
    """Have the probe of this process try remedies. Called once, by sitecustomize."""
    offers.hand_down(LoaderOffers)


class LoaderOffers:
    """`probe.offers.Offers` for one training loader."""

    def __init__(self, loader: Any, batch_bytes: int) -> None:
        self._loader = loader
        self._batch_bytes = batch_bytes
        self._subject = subject_of(loader, batch_bytes)
        self._offers: dict[str, _Offer] = {}

    def counts(self, base: str, counts: Sequence[int]) -> list[Candidate]:
        """Other numbers of workers on top of `base`."""
        name = "workers" if self._subject.settings.workers else "overlap"
        kept = [one for one in _requests(base) if one.name not in ("workers", "overlap")]
        # What is done with workers goes with them.
        return [self._candidate([Request(name, n), *(kept if n else ())]) for n in counts]

    def further(self, base: str) -> list[Candidate]:
        """Every single setting on top of `base`, what tells most first."""
        given = _requests(base)
        settings = plan(self._subject, given).settings
        wanted = [
            Request("persistent-workers"),
            Request("pinned-async"),
            Request("native-threads", 1),
            Request("prefetch-depth", _DEEPER * (settings.prefetch_factor or 2)),
            Request("allocator"),
            Request("unordered"),
        ]
        names = {one.name for one in given}
        found = [self._candidate([*given, one]) for one in wanted if one.name not in names]
        return [self._cached(given), *found, self._batched()]

    def together(self, names: Sequence[str]) -> list[Candidate]:
        """What all of these change, as one."""
        found: dict[str, Request] = {}
        # A cache is tried on a few samples given over and over: nothing to put others on top of.
        plain = [name for name in names if "cache-ram" not in name]
        for name in plain:
            found |= {one.name: one for one in _requests(name)}
        return [self._candidate(list(found.values()))] if len(plain) > 1 else []

    def open(self, name: str, *, start: int) -> Variant:
        """The loader of a candidate."""
        offer = self._offers[name]
        source = entries(self._loader, start, repeated=offer.repeated)
        iterate = sys.modules["torch.utils.data.dataloader"].DataLoader.__iter__
        return LoaderVariant(self._loader, offer.settings, source, iterate)

    # -- one candidate -----------------------------------------------------------------------------

    def _candidate(self, requests: list[Request]) -> Candidate:
        name = ",".join(map(str, requests))
        refused = self._unknown()
        if refused:
            return Candidate(name, refused=refused)
        made = plan(self._subject, requests)
        if made.refused:
            return Candidate(name, refused=made.refused[0][1].reason)
        self._offers[name] = _Offer(made.settings)
        means = {change.data for _, change in made.applied} - {SAME}
        return Candidate(
            name,
            workers=made.settings.workers,
            depth=made.settings.depth + (HELD if made.settings.is_fed else 0),
            needs_epochs=requests[-1].name == "persistent-workers",
            thins_threads=requests[-1].name == "native-threads",
            data=REORDERED if REORDERED in means else "".join(means) or SAME,
        )

    def _unknown(self) -> str:
        """Why this loader can be given no other settings at all."""
        kind = sys.modules["torch.utils.data.dataloader"].DataLoader
        if self._subject.is_iterable:
            return "an iterable data set has no order that could be handed on"
        if type(self._loader).__iter__ is not kind.__iter__:
            return f"{type(self._loader).__qualname__} iterates in a way of its own"
        return ""

    def _cached(self, given: list[Request]) -> Candidate:
        """Finished samples kept: a few batches, taken once, then over and over.

        Measured also where all samples together would not fit: it tells what there is to win.
        """
        whole = _cache_bytes(self._loader, self._batch_bytes)
        request = Request("cache-ram", whole)
        name = ",".join(map(str, [*given, request]))
        refused = self._unknown() or self._not_cached(given)
        if refused:
            return Candidate(name, refused=refused)
        unfit = "the size of all samples is not known" if whole is None else ""
        if whole is not None:
            refusal = plan(self._subject, [*given, request]).refused
            unfit = refusal[0][1].reason if refusal else ""
        settings = plan(self._subject, given).settings
        budget = room_for(2 * _CACHED_BATCHES, self._batch_bytes) + _HEADS_BYTES
        cache = RamCache(len(self._subject.dataset), budget)
        settings = replace(settings, layers=(*settings.layers, cache))
        self._offers[name] = _Offer(settings, repeated=_CACHED_BATCHES)
        return Candidate(
            name,
            workers=settings.workers,
            depth=settings.depth + (HELD if settings.is_fed else 0),
            warm=2 * _CACHED_BATCHES,  # its samples are made, some of them twice
            data=SAME,
            kept_bytes=request.count or 0,
            unfit=unfit,
        )

    def _not_cached(self, given: list[Request]) -> str:
        """What forbids a cache of any size."""
        result = plan(self._subject, [*given, Request("cache-ram", 1)]).refused
        return result[0][1].reason if result else ""

    def _batched(self) -> Candidate:
        """Whole batches from one call: torch asks for them wherever the data set offers it."""
        offered = callable(getattr(self._subject.dataset, "__getitems__", None))
        if not offered:
            why = "the data set has no __getitems__"
        elif self._loader._auto_collation:
            why = "in use: torch asks this data set for whole batches"
        else:
            why = "the loader makes no batches of its own"
        return Candidate("batched-fetch", refused=why)


def _requests(name: str) -> list[Request]:
    return list(parse(name)) if name else []


def _cache_bytes(loader: Any, batch_bytes: int) -> int | None:
    """Bytes of a cache for all samples; None where nobody knows how many there are."""
    size = loader.batch_size or getattr(loader.batch_sampler, "batch_size", None)
    try:
        return room_for(len(loader.dataset), batch_bytes / size) if size else None
    except TypeError:
        return None
