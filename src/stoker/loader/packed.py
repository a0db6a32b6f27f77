"""Samples of a pack, straight into the rows of a batch: by memory maps or by reads.

Which field becomes what in the batch is decided once, when the loader is made.
"""

from __future__ import annotations

import os
import weakref
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from stoker.errors import CorruptShardError, InputError
from stoker.loader import draws
from stoker.loader.access import Access
from stoker.loader.activity import Activity
from stoker.loader.boxes import Boxes
from stoker.loader.crops import Crop, check_fits, is_resized, sides
from stoker.loader.order import Indices
from stoker.loader.slots import Field
from stoker.pack import FileRange, Pack, descriptors, layout

# Shard and row of each sample.
Places = tuple[Indices, Indices]
# Columns of small values, such as labels, are held in memory up to this many bytes in all.
_HELD_BYTES = 64 * 2**20
_SMALL_BYTES = 64


class Rows(NamedTuple):
    """Samples that are to be written into as many rows, and their random numbers."""

    samples: Indices
    keys: draws.Words
    activity: Activity


class Column(Protocol):
    """One field of a batch."""

    @property
    def field(self) -> Field:
        """What it puts into a batch."""
        ...

    def fill(self, rows: Rows, out: NDArray[Any]) -> None:
        """Write the samples into `out`, one a row."""
        ...


class HeldColumn:
    """Small values, all of them in memory."""

    def __init__(self, pack: Pack, name: str) -> None:
        files = [pack.path / layout.array_file(shard.stem, name) for shard in pack.shards]
        # Read, not mapped: a map of each would keep as many files open as there are shards.
        parts = [np.load(file, allow_pickle=False) for file in files]
        self._values = np.concatenate(parts)
        self.field = Field.of(name, self._values.shape[1:], self._values.dtype)

    @property
    def values(self) -> NDArray[Any]:
        """The value of every sample."""
        return self._values

    def fill(self, rows: Rows, out: NDArray[Any]) -> None:
        """Copy them."""
        np.take(self._values, rows.samples, axis=0, out=out, mode="clip")


