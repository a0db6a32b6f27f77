"""Makes a pack of columns that are in memory: arrays, texts, bytes. One process, no decoding."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stoker.errors import InputError
from stoker.pack import layout, manifest, shard
from stoker.pack.layout import AXES
from stoker.pack.manifest import Codec, Field, FileEntry, Manifest, Origin, Role, Shard, Transform
from stoker.pack.reader import Pack, open_pack
from stoker.pack.sources.listing import NUMBERS
from stoker.pack.target import make_empty_folder

# Bytes that decode to an array may come with its shape.
Encoded = bytes | tuple[bytes, tuple[int, ...]]
Column = NDArray[Any] | Sequence[NDArray[Any]] | Sequence[str] | Sequence[Encoded]


def write_arrays(
    path: str | os.PathLike[str],
    columns: Mapping[str, Column],
    *,
    shard_samples: int | None = None,
    classes: Sequence[str] = (),
    codecs: Mapping[str, Codec] | None = None,
    generation: int = 1,
) -> Pack:
    """Write the columns as a pack into a new or empty folder, and open it.

    An ndarray (samples, *shape) becomes a fixed-size field; a list of str, bytes or arrays a ragged
    one. A column called "label" is the label. `codecs` says what bytes are when they are encoded.
    Raises InputError for columns of different lengths and for a folder that isn't empty.
    """
    folder = Path(path)
    make_empty_folder(folder)
    count = _length(columns)
    fields = tuple(_field(name, column, codecs or {}) for name, column in columns.items())
    per_shard = shard_samples or _samples_of_a_shard(columns, count)
    shards = []
    for number, start in enumerate(range(0, count, per_shard)):
        stop = min(count, start + per_shard)
        frame = shard.ShardFrame(
            number, layout.stem(number, generation), start, stop - start, fields
        )
        entries = _write_shard(folder, frame, columns)
        shards.append(
            Shard(number=number, stem=frame.stem, start=start, count=stop - start, files=entries)
        )
    manifest.write(
        folder,
        Manifest(
            schema=manifest.SCHEMA,
            generation=generation,
            samples=count,
            shard_samples=per_shard,
            fields=fields,
            classes=tuple(classes),
            transform=Transform(tier="raw"),
            origin=Origin(kind="arrays", location="", count=count),
            shards=tuple(shards),
        ),
    )
    return open_pack(folder)


def _length(columns: Mapping[str, Column]) -> int:
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) != 1 or 0 in lengths.values():
        raise InputError(
            f"the columns have {lengths or 'no'} samples; all must have the same number, above 0",
            looked_at=f"columns {', '.join(columns)}",
            run_next="give columns of one length",
        )
    return next(iter(lengths.values()))


def _field(name: str, column: Column, codecs: Mapping[str, Codec]) -> Field:
    role = Role.LABEL if name == "label" else Role.DATA
    if name.endswith(".segments"):
        role = Role.INDEX
    first = column if isinstance(column, np.ndarray) else column[0]
    if isinstance(first, np.ndarray) and first.dtype.kind not in NUMBERS:
        raise InputError(
            f"column {name!r} is an array of {first.dtype}, which cannot be packed",
            looked_at=f"columns of numbers, text and bytes; {name}[0] is {column[0]!r}",
            run_next="give numbers, or a list of str or bytes",
        )
    if isinstance(column, np.ndarray):
        return Field(name=name, dtype=column.dtype.name, shape=column.shape[1:], role=role)
    if isinstance(first, str):
        return Field(name=name, dtype="uint8", is_fixed=False, codec=Codec.TEXT, role=role)
    if isinstance(first, bytes | tuple):
        codec = codecs.get(name, Codec.BYTES)
        return Field(name=name, dtype="uint8", is_fixed=False, codec=codec, role=role)
    axes = AXES[: first.ndim]
    return Field(name=name, dtype=first.dtype.name, is_fixed=False, role=role, axes=axes)


def _samples_of_a_shard(columns: Mapping[str, Column], count: int) -> int:
    def size(column: Column) -> int:
        if isinstance(column, np.ndarray):
            return column.nbytes
        return sum(len(_encoded(sample)[0]) for sample in column)

    largest = max(size(column) for column in columns.values())
    return max(1, min(count, layout.SHARD_BYTES * count // max(1, largest)))


def _write_shard(
    folder: Path, frame: shard.ShardFrame, columns: Mapping[str, Column]
) -> tuple[FileEntry, ...]:
    rows: dict[str, Any] = {}
    for field in frame.fields:
        part = columns[field.name][frame.start : frame.start + frame.count]
        rows[field.name] = part if field.is_fixed else [_encoded(sample) for sample in part]
    shard.begin(folder, frame)
    shard.write_rows(folder, frame, 0, rows)
    return shard.finish(folder, frame, [0])


def _encoded(sample: Any) -> tuple[bytes, tuple[int, ...]]:
    if isinstance(sample, tuple):
        return sample
    if isinstance(sample, str):
        sample = sample.encode()
    if isinstance(sample, bytes):
        return sample, (len(sample),)
    native = sample.dtype.newbyteorder("=")
    return np.ascontiguousarray(sample, dtype=native).tobytes(), sample.shape
