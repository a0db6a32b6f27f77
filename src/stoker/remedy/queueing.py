"""The queue of ready batches: deeper, or in the order in which batches are finished."""

from __future__ import annotations

from dataclasses import replace

from stoker.remedy.request import Request
from stoker.remedy.settings import REORDERED, SAME, Change, Refusal, Settings, Subject

# Shared memory is everybody's: a deeper queue may take half of what is free.
SHARE_OF_FREE = 0.5


def prefetch_depth(subject: Subject, settings: Settings, request: Request) -> Change | Refusal:
    """So many batches ahead for each worker."""
    count = request.count or 0
    if settings.workers == 0:
        return Refusal("the loader has no workers")
    if count == (settings.prefetch_factor or 2):
        return Refusal(f"the loader prefetches {count} batches a worker already")
    free = subject.shm_free_bytes
    deeper = replace(settings, prefetch_factor=count)
    needed = (subject.batch_bytes or 0) * deeper.depth
    if free is not None and needed > SHARE_OF_FREE * free:
        return Refusal(
            f"{deeper.depth} ready batches need {needed / 1e6:.0f} MB of shared memory, "
            f"{free / 1e6:.0f} MB are free"
        )
    lack = subject.lacks_memory(needed)
    if lack is not None:
        return Refusal(f"{deeper.depth} ready batches: {lack}")
    return Change(deeper, f"{count} batches ahead for each worker", SAME, needs_bytes=needed)


def unordered(_: Subject, settings: Settings, __: Request) -> Change | Refusal:
    """Take what is ready first."""
    if settings.workers < 2:
        return Refusal("one loader process has one order")
    return Change(
        replace(settings, in_order=False), "batches in the order in which they end", REORDERED
    )
