"""Whether a pack would help, and which: measured on a sample, before anything is packed.

Each candidate is really packed and read, some hundred samples of it, in a folder beside the target
that is removed again. Whatever isn't measured here isn't forecast.
"""

from __future__ import annotations

import itertools
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from stoker.errors import InputError
from stoker.pack import speed
from stoker.pack.build import How, Progress, build
from stoker.pack.job import Job, make_job
from stoker.pack.manifest import Transform
from stoker.pack.sources.listing import Listing, Place
from stoker.records.diagnosis import VerdictCode
from stoker.stats import Spread, bootstrap

# Samples of a candidate that are packed: a second or two, and sizes to a few per cent.
SAMPLED = 512
# A loader that gives this much more than the device takes is not what it waits for.
_ENOUGH = 1.05
# Less gain than this isn't worth a copy of the data.
_LEAST_GAIN = 1.2


class PackCandidate(msgspec.Struct, frozen=True, kw_only=True):
    """One way to pack, and what it would give.

    `read_samples_per_s` is what the processors can take out of it, `storage_samples_per_s` what the
    disk gives when nothing is cached; `is_cached` whether it fits into memory and is read from
    there after the first epoch. `counted` says what was done for a sample.
    """

    tier: str
    size: int | None
    bytes: float
    pack_s: Spread
    read_samples_per_s: Spread
    storage_samples_per_s: float
    is_cached: bool
    limit: str
    counted: str = ""
    step_s: float | None = None

    @property
    def samples_per_s(self) -> float:
        """The most that a loader gets out of it, epoch after epoch."""
        if self.is_cached:
            return self.read_samples_per_s.median
        return min(self.read_samples_per_s.median, self.storage_samples_per_s)


class PackPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The forecast for all candidates. `recommended` is None when no pack would help.

    `first` is what to know or to do before any pack, one sentence each; `withheld` why no step is
    forecast beside a diagnosis.
    """

    schema: str = "stoker.pack-plan/1"
    samples: int
    source_bytes: int
    workers: int
    # What the processors get from the source as it is, and what was done for a sample.
    now_samples_per_s: Spread
    now_counted: str = ""
    read_bytes_per_s: float
    write_bytes_per_s: float
    cache_bytes: int
    free_bytes: int
    needed_samples_per_s: float | None
    step_s: float | None
    candidates: tuple[PackCandidate, ...]
    recommended: PackCandidate | None
    reason: str
    first: tuple[str, ...] = ()
    withheld: str = ""


class Need(msgspec.Struct, frozen=True, kw_only=True):
    """What a diagnosed script needs: seconds a step on the device alone and as it is, batch.

    `verdict` is what limits it now, `withheld` why the diagnosis promises no gain; empty where it
    may.
    """

    device_s: float
    real_s: float
    batch: int
    verdict: VerdictCode
    withheld: str = ""

    @property
    def samples_per_s(self) -> float:
        """Samples a second that keep the device busy."""
        return self.batch / self.device_s

    def step_s(self, samples_per_s: float) -> float:
        """With loading beside the step, a step takes what the slower of the two takes."""
        return max(self.device_s, self.batch / samples_per_s)


def plan(
    listing: Listing,
    transforms: Sequence[Transform],
    folder: Path,
    *,
    workers: int,
    memory_bytes: int,
    hashes: bool = False,
    need: Need | None = None,
    told: tuple[str, ...] = (),
) -> PackPlan:
    """Measure and forecast. `folder` is where the pack would lie; it need not exist.

    `memory_bytes` can hold a pack; `told` is known before. What the source gives now is brought to
    the size of the last of the raw transforms, and so is what keeps its files; of a Dataset it is
    the rate at which that pack is made. Raises InputError for transforms that can't be, and
    PackError as packing does.
    """
    beside = _existing_parent(folder)
    some = subset(listing, SAMPLED)
    asked = [one for one in transforms if one.tier == "raw"][-1]
    host = _Host(workers, _disk(beside), memory_bytes, asked)
    candidates = []
    has_files = listing.kind != "dataset"
    now: Spread | None = None
    with tempfile.TemporaryDirectory(dir=beside, prefix=".stoker-plan-") as made:
        for number, transform in enumerate(transforms):
            scratch = Path(made) / str(number)
            job = make_job(some, transform, hashes=hashes)
            candidate, rate = _measured(job, len(listing), scratch, host)
            if transform is asked:
                now = speed.sources(some, asked, workers) if has_files else rate
            candidates.append(_with_step(candidate, need))
            shutil.rmtree(scratch)
    assert now is not None, "one candidate is raw"
    recommended, reason = _choice(candidates, now, need, shutil.disk_usage(beside).free)
    return PackPlan(
        samples=len(listing),
        source_bytes=int(listing.sizes.sum()),
        workers=workers,
        now_samples_per_s=now,
        now_counted=speed.counted_of_sources(asked) if has_files else speed.MADE,
        read_bytes_per_s=host.disk.read_bytes_per_s,
        write_bytes_per_s=host.disk.write_bytes_per_s,
        cache_bytes=memory_bytes,
        free_bytes=shutil.disk_usage(beside).free,
        needed_samples_per_s=need.samples_per_s if need else None,
        step_s=need.real_s if need else None,
        candidates=tuple(candidates),
        recommended=recommended,
        reason=reason,
        first=(*told, *_first(now, need)),
        withheld=need.withheld if need else "",
    )


def subset(listing: Listing, count: int) -> Listing:
    """A listing of so many samples evenly spread over the whole; of a Dataset, the first ones."""
    if count >= len(listing):
        return listing
    if listing.kind == "dataset":
        chosen = np.arange(count)
    else:
        chosen = np.linspace(0, len(listing) - 1, count).astype(int)
    positions = chosen.tolist()

    def place(position: int, column: str) -> Place | None:
        return listing.place(positions[position], column)

    return msgspec.structs.replace(
        listing,
        names=[listing.names[position] for position in positions],
        sizes=listing.sizes[chosen],
        mtimes_ns=listing.mtimes_ns[chosen],
        signs=None if listing.signs is None else listing.signs[chosen],
        values={name: [column[p] for p in positions] for name, column in listing.values.items()},
        place=place,
    )


def _existing_parent(folder: Path) -> Path:
    path = folder.absolute()
    while not path.is_dir():
        path = path.parent
    return path


def _disk(folder: Path) -> speed.Disk:
    """What the disk does. Raises InputError where it takes no file, or is full."""
    try:
        return speed.disk(folder)
    except OSError as error:
        raise InputError(
            f"no pack can be tried in {folder}: {error.strerror}",
            looked_at=f"a file of {speed.DISK_BYTES // 10**6} MB there, which was removed again",
            run_next="stoker pack SRC DST --plan, with a DST where you may write, on a disk with "
            "room",
        ) from error


class _Host(NamedTuple):
    """What packs are made and read with."""

    workers: int
    disk: speed.Disk
    memory_bytes: int
    # To whose size files that are kept are brought when they are read.
    asked: Transform


def _measured(job: Job, count: int, scratch: Path, host: _Host) -> tuple[PackCandidate, Spread]:
    """The candidate for `count` samples like those of the job, and the rate of packing these."""
    steps: list[tuple[float, int]] = []

    def on_step(step: Progress) -> None:
        steps.append((time.perf_counter(), step.done))

    began = time.perf_counter()
    done = build(job, scratch, How(workers=host.workers, on_step=on_step))
    assert done.pack is not None, "all of the sample is packed"
    rate = _rate(steps)
    started_s = max(0.0, steps[0][0] - began - steps[0][1] / rate.median)
    bytes_each = sum(f.size for s in done.pack.shards for f in s.files) / len(done.pack)
    reads = speed.reads(done.pack, host.workers, fit=host.asked)
    whole = bytes_each * count
    is_cached = whole < host.memory_bytes
    from_disk = host.disk.read_bytes_per_s / bytes_each
    # The disk takes what the processors make, or the processors wait for the disk.
    shortest_s = whole / host.disk.write_bytes_per_s
    median, low, high = (
        started_s + max(count / one, shortest_s) for one in (rate.median, rate.high, rate.low)
    )
    candidate = PackCandidate(
        tier=job.transform.tier,
        size=job.transform.size,
        bytes=whole,
        pack_s=Spread(median, low, high, rate.count),
        read_samples_per_s=reads,
        storage_samples_per_s=from_disk,
        is_cached=is_cached,
        limit="processor" if is_cached or reads.median < from_disk else "storage",
        counted=speed.counted_of(job.transform, host.asked),
    )
    return candidate, rate


def _rate(steps: list[tuple[float, int]]) -> Spread:
    """Samples a second between the first answer and the last; the start is no part of it."""
    (first_s, first), (last_s, last) = steps[0], steps[-1]
    if last == first:
        return Spread.exact(first / max(1e-6, last_s - first_s or 1.0))
    quarters = np.array_split(np.arange(len(steps)), min(8, len(steps) - 1) + 1)
    marks = [steps[int(part[0])] for part in quarters] + [steps[-1]]
    rates = [(b - a) / max(1e-9, t - s) for (s, a), (t, b) in itertools.pairwise(marks) if b > a]
    spread = bootstrap(rates)
    whole = (last - first) / max(1e-9, last_s - first_s)
    low, high = min(spread.low, whole), max(spread.high, whole)
    return Spread(whole, max(low, whole / 10), min(high, whole * 10), len(rates))


def _with_step(candidate: PackCandidate, need: Need | None) -> PackCandidate:
    """With what a step of the diagnosed script takes, and what limits it then."""
    if need is None or need.withheld:
        return candidate
    step_s = need.step_s(candidate.samples_per_s)
    limit = "device" if step_s == need.device_s else candidate.limit
    return msgspec.structs.replace(candidate, step_s=step_s, limit=limit)


def _first(now: Spread, need: Need | None) -> tuple[str, ...]:
    """What to know or to do before any pack."""
    if need is None:
        return ()
    told = []
    if need.withheld:
        told.append(f"no step is forecast, as the diagnosis promises no gain: {need.withheld}")
    if need.verdict is VerdictCode.INCONCLUSIVE:
        told.append(
            "warning: the diagnosis is inconclusive, so what the device takes is uncertain and all "
            "that follows from it; measure longer before a pack is made"
        )
    if need.verdict is VerdictCode.SERIAL_LOADER:
        before, after = need.real_s * 1e3, need.step_s(now.median) * 1e3
        gives = f"; a step of {before:,.1f} ms becomes {after:,.1f} ms"
        told.append(
            "first: let loading run beside the step (num_workers, or stoker run --apply overlap): "
            f"decoding takes turns with it now{'' if need.withheld else gives}"
        )
    return tuple(told)


def _choice(
    candidates: Sequence[PackCandidate], now: Spread, need: Need | None, free: int
) -> tuple[PackCandidate | None, str]:
    """What to do, and why."""
    if need is not None and now.median >= _ENOUGH * need.samples_per_s:
        return None, _not_wanted(now, need)
    # Smaller pictures than were asked for are shown, and never chosen for the user.
    sizes = [one.size for one in candidates if one.tier != "keep"]
    asked = None if None in sizes else max(one or 0 for one in sizes)
    wanted = [one for one in candidates if one.tier == "keep" or one.size == asked]
    fitting = [one for one in wanted if one.bytes < free]
    if not fitting:
        return None, "no candidate fits on the disk"
    best = max(fitting, key=lambda one: one.samples_per_s)
    if need is not None:
        enough = [one for one in fitting if one.samples_per_s >= _ENOUGH * need.samples_per_s]
        best = min(enough, key=lambda one: one.bytes, default=best)
    gain = best.samples_per_s / now.median
    if gain < _LEAST_GAIN:
        return None, (
            f"no gain: the best gives {best.samples_per_s:,.0f} samples a second, decoding the "
            f"sources {now.median:,.0f}"
        )
    named = best.tier if best.size is None else f"{best.tier} at {best.size}"
    told = f"{named} gives {gain:.1f} times what decoding the sources gives"
    if need is not None and need.verdict is VerdictCode.SERIAL_LOADER and not need.withheld:
        beside, packed = need.step_s(now.median), need.step_s(best.samples_per_s)
        told += (
            f"; after loading runs beside the step, a step of {beside * 1e3:,.1f} ms becomes "
            f"{packed * 1e3:,.1f} ms with it ({beside / packed:.2f}x)"
        )
    return best, told


def _not_wanted(now: Spread, need: Need) -> str:
    """Why no pack is wanted where decoding the sources keeps up with the device."""
    rates = (
        f"the device takes {need.samples_per_s:,.0f} samples a second, and decoding gives "
        f"{now.median:,.0f}"
    )
    match need.verdict:
        case VerdictCode.SERIAL_LOADER:
            gives = "" if need.withheld else "after that a pack gives 1.00x: "
            return f"{gives}{rates} when it runs beside the step"
        case VerdictCode.DEVICE_BOUND | VerdictCode.INCONCLUSIVE:
            return f"device-bound: {rates}; if loading is waited for, it is not for want of a pack"
        case _:
            return f"{rates}; the diagnosis says {need.verdict}, which a pack doesn't mend"
