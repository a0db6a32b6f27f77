"""One loader under one set of settings: a copy of the script's, whose own is never touched.

The copy shares data set, sampler and collation; what differs are the settings and where its
indices come from. Knows torch's DataLoader by its attributes. Standard library only.
"""

from __future__ import annotations

import copy
import itertools
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from stoker import lifetime
from stoker.remedy.indices import Indices, Tap
from stoker.remedy.settings import Settings
from stoker.remedy.staging import HELD, Early, Fed
from stoker.remedy.worker_setup import WorkerSetup, around

_BEGUN = itertools.count(1)

Iterate = Callable[[Any], Any]  # torch's own DataLoader.__iter__


class Supply:
    """Makes iterators of a loader under some settings; keeps the workers if these say so."""

    def __init__(self, loader: Any, settings: Settings, iterate: Iterate, *, early: Early) -> None:
        self.settings = settings
        self._iterate = iterate
        self._early = early
        self._tap = Tap(length_of(loader))
        self._loader = _shadow(loader, settings, self._tap)

    def begin(self, indices: Indices, base: Any | None) -> Iterator[Any]:
        """Batches of these indices. Nothing is drawn from the script's stream: the iterator's base
        seed comes from the generator `base`, or from a new one.
        """
        self._tap.connect(indices)
        torch = sys.modules["torch"]
        loader = self._loader
        own = loader.generator
        if base is None:
            # As long as the process lives no two of these begin with the same numbers.
            seed = (torch.initial_seed() + next(_BEGUN)) % 2**63
            base = torch.Generator().manual_seed(seed)
        _set(loader, "generator", base)
        if isinstance(loader.worker_init_fn, WorkerSetup):
            loader.worker_init_fn.starter = os.getpid() if lifetime.is_main_thread() else None
        try:
            made = self._iterate(loader)
        finally:
            _set(loader, "generator", own)
        if self.settings.workers == 0 and self.settings.layers:
            fetcher = made._dataset_fetcher
            fetcher.dataset = around(self.settings.layers, fetcher.dataset)
        if self.settings.is_fed:
            return Fed(made, indices, self._early, lead=self.settings.depth + HELD)
        return made  # type: ignore[no-any-return]

    @property
    def kept(self) -> Any:
        """The iterator whose workers live on between epochs; None without."""
        return self._loader._iterator

    def stop(self, batches: Iterator[Any]) -> None:
        """End what `begin` has given, on its way as it may be; workers that are kept live on."""
        close = getattr(batches, "close", None)
        if close is not None:
            close()
        iterator = torchs_own(batches)
        if iterator is not self.kept:
            _shut_down(iterator)

    def end(self) -> None:
        """Let go of workers that were kept: they end when nobody is in them."""
        _set(self._loader, "_iterator", None)

    def close(self) -> None:
        """End workers that were kept, now."""
        kept = self.kept
        self.end()
        _shut_down(kept)

    def renew(self) -> None:
        """The data set changed: workers start anew with it, and caches forget what they hold."""
        self.end()
        for layer in self.settings.layers:
            layer.renew()

    def problem(self) -> str | None:
        """What a layer says against itself."""
        return next(
            (text for text in (one.problem() for one in self.settings.layers) if text), None
        )


def torchs_own(batches: Iterator[Any]) -> Any:
    """The iterator that has the workers; another stands before it where batches are fed."""
    return getattr(batches, "inner", batches)


def length_of(loader: Any) -> int | None:
    """Entries of its sampler; None where that has no length."""
    try:
        return len(loader._index_sampler)
    except TypeError:
        return None


def settings_of(loader: Any) -> Settings:
    """The settings that the script gave."""
    return Settings(
        workers=loader.num_workers,
        prefetch_factor=loader.prefetch_factor,
        persistent=bool(loader.persistent_workers),
        pin_memory=bool(loader.pin_memory),
        in_order=bool(getattr(loader, "in_order", True)),
    )


def _set(loader: Any, name: str, value: Any) -> None:
    object.__setattr__(loader, name, value)  # a DataLoader refuses some of its attributes


def _shadow(loader: Any, settings: Settings, tap: Tap) -> Any:
    shadow = copy.copy(loader)
    has_workers = settings.workers > 0
    had_workers = loader.num_workers > 0
    changes = {
        "_iterator": None,
        "num_workers": settings.workers,
        "prefetch_factor": (settings.prefetch_factor or 2) if has_workers else None,
        "persistent_workers": settings.persistent and has_workers,
        "pin_memory": (settings.pin_memory and _has_accelerator()) or bool(loader.pin_memory),
        "in_order": settings.in_order,
        "timeout": loader.timeout if has_workers else 0,
        "batch_sampler" if loader._auto_collation else "sampler": tap,
    }
    for name, value in changes.items():
        _set(shadow, name, value)
    _set(shadow, "check_worker_number_rationality", _nothing)  # it warned when it was made
    if not has_workers:
        _set(shadow, "_DataLoader__multiprocessing_context", None)
    elif not had_workers and multiprocessing.get_start_method() != "fork":
        # A script that never started a process may not be ready to be imported by one.
        shadow.multiprocessing_context = "fork"
    if has_workers and (settings.duties or settings.layers or not had_workers):
        shadow.worker_init_fn = WorkerSetup(loader.worker_init_fn, settings.duties, settings.layers)
    return shadow


def _shut_down(iterator: Any) -> None:
    # By name, not by forgetting it: an error that came out of it may hold it for long. That error
    # was raised already where its batch would have been; the end of the workers adds none.
    end = getattr(iterator, "_shutdown_workers", None)
    if end is not None:
        with suppress(Exception):
            end()


def _nothing() -> None:
    """In the place of a check."""


def _has_accelerator() -> bool:
    torch = sys.modules["torch"]
    return bool(torch.cuda.is_available())
