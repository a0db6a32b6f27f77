"""Whether a pack is what its sources and settings would give now.

Files are known by name, size and time of change, or by a hash of their bytes where that was kept. A
Dataset doesn't tell: some of its samples are made again and compared with what is stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from stoker.errors import InputError
from stoker.pack.job import Job
from stoker.pack.manifest import Field, Manifest, Role, Shard
from stoker.pack.reader import Pack
from stoker.pack.served import COMPARED, spread
from stoker.pack.sources.dataset import is_in_hand
from stoker.pack.work import Work


def check_way(job: Job, found: Manifest, folder: Path) -> None:
    """Raise InputError when the pack was made in another way, or holds other fields."""
    differs = [
        f"{name} was {old!r}, is {new!r}"
        for name, old, new in (
            *_pairs(found.transform, job.transform),
            ("the order", found.origin.order, job.origin.order),
            *_sources(found, job),
            *_fields(found.fields, job.fields),
        )
        if old != new
    ]
    if differs:
        raise InputError(
            f"{folder} was made in another way: {differs[0]}",
            looked_at=f"the settings and fields in {folder / 'manifest.json'}",
            run_next="give the settings and the source of then, or pack into a new folder",
        )


_Pair = tuple[str, object, object]


def _pairs(old: msgspec.Struct, new: msgspec.Struct) -> list[_Pair]:
    names = old.__struct_fields__
    return [(name, getattr(old, name), getattr(new, name)) for name in names]


def _sources(found: Manifest, job: Job) -> Iterator[_Pair]:
    """Of a Dataset the name says how many of its transforms were done."""
    if "dataset" in (found.origin.kind, job.origin.kind):
        yield "the Dataset", found.origin.location, job.origin.location


def _fields(old: tuple[Field, ...], new: tuple[Field, ...]) -> Iterator[_Pair]:
    before, names = ([field.name for field in fields] for fields in (old, new))
    yield "what it holds", ", ".join(before), ", ".join(names)
    if before == names:
        for then, now in zip(old, new, strict=True):
            for name, a, b in _pairs(then, now):
                yield f"the {name} of {now.name}", a, b


def require_one_source(found: Manifest, folder: Path) -> None:
    """Raise InputError for a pack that was appended to from another source than its first."""
    if found.origin.count != found.samples:
        raise InputError(
            f"{folder} was made from several sources: no single one can be compared with it",
            looked_at=f"{found.samples:,} samples; the last source, {found.origin.location}, gave "
            f"{found.origin.count:,}",
            run_next="stoker verify finds damage; changed sources need a new folder",
        )


def check_up_to_date(job: Job, found: Pack) -> None:
    """Raise InputError when the pack was made from other sources or in another way."""
    check_way(job, found.manifest, found.path)
    require_one_source(found.manifest, found.path)
    now, then = job.origin, found.manifest.origin
    if (now.fingerprint, now.count) != (then.fingerprint, then.count) or (
        set(job.classes) != set(found.classes)  # --append numbers new ones behind the old
    ):
        raise _out_of_date(
            job,
            found.path,
            "the sources changed since it was made",
            f"names, sizes and times of change; {then.count:,} sources then, {now.count:,} now",
        )
    with Comparison(job, found) as comparison:
        other = comparison.other_sample()
    if other is not None:
        looked_at = f"{COMPARED} samples from all over it, made again"
        raise _out_of_date(job, found.path, other, looked_at)


def _out_of_date(job: Job, folder: Path, why: str, looked_at: str) -> InputError:
    return InputError(
        f"{folder} is out of date: {why}",
        looked_at=looked_at,
        run_next="pack into a new folder"
        if is_in_hand(job.listing.location)  # what a script made can't be packed in part
        else "run again with --repack: only shards that changed are made again",
    )


class Comparison:
    """What a pack holds beside what its sources give now, which are read in this process."""

    def __init__(self, job: Job, pack: Pack) -> None:
        self._job, self._pack = job, pack

    def __enter__(self) -> Comparison:
        return self

    def __exit__(self, *_: object) -> None:
        if "_work" in self.__dict__:
            self._work.close()

    @cached_property
    def _work(self) -> Work:
        return Work(self._job.setup(str(self._pack.path)))

    def has_same_stats(self, shard: Shard, positions: NDArray[np.int64]) -> bool:
        """Names, sizes, times and values of the sources at these positions are the shard's."""
        return self._job.listing.fingerprint(positions) == shard.sources

    def has_same_bytes(self, shard: Shard, positions: NDArray[np.int64]) -> bool:
        """Names and hashes of the sources at these positions are those of the shard's samples.

        What could not be read has no hash.
        """
        listing, pack = self._job.listing, self._pack
        bad = {one.index for one in shard.quarantine}
        for index, position in enumerate(positions.tolist(), shard.start):
            ref = listing.sample(position)
            if pack.source(index) != ref.name:
                return False
            if index in bad:
                continue
            try:
                now = self._work.source_hash(ref)
            except Exception:  # noqa: BLE001 - whatever a broken source raises
                return False
            if now != int(pack.value("source_hash", index)):
                return False
        return True

    def can_be_mended(self, shard: Shard, positions: NDArray[np.int64]) -> bool:
        """A sample that could not be read can be now: the store or its rights were at fault."""
        fields = self._fields(shard)
        for bad in shard.quarantine:
            ref = self._job.listing.sample(int(positions[bad.index - shard.start]))
            try:
                self._work.stored(ref, fields)
            except Exception:  # noqa: BLE001 - as broken as before
                continue
            return True
        return False

    def other_sample(self) -> str | None:
        """How a sample of a Dataset is another than the one stored; None where none was found.

        Of other sources the files tell.
        """
        if self._job.listing.kind != "dataset":
            return None
        places = self._places(spread(self._stored()))
        return next((told for i, p in places.items() if (told := self._other(i, p))), None)

    def _stored(self) -> NDArray[np.int64]:
        """Indices that hold a sample, of the shards that are finished."""
        shards = self._pack.shards
        there = [np.arange(shard.start, shard.start + shard.count) for shard in shards]
        bad = [one.index for shard in shards for one in shard.quarantine]
        return np.setdiff1d(np.concatenate([np.empty(0, np.int64), *there]), bad)

    def _places(self, indices: list[int]) -> Mapping[int, int]:
        """Where in the Dataset these samples come from; without those that it has no more."""
        if is_in_hand(self._job.listing.location):  # its samples go by the names of their files
            return {index: int(self._job.positions[index]) for index in indices}
        names = self._job.listing.names
        by_name = {self._pack.source(index): index for index in indices}
        found = ((by_name.get(names[position]), position) for position in range(len(names)))
        return {index: position for index, position in found if index is not None}

    def _other(self, index: int, position: int) -> str | None:
        shard = self._pack.shards[self._pack.locate(index)[0]]
        fields = self._fields(shard)
        try:
            now = self._work.stored(self._job.listing.sample(position), fields)
        except Exception as error:  # noqa: BLE001 - whatever the user's code raises
            return f"sample {index} can't be made any more: {type(error).__name__}: {error}"
        for field in fields:
            if field.role is Role.PROVENANCE:
                continue
            if now[field.name] != bytes(self._pack.raw(field.name, index)):
                return f"sample {index}: its {field.name!r} is another than the one stored"
        return None

    def _fields(self, shard: Shard) -> tuple[Field, ...]:
        """The fields with the shapes that they have in that shard."""
        return tuple(
            msgspec.structs.replace(field, shape=shard.shapes[field.name])
            if field.name in shard.shapes
            else field
            for field in self._pack.manifest.fields
        )
