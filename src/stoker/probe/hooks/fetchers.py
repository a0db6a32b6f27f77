"""Torch's fetchers, in which a batch is made, and the pickling that hands it over."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, Protocol

from stoker import clocks
from stoker.probe.hooks.patches import Patches

_MODULE = "torch.utils.data._utils.fetch"
_KINDS = ("_MapDatasetFetcher", "_IterableDatasetFetcher")


class Recording(Protocol):
    """Times fetches and what is in them."""

    @property
    def where(self) -> str:
        """`worker` or `main`."""
        ...

    def fetch(self, function: Callable[..., Any], arguments: tuple[Any, ...], samples: int) -> Any:
        """Run a fetch and give out its record."""
        ...


def instrument_fetcher(dataset: Any, recorder: Recording, patches: Patches) -> None:
    """Patch `fetch` of both fetcher classes. Without torch, or without them, nothing happens.

    In the main process only fetches of `dataset` are timed: the others are not training.
    """
    module = sys.modules.get(_MODULE)
    for name in _KINDS:
        kind = getattr(module, name, None)
        if kind is None:
            patches.timing.note(f"torch has no {name}: its batches are not timed")
            continue
        patches.attribute(kind, "fetch", _timed_fetch(kind.fetch, dataset, recorder, patches))
    if recorder.where == "worker":
        _time_hand_off(patches)


def time_whole_fetches(sink: Callable[[float], object]) -> None:
    """Have `sink` told the wall seconds of each batch that this process makes from now on.

    Never undone: for workers that are ours. Without torch's fetchers nothing is told.
    """
    module = sys.modules.get(_MODULE)
    for name in _KINDS:
        kind = getattr(module, name, None)
        if kind is not None:
            kind.fetch = _clocked(kind.fetch, sink)


def _clocked(
    original: Callable[[Any, Any], Any], sink: Callable[[float], object]
) -> Callable[[Any, Any], Any]:
    @wraps(original)
    def fetch(fetcher: Any, index: Any) -> Any:
        began = clocks.wall_s()
        batch = original(fetcher, index)  # one that fails is no batch
        sink(clocks.wall_s() - began)
        return batch

    return fetch


def _timed_fetch(
    original: Callable[[Any, Any], Any], dataset: Any, recorder: Recording, patches: Patches
) -> Callable[[Any, Any], Any]:
    is_worker = recorder.where == "worker"
    stand_ins: weakref.WeakKeyDictionary[Any, dict[str, Any]] = weakref.WeakKeyDictionary()

    @wraps(original)
    def fetch(fetcher: Any, index: Any) -> Any:
        if not is_worker and fetcher.dataset is not dataset:
            return original(fetcher, index)
        timed = stand_ins.get(fetcher)
        if timed is None:
            timed = stand_ins[fetcher] = _stand_ins(fetcher, patches)
        own = vars(fetcher)
        kept = {name: own[name] for name in timed}
        own.update(timed)  # for this call only: nothing is left to put back
        try:
            samples = len(index) if fetcher.auto_collation else 1
            return recorder.fetch(original, (fetcher, index), samples)
        finally:
            own.update(kept)

    return fetch


def _stand_ins(fetcher: Any, patches: Patches) -> dict[str, Any]:
    """Timed twins of what a fetcher calls: collation, and samples that no patched class times."""
    timed: dict[str, Any] = {"collate_fn": patches.timing.timed("collate", fetcher.collate_fn)}
    dataset = fetcher.dataset
    if "dataset_iter" in vars(fetcher):
        timed["dataset_iter"] = TimedIterator(fetcher.dataset_iter, type(dataset).__name__, patches)
    elif not hasattr(getattr(type(dataset), "__getitem__", None), "__stoker_timed__"):
        # A list, an array or a compiled class: it cannot be patched, so something stands before it.
        timed["dataset"] = TimedItems(dataset, patches)
    return timed


class TimedItems:
    """Stands before a data set whose class cannot be patched."""

    def __init__(self, source: Any, patches: Patches) -> None:
        self._source = source
        stage = f"{type(source).__name__}.__getitem__"
        self._get = patches.timing.timed_sample(stage, lambda held, index: held[index])
        if getattr(source, "__getitems__", None):
            self.__getitems__ = patches.timing.timed(stage + "s", source.__getitems__)

    def __getitem__(self, index: Any) -> Any:
        return self._get(self._source, index)


class TimedIterator:
    """Stands before an iterable data set's iterator."""

    def __init__(self, source: Iterator[Any], name: str, patches: Patches) -> None:
        self._source = source
        self._next = patches.timing.timed_sample(f"{name}.__iter__", next)

    def __iter__(self) -> TimedIterator:
        return self

    def __next__(self) -> Any:
        return self._next(self._source)


def _time_hand_off(patches: Patches) -> None:
    """Finished batches are pickled, and copied to shared memory, in the queue's own thread."""
    module = sys.modules.get("multiprocessing.reduction")
    pickler = getattr(module, "ForkingPickler", None)
    if pickler is None:
        return
    dumps = vars(pickler).get("dumps")
    if isinstance(dumps, classmethod):
        timed = patches.timing.timed("hand-off", dumps.__func__)
        patches.attribute(pickler, "dumps", classmethod(timed), stage="hand-off")
