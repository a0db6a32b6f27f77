"""What a stoker.DataLoader is given: refused when it is made, where torch would at a first batch.

What torch itself refuses when a loader is made is refused in torch's own words.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.data import Dataset, IterableDataset, SequentialSampler, Subset

from stoker.errors import InputError
from stoker.loader.checks import check

_OWNER = "stoker.DataLoader"


def check_mode(mode: object) -> None:
    """Raises InputError for a mode that there is not."""
    modes = ("auto", "threads", "processes")
    check(mode in modes, "mode", mode, f"{', '.join(modes)}; auto finds out", owner=_OWNER)


def check_arguments(loader: Any, *, has_threads: bool) -> None:
    """Raises InputError for what no pass could begin with. `has_threads`: threads may make it."""
    workers, ahead, timeout = loader.num_workers, loader.prefetch_factor, loader.timeout
    generator, begin = loader.generator, loader.worker_init_fn
    is_random = generator is None or isinstance(generator, torch.Generator)
    # Without workers torch has nobody to wait for.
    can_wait = not timeout or workers > 0 or has_threads
    for name, value, is_allowed, allowed in (
        ("num_workers", workers, _is_number(workers), "a whole number"),
        ("prefetch_factor", ahead, ahead is None or _is_number(ahead, 1), "1 and more"),
        ("timeout", timeout, can_wait, "0 where num_workers=0 and no thread makes samples"),
        ("collate_fn", loader.collate_fn, callable(loader.collate_fn), "a function of samples"),
        ("worker_init_fn", begin, begin is None or callable(begin), "a function of a number"),
        ("generator", generator, is_random, "a torch.Generator"),
        ("sampler", loader.sampler, _is_iterable(loader.sampler), "an iterable of indices"),
        (
            "batch_sampler",
            loader.batch_sampler,
            loader.batch_sampler is None or _is_iterable(loader.batch_sampler),
            "an iterable of lists of indices",
        ),
    ):
        check(is_allowed, name, value, allowed, owner=_OWNER)
    if not isinstance(loader.dataset, IterableDataset):
        _check_samples(loader)


def gives_samples(dataset: Any) -> bool:
    """False for a data set that has no samples, or gives them by whole batches alone.

    torch's Dataset has a `__getitem__` that only raises, and a Subset has what it is made of.
    """
    while type(dataset) is Subset:
        dataset = dataset.dataset
    return getattr(type(dataset), "__getitem__", None) not in (None, Dataset.__getitem__)


def _check_samples(loader: Any) -> None:
    dataset = loader.dataset
    if not (gives_samples(dataset) or hasattr(dataset, "__getitems__")):
        raise _no_dataset(dataset, "no __getitem__, and so no samples", "give it one")
    order = getattr(loader._index_sampler, "sampler", loader._index_sampler)
    if type(order) is SequentialSampler and not _has(order.data_source, "__len__"):
        raise _no_dataset(
            order.data_source, "no __len__, and so no order", "give it one, or the loader a sampler"
        )


def _no_dataset(dataset: Any, lack: str, way: str) -> InputError:
    return InputError(
        f"{_OWNER} cannot load from a {type(dataset).__name__}: it has {lack}",
        looked_at="the data set's class; one of torch's IterableDataset would need neither",
        run_next=way,
    )


def _has(value: object, name: str) -> bool:
    return hasattr(type(value), name)  # where Python looks, too


def _is_iterable(value: object) -> bool:
    return _has(value, "__iter__") or _has(value, "__getitem__")


def _is_number(value: Any, least: int = 0) -> bool:
    return _has(value, "__index__") and value >= least
