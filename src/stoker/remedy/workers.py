"""Another number of worker processes: overlap where there were none, more, fewer or none."""

from __future__ import annotations

from dataclasses import replace

from stoker.probe.host import host_facts
from stoker.remedy.private_random import own_generators
from stoker.remedy.request import Request
from stoker.remedy.settings import REDRAWN, Change, Refusal, Settings, Subject
from stoker.remedy.staging import HELD

# Shared memory is everybody's, and estimates err.
_SHARE_OF_FREE = 0.8


def overlap(subject: Subject, settings: Settings, request: Request) -> Change | Refusal:
    """Workers where there were none; one for each core when no number was asked for."""
    if subject.settings.workers:
        return Refusal(
            f"the loader has {subject.settings.workers} workers already; workers=N changes that"
        )
    count = request.count or one_a_core(subject.cores)
    return _with(subject, replace(settings, is_fed=True), count)


def one_a_core(cores: float | None = None) -> int:
    """The number of workers where none was asked for: one for each core owned (None: of here)."""
    owned = host_facts()["cores_owned"] if cores is None else cores
    return max(1, round(float(owned or 1)))


def workers(subject: Subject, settings: Settings, request: Request) -> Change | Refusal:
    """So many worker processes."""
    return _with(subject, settings, max(0, request.count or 0))


def _with(subject: Subject, settings: Settings, count: int) -> Change | Refusal:
    before = subject.settings.workers
    if count == before:
        return Refusal(f"the loader has {count} workers already")
    refusal = _refusal(subject, count, held=HELD if settings.is_fed else 0)
    if refusal is not None:
        return Refusal(refusal)
    told = f"{count} worker{'s' * (count != 1)} in place of {before or 'none'}"
    if count == 0:
        bare = replace(settings, workers=0, prefetch_factor=None, persistent=False)
        return Change(bare, "no workers: samples are made in the training process", REDRAWN)
    depth = settings.prefetch_factor or 2
    return Change(
        replace(settings, workers=count, prefetch_factor=depth),
        told,
        REDRAWN,
        needs_bytes=_more_bytes(subject, count),
    )


def _refusal(subject: Subject, count: int, *, held: int) -> str | None:
    before = subject.settings.workers
    if subject.is_iterable:
        return (
            "an iterable data set gives each worker all its samples unless it shards itself, which "
            "can't be seen from outside"
        )
    if before == 0 or count == 0:
        own = own_generators(subject.dataset)
        if own is not None:
            return (
                f"{own} is a random generator of the data set's own: each worker would draw the "
                "same numbers from its copy"
            )
    depth = count * (subject.settings.prefetch_factor or 2) + held
    if subject.batch_bytes and subject.shm_free_bytes is not None:
        needed = subject.batch_bytes * depth
        if needed > _SHARE_OF_FREE * subject.shm_free_bytes:
            return (
                f"{depth} batches on their way need {needed / 1e6:.0f} MB of shared memory, "
                f"{subject.shm_free_bytes / 1e6:.0f} MB are free"
            )
    lack = subject.lacks_memory(_more_bytes(subject, count))
    return f"{count - before} more workers: {lack}" if lack is not None else None


def _more_bytes(subject: Subject, count: int) -> int:
    """Memory of the workers that come on top."""
    return max(0, count - subject.settings.workers) * subject.worker_bytes
