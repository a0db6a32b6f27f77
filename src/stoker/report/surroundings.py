"""What a report says about the host, the run and the cost of watching it, as finished strings."""

from __future__ import annotations

import math

from stoker.records.diagnosis import Diagnosis, HostSummary
from stoker.records.profile import Environment, LoaderFacts
from stoker.report import numbers, wording
from stoker.report.plain import line

# A list of files that would have been written is a hint, not a log; the JSON has all of them.
_FILES_SHOWN = 4
# The cost of watching is told to a tenth of a percent; less is not nothing.
_TOO_SMALL = 0.001


def cores(host: HostSummary) -> str:
    """Owned against needed: "cores owned 2 (affinity 2, quota none), needed 7.5"."""
    parts = [f"affinity {host.affinity}"]
    parts.append(f"quota {'none' if host.quota is None else _count(host.quota)}")
    if host.scheduler:
        parts.append(line(host.scheduler))
    if host.ranks > 1:
        parts.append(f"shared by {host.ranks} ranks")
    owned = f"cores owned {_count(host.cores_owned)} ({', '.join(parts)})"
    if host.cores_needed is None or math.isnan(host.cores_needed):
        return f"{owned}, needed: unknown"
    return f"{owned}, needed {_count(host.cores_needed)}"


def host_remarks(host: HostSummary) -> tuple[str, ...]:
    """What about the host is out of the ordinary."""
    remarks = []
    if host.worker_affinity is not None and host.worker_affinity != host.affinity:
        remarks.append(
            f"workers may run on {host.worker_affinity} of them, the training process on "
            f"{host.affinity}"
        )
    if host.throttled_s > 0:
        remarks.append(
            f"throttled by the quota for {numbers.amount(host.throttled_s, 's')} "
            f"({numbers.percent(host.throttled_share)} of the time)"
        )
    free, needed = host.shm_free_bytes, host.shm_needed_bytes
    if free is not None and needed is not None and needed > free:
        remarks.append(
            f"shared memory: {numbers.amount(needed, 'bytes')} needed for the batches in flight, "
            f"{numbers.amount(free, 'bytes')} free"
        )
    return tuple(remarks)


def facts(diagnosis: Diagnosis) -> tuple[tuple[str, str], ...]:
    """How it was measured: (label, text) pairs in reading order; what is unknown is left out."""
    environment = diagnosis.environment
    pairs = [
        ("ended", wording.ENDS[diagnosis.profile.end]),
        ("loader", _loader(diagnosis.profile.loader)),
        ("warm-up", _warm_up(environment)),
        ("watching", _overhead(environment)),
        ("writes", _writes(environment)),
        ("machine", _machine(environment)),
    ]
    pairs.extend(("note", line(note)) for note in environment.notes)
    return tuple((label, text) for label, text in pairs if text)


def workers(count: int) -> str:
    """A number of workers in words."""
    return {0: "no workers", 1: "1 worker"}.get(count, f"{count:,} workers")


def _loader(loader: LoaderFacts | None) -> str:
    if loader is None:
        return ""
    words = [workers(loader.workers)]
    if loader.workers:
        if loader.start_method:
            words.append(line(loader.start_method))
        if loader.prefetch_factor is not None:
            words.append(f"prefetch {loader.prefetch_factor}")
        if loader.persistent_workers:
            words.append("persistent")
    if loader.pin_memory:
        words.append("pinned")
    if loader.batch_bytes:
        words.append(f"{numbers.amount(float(loader.batch_bytes), 'bytes')} a batch")
    if loader.dataset:
        words.append(f"dataset {line(loader.dataset)}")
    return ", ".join(words)


def _warm_up(environment: Environment) -> str:
    count = environment.warmup_discarded
    if count == 0:
        return "no step thrown away: level from the start"
    return f"{count:,} step{'s' if count != 1 else ''} thrown away"


def _overhead(environment: Environment) -> str:
    share = environment.overhead_share
    if share is None or not math.isfinite(share):
        return ""
    if abs(share) < _TOO_SMALL:
        return f"cost less than {numbers.amount(_TOO_SMALL, 'share')} of a step"
    return f"cost {numbers.amount(share, 'share')} of a step"


def _writes(environment: Environment) -> str:
    text = wording.WRITES.get(environment.writes, line(environment.writes))
    files = environment.would_write
    if not files:
        return text
    shown = ", ".join(line(name) for name in files[:_FILES_SHOWN])
    more = f" and {len(files) - _FILES_SHOWN:,} more" if len(files) > _FILES_SHOWN else ""
    return f"{text}; would have written {shown}{more}"


def _machine(environment: Environment) -> str:
    device = f"device {line(environment.device)}"
    if environment.emulated:
        device += " (emulated)"
    versions = [f"{line(name)} {line(version)}" for name, version in environment.versions.items()]
    parts = [line(environment.machine), device, f"python {line(environment.python)}"]
    return ", ".join([*parts, *versions, f"stoker {line(environment.stoker)}"])


def _count(value: float) -> str:
    """A number of cores: 2, 7.5, 0.75."""
    return numbers.amount(value, "")
