"""The first samples of a source, looked at once before packing: their types, shapes and bytes."""

from __future__ import annotations

import math
import warnings
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from stoker.errors import InputError
from stoker.pack import imaging, masks
from stoker.pack.sources.dataset import SAMPLE_ERRORS
from stoker.pack.sources.listing import Column, Kind, Listing
from stoker.pack.sources.reading import SampleReader, array_of

# Enough to see sizes differ and to guess the length of a file, too few to wait for.
LOOKED_AT = 32


class Part(NamedTuple):
    """One column's part of a sample, as it is without any encoding."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """What it takes in memory."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize


class FirstSamples:
    """Those of a listing, read when they are first asked for.

    What can't be read is left out: it will be quarantined, and says nothing about the others.
    """

    def __init__(self, listing: Listing, *, exif: str) -> None:
        self._listing = listing
        self._exif = exif

    def parts(self, name: str) -> list[Part]:
        """A column's part of each sample that can be read; none when no sample can."""
        return [sample[name] for sample in self._looked_at[0]]

    def mean_bytes(self, name: str) -> int:
        """What a column's part takes on average, in bytes; 0 when no sample can be read."""
        parts = self.parts(name)
        return sum(part.nbytes for part in parts) // len(parts) if parts else 0

    @property
    def looked_at(self) -> str:
        """What was looked at, for an error."""
        count = min(len(self._listing), LOOKED_AT)
        return f"the first {count} samples of {self._listing.location}"

    def unreadable(self) -> InputError:
        """The error for a source of which no sample can be read."""
        return InputError(
            f"none of the first samples can be read: {self._looked_at[1]}",
            looked_at=self.looked_at,
            run_next="see that the source is what you think it is",
        )

    @cached_property
    def _looked_at(self) -> tuple[list[dict[str, Part]], str]:
        """The parts of each sample that can be read, and what the first other one raised."""
        listing, found, problem = self._listing, [], ""
        reader = SampleReader(listing.kind, listing.location, listing.columns)
        try:
            for position in range(min(len(listing), LOOKED_AT)):
                try:
                    read = reader.read(listing.sample(position))
                    found.append({c.name: self._part(c, read[c.name]) for c in listing.columns})
                except SAMPLE_ERRORS as error:
                    problem = problem or f"{type(error).__name__}: {error}"
        finally:
            reader.close()
        return found, problem

    def _part(self, column: Column, value: Any) -> Part:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", imaging.BombWarning)
            match column.kind:
                case Kind.IMAGE:
                    return Part("uint8", (*imaging.size_of(value, exif=self._exif), 3))
                case Kind.MASK:
                    size = imaging.size_of(value, exif="ignore")
                    return Part(masks.dtype_of(value), size)
                case Kind.ARRAY:
                    array = array_of(value)
                    return Part(array.dtype.name, array.shape)
                case Kind.TEXT:
                    return Part("uint8", (len(value.encode("utf-8", "surrogateescape")),))
                case Kind.BYTES:
                    return Part("uint8", (len(value),))
                case _:
                    return Part("int64", ())
