"""Writes the files of a shard: rows in their places, in any order; whole and renamed at the end.

Several processes may write the same shard. Fixed fields go straight to where they belong; ragged
ones to a spool for each run of rows, joined when all are there.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from stoker.pack import layout
from stoker.pack.manifest import Field, FileEntry

# How much is read at a time when checksums are made or spools are joined: a block.
_PIECE = layout.BLOCK_BYTES

# A ragged field's samples: their bytes and their shapes.
Ragged = Sequence[tuple[bytes, tuple[int, ...]]]
# A run of rows: arrays (rows, *shape) of fixed fields, lists of ragged ones.
Rows = Mapping[str, NDArray[Any] | Ragged]


class ShardFrame(msgspec.Struct, frozen=True):
    """What must be known of a shard before its first sample is written."""

    number: int
    stem: str
    start: int
    count: int
    fields: tuple[Field, ...]  # fixed fields have their shapes

    def fixed(self) -> list[Field]:
        """The fields with one size."""
        return [field for field in self.fields if field.is_fixed]

    def ragged(self) -> list[Field]:
        """The fields whose size differs."""
        return [field for field in self.fields if not field.is_fixed]


def begin(folder: Path, frame: ShardFrame) -> None:
    """Create the files of the fixed fields, full of zeros. Raises OSError."""
    for field in frame.fixed():
        shape = (frame.count, *_shape(field))
        dtype = np.dtype(field.dtype)
        with _part(folder, layout.array_file(frame.stem, field.name)).open("wb") as file:
            file.write(layout.header(dtype, shape))
            file.truncate(layout.HEADER_BYTES + int(np.prod(shape)) * dtype.itemsize)


def write_rows(folder: Path, frame: ShardFrame, first: int, rows: Rows) -> None:
    """Write a run of rows that begins at row `first`. Raises OSError, a full disk for one."""
    for field in frame.fixed():
        data = np.ascontiguousarray(rows[field.name], dtype=field.dtype)
        if data.shape[1:] != _shape(field):
            raise ValueError(f"{field.name}: {data.shape[1:]} given, {field.shape} wanted")
        if data.size == 0:
            continue
        at = layout.HEADER_BYTES + first * (data.nbytes // len(data))
        path = _part(folder, layout.array_file(frame.stem, field.name))
        with path.open("r+b", buffering=0) as file:
            _write_at(file, data.data.cast("B"), at)
    for field in frame.ragged():
        samples: Any = rows[field.name]
        _write_spool(_spool(folder, frame, field, first), samples)


def finish(folder: Path, frame: ShardFrame, runs: Sequence[int]) -> tuple[FileEntry, ...]:
    """Join, make checksums, flush to the disk and rename; `runs` are the first rows of all runs.

    Raises OSError. What was renamed is complete; doing it again after a crash gives the same.
    """
    for field in frame.ragged():
        _join(folder, frame, field, sorted(runs))
    entries = tuple(
        _sealed(folder, name)
        for field in frame.fields
        for name in layout.files_of(frame.stem, field.name, is_fixed=field.is_fixed)
    )
    for entry in entries:
        _part(folder, entry.name).replace(folder / entry.name)
    for field in frame.ragged():
        for first in runs:
            _spool(folder, frame, field, first).unlink(missing_ok=True)
    return entries


def _shape(field: Field) -> tuple[int, ...]:
    assert field.shape is not None, "a frame's fixed fields have shapes"
    return field.shape


def _part(folder: Path, name: str) -> Path:
    return folder / (name + layout.PART)


def _spool(folder: Path, frame: ShardFrame, field: Field, first: int) -> Path:
    return folder / f"{frame.stem}.{field.name}.{first:08}.spool{layout.PART}"


def _write_at(file: IO[bytes], data: memoryview, at: int) -> None:
    while len(data):
        written = os.pwrite(file.fileno(), data, at)
        data, at = data[written:], at + written


def _write_spool(path: Path, samples: Ragged) -> None:
    """Counts, sizes and shapes as int64, then the bytes."""
    axes = len(samples[0][1]) if samples else 0
    head = np.array(
        [len(samples), axes, *(len(data) for data, _ in samples)]
        + [n for _, shape in samples for n in shape],
        dtype=np.int64,
    )
    with path.open("wb") as file:
        file.write(head.tobytes())
        for data, _ in samples:
            file.write(data)


def _read_spool_head(file: IO[bytes]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    count, axes = np.frombuffer(file.read(16), np.int64).tolist()
    sizes = np.frombuffer(file.read(8 * count), np.int64)
    shapes = np.frombuffer(file.read(8 * count * axes), np.int64).reshape(count, axes)
    return sizes, shapes


def _join(folder: Path, frame: ShardFrame, field: Field, runs: Sequence[int]) -> None:
    sizes, shapes = [], []
    with _part(folder, layout.bytes_file(frame.stem, field.name)).open("wb") as joined:
        for first in runs:
            with _spool(folder, frame, field, first).open("rb") as spool:
                some_sizes, some_shapes = _read_spool_head(spool)
                sizes.append(some_sizes)
                shapes.append(some_shapes)
                while piece := spool.read(_PIECE):
                    joined.write(piece)
    offsets = np.concatenate([[0], np.cumsum(np.concatenate(sizes))]).astype(np.uint64)
    _write_array(folder, layout.offsets_file(frame.stem, field.name), offsets)
    whole = np.concatenate(shapes).astype(np.int32)
    _write_array(folder, layout.shapes_file(frame.stem, field.name), whole)


def _write_array(folder: Path, name: str, data: NDArray[Any]) -> None:
    with _part(folder, name).open("wb") as file:
        file.write(layout.header(data.dtype, data.shape))
        file.write(data.tobytes())


def _sealed(folder: Path, name: str) -> FileEntry:
    """The file's entry, once its bytes are on the disk."""
    sums = layout.BlockSums()
    piece = bytearray(_PIECE)
    with _part(folder, name).open("r+b", buffering=0) as file:
        while count := file.readinto(piece):
            sums.add(memoryview(piece)[:count])
        os.fsync(file.fileno())
    return FileEntry(name=name, size=sums.size, blocks=sums.blocks)
