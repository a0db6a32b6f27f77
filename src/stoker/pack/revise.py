"""Changes to a pack that is there: more samples, changed sources, parts of several machines.

The pack of before stays whole until the new manifest is in place; then its unused files go.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np

from stoker.errors import InputError
from stoker.pack import journal, layout, manifest
from stoker.pack.build import Packed, check_way, notes_of, seal
from stoker.pack.job import Job
from stoker.pack.manifest import Manifest, Shard
from stoker.pack.reader import open_pack
from stoker.pack.shard import ShardFrame
from stoker.pack.verify import verify


def repacked(job: Job, folder: Path) -> Job:
    """The job with only the shards to be made whose sources or bytes changed.

    Raises PackError when there is no pack, InputError when it was made in another way.
    """
    found = manifest.read(folder)
    check_way(job, found, folder)
    if found.fields != job.fields or found.shard_samples != job.shard_samples:
        raise InputError(
            f"{folder} has other fields or shards of another length",
            looked_at=f"fields {', '.join(f.name for f in found.fields)}; "
            f"{found.shard_samples:,} samples a shard, {job.shard_samples:,} now",
            run_next="pack into a new folder",
        )
    generation = found.generation + 1
    damaged = {one.shard for one in verify(folder).damage}
    # Labels are numbers of classes: other classes, other labels in every shard.
    there = {s.number: s for s in found.shards} if found.classes == job.classes else {}
    kept: list[Shard] = []
    frames: list[ShardFrame] = []
    for frame in job.frames:
        shard = there.get(frame.number)
        if shard is not None and shard.number not in damaged and _is_same(job, frame, shard):
            kept.append(shard)
        else:
            stem = layout.stem(frame.number, generation)
            frames.append(msgspec.structs.replace(frame, stem=stem))
    return msgspec.structs.replace(
        job, frames=tuple(frames), kept=tuple(kept), generation=generation
    )


def _is_same(job: Job, frame: ShardFrame, shard: Shard) -> bool:
    is_alike = (frame.start, frame.count) == (shard.start, shard.count)
    shapes = {f.name: f.shape for f in frame.fields if f.name in shard.shapes}
    return is_alike and shapes == shard.shapes and job.sources(frame) == shard.sources


def appended(job: Job, folder: Path) -> Job:
    """The job with only the samples that the pack lacks, behind those it has.

    Classes keep their numbers, new ones come behind them. Raises InputError when the pack was made
    in another way, when there is nothing to add, or when it is stored in aspect buckets.
    """
    pack = open_pack(folder)
    found = pack.manifest
    check_way(job, found, folder)
    if job.transform.fit == "bucket":
        raise InputError(
            "a pack of aspect buckets is ordered by them: nothing can be put behind it",
            looked_at=str(folder),
            run_next="stoker pack SRC DST --repack",
        )
    there = {pack.source(index) for index in range(len(pack))}
    names = job.listing.names
    new = [p for p in job.positions.tolist() if names[p] not in there]
    if not new:
        raise InputError(
            f"{folder} has all {len(names):,} sources already",
            looked_at="the names of the sources",
            run_next="--repack makes changed ones again",
        )
    generation, start = found.generation + 1, len(pack)
    fields = job.frames[0].fields
    frames: list[ShardFrame] = []
    for at in range(0, len(new), job.shard_samples):
        count = min(job.shard_samples, len(new) - at)
        number = found.shards[-1].number + 1 + len(frames)
        stem = layout.stem(number, generation)
        frames.append(ShardFrame(number, stem, start + at, count, fields))
    # Positions are looked up by index: those of what is there already are never asked for.
    positions = np.concatenate([np.full(start, -1), np.array(new)]).astype(np.int64)
    classes, job = _joined_classes(job, found)
    return msgspec.structs.replace(
        job,
        frames=tuple(frames),
        kept=found.shards,
        positions=positions,
        generation=generation,
        classes=classes,
        shard_samples=found.shard_samples,
    )


def _joined_classes(job: Job, found: Manifest) -> tuple[tuple[str, ...], Job]:
    """All classes, the old ones first, and the job with labels numbered that way."""
    classes = (*found.classes, *(n for n in job.classes if n not in found.classes))
    if classes == job.classes or not job.classes:
        return found.classes or job.classes, job
    numbers = np.array([classes.index(name) for name in job.classes], dtype=np.int64)
    labels = job.listing.labels()
    if labels is None:
        return classes, job
    values = dict(job.listing.values)
    (name,) = [c.name for c in job.listing.columns if c.kind == "label"][:1]
    values[name] = numbers[labels]
    listing = msgspec.structs.replace(job.listing, values=values)
    return classes, msgspec.structs.replace(job, listing=listing)


def finalize(job: Job, folder: Path) -> Packed:
    """Join the parts that several machines packed with --shard.

    Raises InputError when a part is missing, unfinished, of another job or still at work.
    """
    paths = sorted(folder.glob("journal-*-of-*.jsonl"))
    if not paths:
        raise InputError(
            f"{folder} has no parts to join",
            looked_at=f"{folder}/journal-*-of-*.jsonl",
            run_next="stoker pack SRC DST --shard 0/N, and so on, first",
        )
    shards: dict[int, Shard] = {}
    for path in paths:
        key, _, _, done = journal.read(path)
        if key != job.key:
            raise InputError(
                f"{path.name} was packed from other sources or with other settings",
                looked_at=str(path),
                run_next="pack that part again with the options of the others",
            )
        shards |= done
    missing = [frame.number for frame in job.frames if frame.number not in shards]
    if missing:
        raise InputError(
            f"{len(missing)} of {len(job.frames)} shards are not packed, the first is {missing[0]}",
            looked_at=", ".join(path.name for path in paths),
            run_next="run the missing parts with --shard I/N --resume",
        )
    seal(job, folder, tuple(shards[frame.number] for frame in job.frames))
    for path in paths:
        path.unlink()
    pack = open_pack(folder)
    return Packed(pack, pack.manifest.quarantine, notes_of(pack.shards), len(pack), 0.0)