class ArrayColumn:
    """Arrays of a fixed size, whole or cropped to one size."""

    def __init__(self, pack: Pack, name: str, *, crop: Crop | None, access: Access) -> None:
        self._pack = pack
        self._name = name
        self._crop = crop
        self._access = access
        shapes = {_shape(pack, name, shard) for shard in range(len(pack.shards))}
        # The first two axes, height and width of pictures: by shard.
        self.sides = np.array([_shape(pack, name, shard)[:2] for shard in range(len(pack.shards))])
        self.field = Field.of(name, _batch_shape(name, shapes, crop), pack.field(name).dtype)
        self._arrays: list[NDArray[Any] | None] = [None] * len(pack.shards)
        self._handles: dict[int, int] = {}
        weakref.finalize(self, _close, self._handles)

    @property
    def is_cut(self) -> bool:
        """False where samples are taken whole."""
        return self._crop is not None

    def fill(self, rows: Rows, out: NDArray[Any]) -> None:
        """Gather the samples, each cropped at its own place."""
        shards, places = self._pack.locate_many(rows.samples)
        cut = None
        if self._crop is not None:
            sizes = self.sides[shards]
            chance = draws.Chance(rows.keys, draws.CROP_STEP)
            cut = self._crop.boxes(chance, (sizes[:, 0], sizes[:, 1]))
        if self._access.reading == "mmap":
            rows.activity.enter("gather", int(rows.samples[0]))
            self._gather((shards, places), cut, out)
        else:
            self._read(rows, (shards, places), cut, out)

    def _gather(self, at: Places, cut: Boxes | None, out: NDArray[Any]) -> None:
        places = zip(at[0].tolist(), at[1].tolist(), strict=True)
        arrays = self._arrays
        if cut is None:
            for number, (shard, row) in enumerate(places):
                array = arrays[shard]
                out[number] = (self._mapped(shard) if array is None else array)[row]
            return
        height, width = out.shape[1:3]
        corners = zip(cut.top.tolist(), cut.left.tolist(), strict=True)
        for number, ((shard, row), (top, left)) in enumerate(zip(places, corners, strict=True)):
            array = arrays[shard]
            picture = (self._mapped(shard) if array is None else array)[row]
            out[number] = picture[top : top + height, left : left + width]

    def _read(self, rows: Rows, at: Places, cut: Boxes | None, out: NDArray[Any]) -> None:
        """Read each sample, of a cropped one only the rows of pixels that the crop needs."""
        room: NDArray[Any] | None = None
        for number, (shard, row) in enumerate(zip(at[0].tolist(), at[1].tolist(), strict=True)):
            rows.activity.enter("read", int(rows.samples[number]), self._path(shard))
            shape = _shape(self._pack, self._name, shard)
            record = int(np.prod(shape)) * out.itemsize
            offset = layout.HEADER_BYTES + row * record
            if cut is None:
                self._read_into(shard, out[number : number + 1], offset)  # a scalar is no array
                continue
            top, left = int(cut.top[number]), int(cut.left[number])
            wanted = (int(cut.height[number]), *shape[1:])
            if room is None or room.shape != wanted:
                room = np.empty(wanted, out.dtype)
            self._read_into(shard, room, offset + top * (record // shape[0]))
            out[number] = room[:, left : left + out.shape[2]]

    def _mapped(self, shard: int) -> NDArray[Any]:
        # A plain array over the map: indexing a memmap itself costs microseconds.
        array = self._arrays[shard] = np.asarray(self._pack.array(self._name, shard))
        return array.view(np.ndarray)

    def _path(self, shard: int) -> str:
        return str(self._pack.path / layout.array_file(self._pack.shards[shard].stem, self._name))

    def _read_into(self, shard: int, target: NDArray[Any], offset: int) -> None:
        part = FileRange(self._path(shard), offset, target.nbytes)
        handle = self._handle(shard)
        if handle is None:
            _read_once(part, target.data.cast("B"))
        else:
            _fill_from(handle, target.data.cast("B"), part)

    def _handle(self, shard: int) -> int | None:
        """The shard's file, kept open; None where no more may be."""
        handle = self._handles.get(shard)
        if handle is None and descriptors.may_hold(len(self._handles) + 1):
            opened = os.open(self._path(shard), os.O_RDONLY | os.O_CLOEXEC)
            os.posix_fadvise(opened, 0, 0, os.POSIX_FADV_RANDOM)
            # Two threads may have opened it: the loser's is closed.
            handle = self._handles.setdefault(shard, opened)
            if handle != opened:
                os.close(opened)
        return handle


def read_range(part: FileRange) -> bytearray:
    """Bytes of a file, by one open, one read and one close."""
    data = bytearray(part.length)
    _read_once(part, memoryview(data))
    return data


def _read_once(part: FileRange, target: memoryview) -> None:
    handle = os.open(part.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _fill_from(handle, target, part)
    finally:
        os.close(handle)


def _fill_from(handle: int, left: memoryview, part: FileRange) -> None:
    """Read until the buffer is full; a read may stop early at a signal or 2 GB."""
    offset = part.offset
    while len(left):
        got = os.preadv(handle, [left], offset)
        if not got:
            raise CorruptShardError(
                f"{part.path} ends at byte {offset:,}, {len(left):,} bytes too early",
                looked_at="the file, at the place of the sample",
                run_next=f"stoker verify {Path(part.path).parent}",
            )
        left, offset = left[got:], offset + got


def array_column(
    pack: Pack, name: str, *, crop: Crop | None, access: Access
) -> HeldColumn | ArrayColumn:
    """The column of a fixed-size field: held in memory when its values are small."""
    shape = pack.field(name).shape
    if crop is None and shape is not None:
        size = int(np.prod(shape)) * np.dtype(pack.field(name).dtype).itemsize
        if size <= _SMALL_BYTES and size * len(pack) <= _HELD_BYTES:
            return HeldColumn(pack, name)
    return ArrayColumn(pack, name, crop=crop, access=access)


def _shape(pack: Pack, name: str, shard: int) -> tuple[int, ...]:
    shape = pack.shape(name, shard)
    assert shape is not None, "a fixed-size field has a shape"
    return shape


def _batch_shape(name: str, shapes: set[tuple[int, ...]], crop: Crop | None) -> tuple[int, ...]:
    if crop is None and len(shapes) == 1:
        return next(iter(shapes))
    listed = ", ".join("x".join(map(str, shape)) for shape in sorted(shapes))
    if crop is None:
        raise InputError(
            f"field {name!r} has samples of {len(shapes)} shapes, which make no batch",
            looked_at=f"its shards: {listed}",
            run_next="give crop=SIZE, or leave the field out with fields=(…)",
        )
    if is_resized(crop) or any(len(shape) not in (2, 3) for shape in shapes):
        raise InputError(
            f"crop={crop!r} cannot be cut from field {name!r} while reading",
            looked_at=f"samples of {listed}: arrays (height, width) or (height, width, channels) "
            "are cropped as they are, and resized by a recipe",
            run_next="stoker.Loader(…, augment=stoker.augment.Recipe(…))",
        )
    for shape in shapes:
        check_fits(crop, (shape[0], shape[1]))
    return (*sides(crop.size), *next(iter(shapes))[2:])


def _close(handles: dict[int, int]) -> None:
    for handle in handles.values():
        os.close(handle)
