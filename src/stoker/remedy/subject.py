"""A loader of the script and its machine, as preconditions are judged by. Standard library only."""

from __future__ import annotations

import multiprocessing
from typing import Any

from stoker.probe.host import host_facts
from stoker.remedy.delivery import has_device
from stoker.remedy.settings import Subject
from stoker.remedy.supply import settings_of

# What a worker may hold of its own, beside the samples. A small data set of photos was seen to take
# 12 MB forked and 156 MB started anew, torch imported; a script with more in it takes more. Started
# anew each also has a copy of the data set, whose size only a diagnosis has seen: to pickle it here
# for that would take the time, and the memory, that it takes to start a worker.
_FORKED_BYTES, _STARTED_BYTES = 150_000_000, 400_000_000


def worker_bytes(method: str | None) -> int:
    """Of memory that one more worker is allowed for; None is the usual start method, fork."""
    return _FORKED_BYTES if method in (None, "fork") else _STARTED_BYTES


def subject_of(
    loader: Any, batch_bytes: int | None, *, seen_worker_bytes: int | None = None
) -> Subject:
    """The loader and the machine as they are now.

    `seen_worker_bytes`: what a diagnosis has seen a worker of it hold; no less is allowed for.
    """
    facts = host_facts()
    ranks = int(facts["ranks"] or 1)
    return Subject(
        settings=settings_of(loader),
        dataset=loader.dataset,
        is_iterable=loader._dataset_kind == 1,
        cores=float(facts["cores_owned"] or 1.0),
        shm_free_bytes=_share(facts["shm_free_bytes"], ranks),
        memory_available_bytes=_share(facts["memory_available_bytes"], ranks),
        worker_bytes=max(worker_bytes(_start_method(loader)), seen_worker_bytes or 0),
        batch_bytes=batch_bytes,
        has_device=has_device(),
    )


def _start_method(loader: Any) -> str:
    """How further workers are started: as those that it has; the first ones are forked."""
    if not loader.num_workers:
        return "fork"
    context = getattr(loader, "multiprocessing_context", None)
    if context is not None:
        return str(context.get_start_method())
    # Without `allow_none` the question would settle it, and the script may not choose any more.
    chosen = multiprocessing.get_start_method(allow_none=True)
    return chosen or multiprocessing.get_all_start_methods()[0]


def _share(value: object, ranks: int) -> int | None:
    """Of one rank: all of them ask at the same time, for the memory of one machine."""
    return int(value / ranks) if isinstance(value, int | float) else None
