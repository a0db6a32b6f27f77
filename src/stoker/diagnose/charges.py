"""What a fix costs beside work: memory, disk, and minutes of making it. None: nothing, or unknown.

Bytes and minutes are forecasts from what the profile knows of samples, files and workers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from stoker.diagnose.case import Case
from stoker.diagnose.queueing import USUAL_DEPTH, deeper
from stoker.diagnose.worker_counts import best_workers
from stoker.records.profile import THREADS
from stoker.records.scenario import Resource
from stoker.remedy.cache_ram import room_for
from stoker.remedy.staging import HELD
from stoker.remedy.subject import worker_bytes


@dataclass(frozen=True)
class Charges:
    """Bytes of memory more than now, bytes on a disk, minutes until it is made; once, all of it."""

    memory_bytes: int | None = None
    disk_bytes: int | None = None
    minutes: float | None = None


Charging = Callable[[Case], Charges]


def nothing(_: Case) -> Charges:
    """Neither memory nor disk nor time of any size."""
    return Charges()


def workers(case: Case) -> Charges:
    """The further workers with what lies ready in them."""
    if case.facts.loader.watched:
        return Charges()  # a thread, or what the library has of its own
    further = best_workers(case) - case.facts.workers
    return Charges(memory_bytes=_of_workers(case, max(0, further)))


def kept_workers(case: Case) -> Charges:
    """The workers between epochs."""
    return Charges(memory_bytes=_of_workers(case, case.facts.workers))


def samples_in_memory(case: Case) -> Charges:
    """All samples, as large as the cache that `stoker run` is given for them."""
    samples, each = case.facts.loader.samples, case.facts.sample_bytes
    if samples is None or each is None:
        return Charges()
    return Charges(memory_bytes=room_for(samples, each))


def samples_on_disk(case: Case) -> Charges:
    """All samples as large as they are where they are cut, made once on all cores.

    Finished ones may be four times as large: floats of what is stored as uint8.
    """
    samples, each = case.facts.loader.samples, case.facts.packed_bytes
    if samples is None or each is None:
        return Charges()
    cpu_s = sum(
        cost.per_sample.median
        for cost in case.scenario.workload.stages
        if cost.resource is Resource.CORES
    )
    return Charges(
        disk_bytes=round(samples * each),
        minutes=samples * cpu_s / case.scenario.machine.cores / 60,
    )


def files_again(case: Case) -> Charges:
    """The files in another form, in one pass at the pace that the loader has now."""
    copied = files_copied(case)
    samples, leg = case.facts.loader.samples, case.facts.alone
    if samples is None or leg is None:
        return copied
    steps = samples / case.facts.batch_size
    return Charges(disk_bytes=copied.disk_bytes, minutes=steps * leg.period.median / 60)


def files_copied(case: Case) -> Charges:
    """The files as they are; a sample of which no file was seen counts as large as it is made."""
    work, samples = case.scenario.workload, case.facts.loader.samples
    each = work.stored_bytes or work.sample_bytes
    if samples is None or each is None:
        return Charges()
    return Charges(disk_bytes=round(samples * each))


def deeper_queue(case: Case) -> Charges:
    """The further batches that lie ready, in shared memory."""
    loader = case.facts.loader
    further = deeper(case.facts) - (loader.prefetch_factor or USUAL_DEPTH)
    return Charges(memory_bytes=further * loader.workers * loader.batch_bytes or None)


def early_batches(case: Case) -> Charges:
    """The batches that wait in pinned memory."""
    return Charges(memory_bytes=HELD * case.facts.loader.batch_bytes or None)


def shared_memory(case: Case) -> Charges:
    """What the batches that lie ready need beyond the shared memory that there is."""
    size, needed = case.facts.host.shm_bytes, case.facts.host.shm_needed_bytes
    if size is None or needed is None or needed <= size:
        return Charges()
    return Charges(memory_bytes=needed - size)


def _of_workers(case: Case, count: int) -> int | None:
    """What so many workers hold: their own, measured or as `stoker run` allows, and batches."""
    loader, seen = case.facts.loader, case.facts.profile.worker_bytes
    ready = (loader.prefetch_factor or USUAL_DEPTH) * loader.batch_bytes
    if loader.start_method == THREADS:
        own = 0
    else:
        own = worker_bytes(loader.start_method) if seen is None else seen
    return round(count * (own + ready)) or None
