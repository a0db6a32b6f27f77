"""Opens a pack: where a sample lies, and its bytes or its array. Changes nothing, decodes nothing.

Everything is lazy: opening reads the manifest and the sizes of the files, and no sample.
"""

from __future__ import annotations

import errno
import math
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stoker.errors import CorruptShardError, InputError, PackError
from stoker.pack import descriptors, layout, manifest
from stoker.pack.checked import Checked
from stoker.pack.manifest import Codec, Field, Manifest, Role, Shard
from stoker.pack.repair import way_to_repair

# Tables of offsets and shapes up to this size are read at once: a map would keep a file open.
_READ_AT_ONCE = 1 << 16


class FileRange(NamedTuple):
    """Bytes `offset` … `offset + length − 1` of a file: what `os.preadv` wants."""

    path: str
    offset: int
    length: int


def open_pack(path: str | os.PathLike[str]) -> Pack:
    """The pack in that folder.

    Raises PackError when the folder holds none or half a one, PackVersionError for an unknown
    format, CorruptShardError when a file is missing or has not the size that was written. The
    samples' checksums are not looked at: `stoker verify` does.
    """
    folder = Path(path)
    found = manifest.read(folder)
    _check_sizes(folder, found)
    return Pack(folder, found)


class Pack:
    """An opened pack. Indices run from 0 to `len(pack) − 1`; it can be pickled and forked."""

    def __init__(self, path: Path, found: Manifest) -> None:
        self.path = path
        self.manifest = found
        self.fields: dict[str, Field] = {field.name: field for field in found.fields}
        self._maps: dict[str, Any] = {}

    def __len__(self) -> int:
        return self.manifest.samples

    def __repr__(self) -> str:
        fields = ", ".join(self.fields)
        return f"Pack({str(self.path)!r}, {len(self):,} samples of {fields})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopened, (self.path, self.generation)

    @property
    def generation(self) -> int:
        """Raised by every append and repack: a position kept from another one means nothing."""
        return self.manifest.generation

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the labels 0, 1, …; empty when the pack has none."""
        return self.manifest.classes

    @property
    def shards(self) -> tuple[Shard, ...]:
        """The shards in the order of their samples."""
        return self.manifest.shards

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """Index of the first sample of every shard, and behind them the number of samples."""
        return np.array([*(s.start for s in self.shards), len(self)], dtype=np.int64)

    @cached_property
    def quarantined(self) -> NDArray[np.int64]:
        """Indices that hold no sample, ascending: their sources could not be read."""
        return np.array(sorted(bad.index for bad in self.manifest.quarantine), dtype=np.int64)

    @cached_property
    def usable(self) -> NDArray[np.int64]:
        """Indices that hold a sample, ascending."""
        return np.setdiff1d(np.arange(len(self)), self.quarantined, assume_unique=True)

    def field(self, name: str) -> Field:
        """A field by its name. Raises InputError for another name."""
        try:
            return self.fields[name]
        except KeyError:
            raise InputError(
                f"{self.path} has no field {name!r}",
                looked_at=f"its fields {', '.join(self.fields)}",
                run_next=f"stoker info {self.path}",
            ) from None

    @property
    def batch_fields(self) -> tuple[Field, ...]:
        """The fields that a batch is made of: data and labels."""
        return tuple(f for f in self.manifest.fields if f.role in (Role.DATA, Role.LABEL))

    def shape(self, name: str, shard: int) -> tuple[int, ...] | None:
        """The shape of one sample of a field in that shard; None for a ragged field."""
        field = self.field(name)
        if not field.is_fixed:
            return None
        return self.shards[shard].shapes[name] if field.shape is None else field.shape

    def locate(self, index: int) -> tuple[int, int]:
        """The shard of a sample (its place in `shards`) and its row there. Raises IndexError."""
        if not 0 <= index < len(self):
            raise IndexError(f"sample {index} of {len(self)}")
        shard = int(np.searchsorted(self.starts, index, side="right")) - 1
        return shard, index - int(self.starts[shard])

    def locate_many(
        self, indices: NDArray[np.integer[Any]]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Shards and rows of many samples: two int64 arrays of the shape of `indices`."""
        shards = np.searchsorted(self.starts, indices, side="right") - 1
        return shards, indices - self.starts[shards]

    def array(self, name: str, shard: int) -> np.memmap[Any, Any]:
        """A fixed-size field of one shard: a read-only memory map (samples, *shape)."""
        field = self.field(name)
        if not field.is_fixed:
            raise self._not_fixed(name)
        record = self.shards[shard]
        shape = record.shapes[name] if field.shape is None else field.shape
        file = layout.array_file(record.stem, name)
        if file not in self._maps:
            with self._room_for(file):
                self._checked(record).header(file, np.dtype(field.dtype), (record.count, *shape))
        found: np.memmap[Any, Any] = self._map(file)
        return found

    def offsets(self, name: str, shard: int) -> NDArray[np.uint64]:
        """Where the samples of a ragged field begin in its file: uint64 (samples + 1), in bytes."""
        self._check_ragged(name)
        record = self.shards[shard]
        file = layout.offsets_file(record.stem, name)
        is_new = file not in self._maps
        if is_new:
            with self._room_for(file):
                self._checked(record).header(file, np.dtype(np.uint64), (record.count + 1,))
        found: NDArray[np.uint64] = self._table(file)
        if is_new:
            with self._forgotten_if_damaged(file):
                self._checked(record).offsets(file, found, layout.bytes_file(record.stem, name))
        return found

    def shapes(self, name: str, shard: int) -> NDArray[np.int32]:
        """The shapes of a ragged field's samples: int32 (samples, axes).

        Of an encoded image it is height, width, channels of what it decodes to.
        """
        self._check_ragged(name)
        record = self.shards[shard]
        file = layout.shapes_file(record.stem, name)
        is_new = file not in self._maps
        if is_new:
            with self._room_for(file):
                self._checked(record).rows_header(file, np.dtype(np.int32))
        found: NDArray[np.int32] = self._table(file)
        if is_new and self.field(name).codec is Codec.NONE:
            with self._forgotten_if_damaged(file):
                width = np.dtype(self.field(name).dtype).itemsize
                self._checked(record).shapes(file, found, self.offsets(name, shard), width)
        return found

    def file_range(self, name: str, index: int) -> FileRange:
        """The bytes of one sample in the file that holds them, for preadv. Raises IndexError."""
        shard, row = self.locate(index)
        stem = self.shards[shard].stem
        shape = self.shape(name, shard)
        if shape is not None:
            length = math.prod(shape) * np.dtype(self.field(name).dtype).itemsize
            path = self.path / layout.array_file(stem, name)
            return FileRange(str(path), layout.HEADER_BYTES + row * length, length)
        offsets = self.offsets(name, shard)
        start = int(offsets[row])
        path = self.path / layout.bytes_file(stem, name)
        return FileRange(str(path), start, int(offsets[row + 1]) - start)

    def raw(self, name: str, index: int) -> memoryview:
        """The stored bytes of one sample, as a view of the page cache."""
        shard, row = self.locate(index)
        if self.field(name).is_fixed:
            return self.array(name, shard)[row : row + 1].data.cast("B")
        offsets = self.offsets(name, shard)
        whole = self._bytes(layout.bytes_file(self.shards[shard].stem, name))
        return whole.data[int(offsets[row]) : int(offsets[row + 1])]

    def value(self, name: str, index: int) -> Any:
        """One sample as Python or numpy has it: an array (a copy), str, or bytes if encoded."""
        field = self.field(name)
        shard, row = self.locate(index)
        if field.is_fixed:
            return np.array(self.array(name, shard)[row])
        data = self.raw(name, index)
        match field.codec:
            case Codec.NONE:
                shape = self.shapes(name, shard)[row]
                return np.frombuffer(data, field.dtype).reshape(shape).copy()
            case Codec.TEXT:
                return bytes(data).decode("utf-8", "surrogateescape")  # names of files need not be
            case _:
                return bytes(data)

    def segments(self, name: str, index: int) -> NDArray[np.uint16]:
        """Segment lengths of a crop-jpeg, in bytes without markers: what `crop_jpeg.cut` wants."""
        return np.frombuffer(self.raw(f"{name}.segments", index), np.uint16)

    def source(self, index: int) -> str:
        """The name of what the sample was made from; empty when that wasn't kept."""
        return str(self.value("source", index)) if "source" in self.fields else ""

    def _checked(self, shard: Shard) -> Checked:
        return Checked(self.path, self.manifest, shard)

    @contextmanager
    def _forgotten_if_damaged(self, file: str) -> Iterator[None]:
        """A table that was found damaged is looked at again the next time."""
        try:
            yield
        except CorruptShardError:
            self._maps.pop(file, None)
            raise

    def _map(self, name: str) -> Any:
        found = self._maps.get(name)
        if found is None:
            with self._room_for(name):
                found = np.load(self.path / name, mmap_mode="r", allow_pickle=False)
            self._maps[name] = found
        return found

    def _table(self, name: str) -> Any:
        if name in self._maps:
            return self._maps[name]
        is_small = (self.path / name).stat().st_size <= _READ_AT_ONCE
        if is_small or not descriptors.may_hold(len(self._maps) + 1):
            table = np.load(self.path / name, allow_pickle=False)
            table.flags.writeable = False
            self._maps[name] = table
        return self._map(name)

    def _bytes(self, name: str) -> NDArray[np.uint8]:
        found = self._maps.get(name)
        if found is None:
            path = self.path / name
            with self._room_for(name):
                # An empty file can't be mapped.
                is_empty = not path.stat().st_size
                found = np.empty(0, np.uint8) if is_empty else np.memmap(path, np.uint8, "r")
            self._maps[name] = found
        return found

    @cached_property
    def _sizes(self) -> dict[str, int]:
        return {file.name: file.size for file in _files(self.shards)}

    @contextmanager
    def _room_for(self, name: str) -> Iterator[None]:
        """Let one more file be kept open; says what to do where none may be.

        It may have gone or been cut short since the pack was opened: CorruptShardError.
        """
        _check_size(self.path, self.manifest, name, self._sizes[name], _size_of(self.path / name))
        descriptors.may_hold(len(self._maps) + 1)
        try:
            yield
        except OSError as error:
            if error.errno != errno.EMFILE:
                raise
            raise PackError(
                f"{self.path / name} cannot be opened: too many files are open in this process",
                looked_at=f"its limit of {descriptors.limit():,} files, and {len(self._maps):,} "
                f"of the {len(self.shards):,} shards' files that are open",
                run_next=f"ulimit -n {4 * len(self.manifest.fields) * len(self.shards)}, in the "
                "shell or the job that starts the script",
            ) from error

    def _check_ragged(self, name: str) -> None:
        if self.field(name).is_fixed:
            raise InputError(
                f"field {name!r} has a fixed size: it has no offsets",
                looked_at=repr(self),
                run_next=f"use array({name!r}, shard)",
            )

    def _not_fixed(self, name: str) -> InputError:
        return InputError(
            f"field {name!r} is ragged: it is no array",
            looked_at=repr(self),
            run_next=f"use raw({name!r}, index), or offsets and shapes",
        )


