"""The samples of a source, before any is read: names, sizes, times, values, places of bytes."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray


class Kind(StrEnum):
    """What a column of a source holds. `image`, `mask`, `array` and `bytes` have to be read."""

    IMAGE = "image"
    MASK = "mask"
    ARRAY = "array"
    BYTES = "bytes"
    TEXT = "text"
    INT = "int"
    FLOAT = "float"
    LABEL = "label"


READ_KINDS = frozenset({Kind.IMAGE, Kind.MASK, Kind.ARRAY, Kind.BYTES})
# What numpy calls the types that arrays may have: numbers and times, no objects, text or records.
NUMBERS = "biufcmM"
_INT64 = range(-(2**63), 2**63)


class Column(NamedTuple):
    """One column. `dtype` and `shape` are a Dataset's arrays'; a `shape` of None differs.

    `dtype` is also that of a Dataset's masks; what lies in files shows its type when it is read.
    """

    name: str
    kind: Kind
    dtype: str = ""
    shape: tuple[int, ...] | None = None


class Place(NamedTuple):
    """Where bytes lie: a whole file, a range of it, or a member of a zip archive."""

    path: str
    offset: int = 0
    length: int = -1
    member: str = ""


class SampleRef(NamedTuple):
    """One sample to be read: a Place for columns that are read, the value itself for others.

    A sample of a Dataset has no places: it is read by its `position` in the source.
    """

    position: int
    name: str
    size: int
    mtime_ns: int
    values: tuple[Any, ...]


class Names(Protocol):
    """The names of the samples, by position."""

    def __len__(self) -> int: ...

    def __getitem__(self, position: int, /) -> str: ...


class Listing(msgspec.Struct, kw_only=True):
    """The samples of a source in its order, column by column: a million objects would be many."""

    kind: str
    location: str
    columns: tuple[Column, ...]
    names: Names
    sizes: NDArray[np.int64]
    mtimes_ns: NDArray[np.int64]
    # What else shows that a sample changed, a number each; only part of the fingerprint.
    signs: NDArray[np.int64] | None = None
    classes: tuple[str, ...] = ()
    # Values of the columns that aren't read, and places of those that are.
    values: dict[str, Any] = {}
    place: Callable[[int, str], Place | None] = lambda _position, _column: None
    # What was left out, for the summary: "3 links in the archive".
    remarks: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.names)

    def sample(self, position: int) -> SampleRef:
        """One sample, ready to be sent to whoever reads it."""
        values = tuple(
            self.place(position, column.name)
            if column.kind in READ_KINDS
            else self.values[column.name][position]
            for column in self.columns
            if column.kind in READ_KINDS or column.name in self.values
        )
        return SampleRef(
            position,
            self.names[position],
            int(self.sizes[position]),
            int(self.mtimes_ns[position]),
            values,
        )

    def fingerprint(self, positions: Sequence[int] | NDArray[np.int64], start: int = 0) -> int:
        """crc32 over what is known of these samples: equal when nothing changed, in that order."""
        sums = start
        for position in positions:
            ref = self.sample(int(position))
            values = [_plain(value) for value in ref.values if not _is_place(value)]
            plain: tuple[Any, ...] = (ref.name, ref.size, ref.mtime_ns, values)
            if self.signs is not None:
                plain = (*plain, int(self.signs[position]))
            sums = zlib.crc32(repr(plain).encode("utf-8", "surrogateescape"), sums)
        return sums

    def labels(self) -> NDArray[np.int64] | None:
        """The label of every sample, or None for a source without."""
        for column in self.columns:
            if column.kind is Kind.LABEL and column.name in self.values:
                return np.asarray(self.values[column.name], dtype=np.int64)
        return None


def _is_place(value: Any) -> bool:
    return isinstance(value, Place) or value is None


def _plain(value: Any) -> Any:
    """As Python has it: numpy's numbers are written in another way in each of its versions."""
    return value.item() if isinstance(value, np.generic) else value


def sign_of(parts: Any) -> int:
    """A number that is another one when any of these parts is."""
    return zlib.crc32(repr(parts).encode("utf-8", "surrogateescape"))


def is_whole(cell: Any) -> bool:
    """True for what a table or a file gives as a whole number, beyond int64 as well."""
    if isinstance(cell, float):
        return False
    try:
        int(cell)
    except ValueError:
        return False
    return True


def fits_int64(cells: Sequence[Any]) -> bool:
    """True when all of these whole numbers can be stored."""
    return all(int(cell) in _INT64 for cell in cells)


def numbered(cells: Sequence[Any]) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """Labels as numbers, and their names: whole numbers stay, others count in sorted order."""
    if all(map(is_whole, cells)) and fits_int64(cells):
        return (), np.array([int(cell) for cell in cells], dtype=np.int64)
    texts = list(map(str, cells))
    names = sorted(set(texts))
    numbers = {name: number for number, name in enumerate(names)}
    return tuple(names), np.array([numbers[text] for text in texts], dtype=np.int64)
