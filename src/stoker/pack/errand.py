"""Packing asked for by one process and done in another: what is wanted, and what came of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from stoker.errors import InputError, StokerError
from stoker.pack import speed
from stoker.pack.build import How, Packed, Progress, build
from stoker.pack.forked import ForkedAhead
from stoker.pack.job import Job, Order, make_job
from stoker.pack.manifest import BadSample, Transform
from stoker.pack.served import COMPARED, in_place_of
from stoker.pack.sources.dataset import list_dataset, take_in_hand


class Errand(msgspec.Struct, frozen=True, kw_only=True):
    """What to pack a Dataset into. `spec` is the name that it goes by in the pack.

    `samples_per_s`: what its reader gets now; a pack that doesn't fit into `memory_bytes`, and
    that the disk would read no faster, is refused.
    """

    folder: str
    spec: str
    transform: Transform
    order_seed: int | None
    shard_bytes: int
    hashes: bool
    workers: int
    resume: bool
    max_bad: int | None
    samples_per_s: float | None
    memory_bytes: int


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """What became of it. `bytes` is None for a part of several."""

    samples: int
    packed: int
    seconds: float
    bytes: int | None
    notes: dict[str, int]
    quarantine: tuple[BadSample, ...]
    remarks: tuple[str, ...]
    kind: str
    location: str
    was_whole: bool
    # Whether the pack can stand in for the Dataset, and how that is known.
    is_servable: bool | None = None
    served: str = ""

    @classmethod
    def of(cls, job: Job, done: Packed) -> Summary:
        """Of a job that is done."""
        size = sum(f.size for s in done.pack.shards for f in s.files) if done.pack else None
        return cls(
            samples=job.samples,
            packed=done.samples,
            seconds=done.seconds,
            bytes=size,
            notes=done.notes,
            quarantine=done.quarantine,
            remarks=job.listing.remarks,
            kind=job.listing.kind,
            location=job.listing.location,
            was_whole=done.was_whole,
        )


def perform(errand: Errand, dataset: Any, tell: Callable[[Progress], None]) -> Summary:
    """Pack the Dataset in hand, in forked workers. Raises what making and building a job raise."""
    folder = Path(errand.folder)
    take_in_hand(errand.spec, dataset)
    crew = ForkedAhead(errand.workers + 1)  # one more, that seals
    try:
        job = make_job(
            list_dataset(errand.spec),
            errand.transform,
            order=Order(errand.order_seed),
            shard_bytes=errand.shard_bytes,
            hashes=errand.hashes,
        )
        _require_gain(job, errand)
        how = How(
            workers=errand.workers,
            resume=errand.resume,
            max_bad=errand.max_bad,
            on_step=tell,
            start=crew,
        )
        summary = Summary.of(job, build(job, folder, how))
    finally:
        crew.close()
    is_servable, told = _tried_out(dataset, folder)
    return msgspec.structs.replace(summary, is_servable=is_servable, served=told)


def _tried_out(dataset: Any, folder: Path) -> tuple[bool, str]:
    """Whether samples made of the pack are the Dataset's own, to the last bit."""
    problem = ""
    for check_draws in (True, False):
        try:
            served = in_place_of(dataset, folder, check_draws=check_draws)
            served[int(served.pack.usable[0])]  # that it can be made at all shows only here
        except StokerError as error:
            problem = problem or error.happened
            continue
        except Exception as error:  # noqa: BLE001 - the pack is whole, whatever the user's code says
            problem = problem or f"{type(error).__name__}: {error}"
            continue
        drawn = "" if check_draws else ", before transforms with random generators of their own"
        count = min(COMPARED, len(served.pack.usable))
        return True, f"{count:,} samples compared with the script's own: the same bytes{drawn}"
    return False, problem


def _require_gain(job: Job, errand: Errand) -> None:
    """Raise InputError where the disk would give no more than the script gets now."""
    whole, folder, samples_per_s = job.payload_bytes(), Path(errand.folder), errand.samples_per_s
    if samples_per_s is None or whole is None or whole < errand.memory_bytes:
        return  # read from memory after the first epoch
    each = whole / max(1, job.samples)
    rate = speed.disk(folder).read_bytes_per_s / each
    if rate <= samples_per_s:
        raise InputError(
            f"no gain: the disk would read {rate:,.0f} samples a second from this pack, and the "
            f"script gets {samples_per_s:,.0f} now",
            looked_at=f"{each / 1e3:,.0f} kB a sample, {whole / 1e9:,.1f} GB, more than the memory "
            f"that is free; reads in {folder}",
            run_next="a faster disk for DST, or --force",
        )