def _reopened(path: Path, generation: int) -> Pack:
    pack = open_pack(path)
    if pack.generation != generation:
        raise PackError(
            f"{path} was rewritten: generation {pack.generation}, {generation} was opened",
            looked_at=str(path),
            run_next="open the pack again",
        )
    return pack


def _check_sizes(folder: Path, found: Manifest) -> None:
    with os.scandir(folder) as entries:
        sizes = {entry.name: entry.stat().st_size for entry in entries if entry.is_file()}
    for file in _files(found.shards):
        _check_size(folder, found, file.name, file.size, sizes.get(file.name))


def _check_size(folder: Path, found: Manifest, name: str, written: int, size: int | None) -> None:
    """Raises CorruptShardError for a file that is gone (None) or has not the size it should."""
    if size == written:
        return
    what = "is missing" if size is None else f"has {size:,} bytes"
    raise CorruptShardError(
        f"{folder / name} {what}; {written:,} bytes were written",
        looked_at=f"{len(found.shards)} shards of {folder}",
        run_next=f"stoker verify {folder} lists all damage; {way_to_repair(folder, found)}",
    )


def _size_of(file: Path) -> int | None:
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return None


def _files(shards: Iterable[Shard]) -> Iterable[manifest.FileEntry]:
    for shard in shards:
        yield from shard.files
