"""Changes to a pack that is there: more samples, changed sources, parts of several machines.

The pack of before stays whole until the new manifest is in place; then its unused files go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from stoker.errors import InputError
from stoker.pack import journal, layout, manifest
from stoker.pack.build import Packed, finish_killed, notes_of, seal
from stoker.pack.job import Job
from stoker.pack.manifest import Manifest, Shard, utf8
from stoker.pack.reader import Pack, open_pack
from stoker.pack.shard import ShardFrame
from stoker.pack.staleness import Comparison, check_up_to_date, check_way, require_one_source
from stoker.pack.verify import verify


def repacked(job: Job, folder: Path) -> Job:
    """The job with only the shards to be made whose sources or bytes changed.

    Of a pack with hashes these decide, and all sources are read; else sizes and times of change.
    Samples that could not be read are tried again. Raises PackError when there is no pack,
    InputError when it was made in another way or from several sources.
    """
    found = manifest.read(folder)
    check_way(job, found, folder)
    require_one_source(found, folder)
    generation = found.generation + 1
    damaged = {one.shard for one in verify(folder).damage}
    whole = tuple(shard for shard in found.shards if shard.number not in damaged)
    # Labels are numbers of classes: other classes, other labels in every shard.
    there = {s.number: s for s in whole} if found.classes == job.classes else {}
    kept: list[Shard] = []
    frames: list[ShardFrame] = []
    undamaged = Pack(folder, msgspec.structs.replace(found, shards=whole))
    with Comparison(job, undamaged) as comparison:
        if not found.origin.is_hashed and comparison.other_sample() is not None:
            there = {}
        for frame in job.frames:
            shard = there.get(frame.number)
            if shard is not None and _is_same(job, frame, shard, found, comparison):
                kept.append(msgspec.structs.replace(shard, sources=job.sources(frame)))
            else:
                stem = layout.stem(frame.number, generation)
                frames.append(msgspec.structs.replace(frame, stem=stem))
    return msgspec.structs.replace(
        job, frames=tuple(frames), kept=tuple(kept), generation=generation
    )


def _is_same(
    job: Job, frame: ShardFrame, shard: Shard, found: Manifest, comparison: Comparison
) -> bool:
    is_alike = (frame.start, frame.count) == (shard.start, shard.count)
    shapes = {f.name: f.shape for f in frame.fields if f.name in shard.shapes}
    if not is_alike or shapes != shard.shapes:
        return False
    positions = job.positions[frame.start : frame.start + frame.count]
    look = comparison.has_same_bytes if found.origin.is_hashed else comparison.has_same_stats
    return look(shard, positions) and not comparison.can_be_mended(shard, positions)


def appended(job: Job, folder: Path) -> Job:
    """The job with only the samples that the pack lacks, behind those it has.

    The source has all that the pack holds, unchanged, and more; or nothing of it. Classes keep
    their numbers, new ones come behind them. Raises InputError when neither is so, when the pack
    was made in another way, when there is nothing to add, or when it is stored in aspect buckets.
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
    classes, job = _joined_classes(job, found, folder)
    names = _numbered(job.listing.names[position] for position in range(len(job.listing)))
    places = {name: position for position, name in enumerate(names)}
    held = _numbered(pack.source(index) for index in range(len(pack)))
    old = np.array([places.pop(name, -1) for name in held], dtype=np.int64)
    left = set(places.values())
    new = [position for position in job.positions.tolist() if position in left]
    if not new:
        raise InputError(
            f"{folder} has all {len(names):,} sources already",
            looked_at="the names of the sources",
            run_next="--repack makes changed ones again",
        )
    _require_unchanged(job, pack, old)
    generation, start = found.generation + 1, len(pack)
    fields = job.frames[0].fields
    frames: list[ShardFrame] = []
    for at in range(0, len(new), found.shard_samples):
        count = min(found.shard_samples, len(new) - at)
        number = found.shards[-1].number + 1 + len(frames)
        stem = layout.stem(number, generation)
        frames.append(ShardFrame(number, stem, start + at, count, fields))
    return msgspec.structs.replace(
        job,
        frames=tuple(frames),
        kept=found.shards,
        positions=np.concatenate([old, np.array(new, dtype=np.int64)]),
        generation=generation,
        classes=classes,
        shard_samples=found.shard_samples,
    )


