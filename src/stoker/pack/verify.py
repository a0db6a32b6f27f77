"""Reads a pack's bytes again and compares their checksums; tells which bytes changed.

Reads only. Missing and cut files are damage like any other, so nothing is raised for them.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from stoker.errors import CorruptShardError
from stoker.pack import layout, manifest
from stoker.pack.manifest import Field, FileEntry, Manifest, Shard
from stoker.pack.repair import way_to_repair

_SEED = 0


class Damage(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes that are not those that were written.

    `first` and `last` bound the block in the file; `samples` are the first and last index that
    have bytes there, None where that can't be told. `block` is None for a file of a wrong size.
    """

    shard: int
    file: str
    block: int | None
    first: int
    last: int
    expected: str
    found: str
    samples: tuple[int, int] | None = None

    def __str__(self) -> str:
        where = f"shard {self.shard}, {self.file}"
        if self.block is None:
            return f"{where}: {self.found}, {self.expected} were written"
        told = f"{where}, block {self.block}, bytes {self.first:,} to {self.last:,}"
        held = f", samples {self.samples[0]} to {self.samples[1]}" if self.samples else ""
        return f"{told}{held}: crc32 {self.found}, written was {self.expected}"


class Verified(msgspec.Struct, frozen=True, kw_only=True):
    """What was found. `blocks` and `bytes_read` were compared, of so many in the pack."""

    schema: str = "stoker.verify/1"
    pack: str
    samples: int
    blocks: int
    all_blocks: int
    bytes_read: int
    damage: tuple[Damage, ...]
    # What makes the damage good; empty where there is none.
    repair: str = ""

    def raise_damage(self) -> None:
        """Raise CorruptShardError for the first damage, if there is any."""
        if not self.damage:
            return
        more = f" (and {len(self.damage) - 1} more)" if len(self.damage) > 1 else ""
        raise CorruptShardError(
            f"{self.damage[0]}{more}",
            looked_at=f"{self.blocks:,} of {self.all_blocks:,} blocks of {self.pack}",
            run_next=self.repair,
        )


def verify(
    folder: Path,
    *,
    share: float = 1.0,
    on_step: Callable[[float], None] = lambda _share: None,
) -> Verified:
    """Compare the blocks of all files with their checksums, or a random `share` of them.

    A share is so many of all blocks, to the nearest one and one at least; the same share picks the
    same ones. Raises PackError when there is no pack, and CorruptShardError when the manifest
    itself was changed.
    """
    found = manifest.read(folder)
    everything = sum(_blocks(file) for shard in found.shards for file in shard.files)
    drawn = None if share == 1 else _drawn(everything, share)
    damage: list[Damage] = []
    compared = read = done = 0
    for shard in found.shards:
        for file in shard.files:
            count = _blocks(file)
            chosen = range(count) if drawn is None else _within(drawn, done, count)
            wrong_size = _wrong_size(folder, shard, file)
            if wrong_size is not None:
                damage.append(wrong_size)
                done += count
                continue
            try:
                for block, data in _read(folder / file.name, chosen):
                    compared, read = compared + 1, read + len(data)
                    now = f"{zlib.crc32(data):08x}"
                    if int(now, 16) != layout.block_sum(file.blocks, block):
                        damage.append(_damage(folder, found, shard, file, block, now))
            except OSError as error:  # a disk that fails
                damage.append(_whole(shard, file, 0, f"it cannot be read: {error.strerror}"))
            done += count
            on_step(done / everything)
    return Verified(
        pack=str(folder),
        samples=found.samples,
        blocks=compared,
        all_blocks=everything,
        bytes_read=read,
        damage=tuple(damage),
        repair=way_to_repair(folder, found) if damage else "",
    )


def _drawn(count: int, share: float) -> NDArray[np.int64]:
    """The numbers of so many of all blocks, in order."""
    wanted = min(count, max(1, round(share * count)))
    return np.sort(np.random.default_rng(_SEED).choice(count, wanted, replace=False))


def _within(drawn: NDArray[np.int64], start: int, count: int) -> list[int]:
    """Which of these are the `count` blocks from `start` on, by their numbers in the file."""
    first, last = np.searchsorted(drawn, (start, start + count))
    return [int(number) - start for number in drawn[first:last]]


def _blocks(file: FileEntry) -> int:
    return len(file.blocks) // 8


def _read(path: Path, blocks: Iterable[int]) -> Iterator[tuple[int, bytes]]:
    with path.open("rb", buffering=0) as file:
        for block in blocks:
            yield (
                int(block),
                os.pread(file.fileno(), layout.BLOCK_BYTES, int(block) * layout.BLOCK_BYTES),
            )


def _wrong_size(folder: Path, shard: Shard, file: FileEntry) -> Damage | None:
    try:
        size = (folder / file.name).stat().st_size
    except OSError as error:
        found = f"it is {'missing' if isinstance(error, FileNotFoundError) else error.strerror}"
        size = 0
    else:
        found = f"it has {size:,} bytes"
    if size == file.size and not found.startswith("it is"):
        return None
    return _whole(shard, file, size, found)


def _whole(shard: Shard, file: FileEntry, size: int, found: str) -> Damage:
    """Damage of a file that has so many bytes to be read."""
    return Damage(
        shard=shard.number,
        file=file.name,
        block=None,
        first=min(size, file.size),
        last=max(size, file.size),
        expected=f"{file.size:,} bytes",
        found=found,
    )


def _damage(
    folder: Path, found: Manifest, shard: Shard, file: FileEntry, block: int, now: str
) -> Damage:
    first = block * layout.BLOCK_BYTES
    last = min(file.size, first + layout.BLOCK_BYTES) - 1
    return Damage(
        shard=shard.number,
        file=file.name,
        block=block,
        first=first,
        last=last,
        expected=f"{layout.block_sum(file.blocks, block):08x}",
        found=now,
        samples=_samples(folder, found, shard, file, (first, last)),
    )


def _samples(
    folder: Path, found: Manifest, shard: Shard, file: FileEntry, bytes_: tuple[int, int]
) -> tuple[int, int] | None:
    """First and last index of the samples that have some of the bytes."""
    for field in found.fields:
        if field.is_fixed and file.name == layout.array_file(shard.stem, field.name):
            a_row = _row_bytes(field, shard)
            rows = [max(0, byte - layout.HEADER_BYTES) // max(1, a_row) for byte in bytes_]
        elif not field.is_fixed and file.name == layout.bytes_file(shard.stem, field.name):
            offsets = _offsets(folder, shard, field)
            if offsets is None:
                return None
            rows = [int(np.searchsorted(offsets, byte, side="right")) - 1 for byte in bytes_]
        else:
            continue
        first, last = (shard.start + min(max(0, row), shard.count - 1) for row in rows)
        return first, last
    return None


def _offsets(folder: Path, shard: Shard, field: Field) -> NDArray[np.uint64] | None:
    """Where samples begin, without the header, which may be damaged; None where that is missing."""
    path = folder / layout.offsets_file(shard.stem, field.name)
    try:
        found = np.fromfile(path, np.uint64, offset=layout.HEADER_BYTES)
    except OSError:
        return None
    return found if len(found) == shard.count + 1 else None


def _row_bytes(field: Field, shard: Shard) -> int:
    shape = shard.shapes[field.name] if field.shape is None else field.shape
    return int(np.prod(shape)) * np.dtype(field.dtype).itemsize