def _numbered(names: Iterable[str]) -> list[tuple[str, int]]:
    """The names, told apart where several samples have one: members of an archive may."""
    seen: Counter[str] = Counter()
    found = []
    for name in names:
        found.append((name, seen[name]))
        seen[name] += 1
    return found


def _require_unchanged(job: Job, pack: Pack, places: NDArray[np.int64]) -> None:
    """Raise InputError unless the source has all samples of the pack as they were, or none.

    `places`: where in the source each sample of the pack is, −1 for one that it lacks.
    """
    lacking = np.flatnonzero(places < 0)
    if len(lacking) == len(pack):
        return  # another source beside the first
    if len(lacking):
        there = int(np.flatnonzero(places >= 0)[0])
        raise InputError(
            f"the source has {len(pack) - len(lacking):,} of the {len(pack):,} samples of "
            f"{pack.path}: {utf8(pack.source(there))} for one, and not "
            f"{utf8(pack.source(int(lacking[0])))}",
            looked_at=f"the names of the sources, relative to {job.origin.location}",
            run_next="--repack when sources were removed; give files of another source names "
            "of their own, or pack both into a new folder",
        )
    is_hashed = pack.manifest.origin.is_hashed
    with Comparison(job, pack) as comparison:
        problem = comparison.other_sample()
        for shard in pack.shards:
            positions = places[shard.start : shard.start + shard.count]
            if not comparison.has_same_stats(shard, positions) and not (
                is_hashed and comparison.has_same_bytes(shard, positions)
            ):
                last = shard.start + shard.count - 1
                problem = f"of the samples {shard.start} to {last} some changed or have other files"
                break
    if problem is not None:
        raise InputError(
            f"{pack.path} is out of date: {problem}",
            looked_at=f"names, sizes and times of change in {job.origin.location}",
            run_next="--repack first, when they changed; give files of another source names of "
            "their own, or pack both into a new folder",
        )


def _joined_classes(job: Job, found: Manifest, folder: Path) -> tuple[tuple[str, ...], Job]:
    """All classes, the old ones first, and the job with labels numbered that way.

    Raises InputError when labels are numbers on one side and names on the other.
    """
    if bool(found.classes) != bool(job.classes):
        with_names = (folder, job.origin.location)[bool(job.classes)]
        raise InputError(
            f"the labels of {with_names} are names, the others are numbers of their own",
            looked_at=f"{len(found.classes)} classes in {folder}, {len(job.classes)} in the source",
            run_next="give both labels of one kind, or pack into a new folder",
        )
    classes = (*found.classes, *(n for n in job.classes if n not in found.classes))
    if classes == job.classes:
        return classes, job
    labels = job.listing.labels()
    if labels is None:
        return classes, job
    numbers = np.array([classes.index(name) for name in job.classes], dtype=np.int64)
    values = dict(job.listing.values)
    (name,) = [c.name for c in job.listing.columns if c.kind == "label"][:1]
    # Hashes tell a list's numbers from an array's.
    is_list = isinstance(values[name], list)
    values[name] = numbers[labels].tolist() if is_list else numbers[labels]
    listing = msgspec.structs.replace(job.listing, values=values)
    return classes, msgspec.structs.replace(job, listing=listing)


def finalize(job: Job, folder: Path) -> Packed:
    """Join the parts that several machines packed with --shard.

    Raises InputError when a part is missing, unfinished, of another job or still at work.
    """
    was_whole = finish_killed(folder)
    paths = sorted(folder.glob("journal-*-of-*.jsonl"))
    if was_whole and not paths:
        pack = open_pack(folder)
        check_up_to_date(job, pack)
        quarantine = pack.manifest.quarantine
        return Packed(pack, quarantine, notes_of(pack.shards), 0, 0.0, was_whole=True)
    if not paths:
        raise InputError(
            f"{folder} has no parts to join",
            looked_at=f"{folder}/journal-*-of-*.jsonl",
            run_next="stoker pack SRC DST --shard 0/N, and so on, first",
        )
    shards: dict[int, Shard] = {}
    for path in paths:
        head, done = journal.read(path)
        if head is None or head.key != job.key:
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
