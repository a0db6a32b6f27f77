"""Reads the bytes of one sample from where its listing says; keeps archives open in between."""

from __future__ import annotations

import io
import os
import stat
import zipfile
from typing import Any

import numpy as np

from stoker.pack.sources import dataset, opened
from stoker.pack.sources.listing import NUMBERS, READ_KINDS, Column, Place, SampleRef


class SampleReader:
    """Reads samples of one source in one process."""

    def __init__(self, kind: str, location: str, columns: tuple[Column, ...]) -> None:
        self._columns = columns
        self._dataset = dataset.load_object(location) if kind == "dataset" else None
        # Of a Dataset that a script made nothing else says whether its samples are what they were.
        self._notes_files = kind == "dataset" and dataset.is_in_hand(location)
        self._file: opened.SourceFile | None = None
        self._zips: dict[str, tuple[zipfile.ZipFile, dict[int, zipfile.ZipInfo]]] = {}

    def close(self) -> None:
        """Close the archives."""
        for archive, _ in self._zips.values():
            archive.close()

    def read(self, ref: SampleRef) -> dict[str, Any]:
        """The parts of a sample by column: bytes where they lie in files, else values.

        Raises OSError, ValueError, zipfile.BadZipFile, zlib.error, and whatever a Dataset raises.
        """
        self._file = None
        if self._dataset is not None and self._notes_files:
            with opened.noted() as paths:
                found = dataset.named_values(self._dataset[ref.position])
            self._file = opened.first_file(paths)
            return found
        if self._dataset is not None:
            return dataset.named_values(self._dataset[ref.position])
        return {
            column.name: self._bytes(value) if column.kind in READ_KINDS else value
            for column, value in zip(self._columns, ref.values, strict=True)
        }

    def as_read(self, ref: SampleRef) -> SampleRef:
        """The sample that was read last, with the file that it was made of."""
        if self._file is None:
            return ref
        path, size, mtime_ns = self._file
        return ref._replace(name=path, size=size, mtime_ns=mtime_ns)

    def _bytes(self, place: Place) -> bytes:
        if place.member:
            return self._member(place)
        # Opening a pipe would wait for its writer, for ever when there is none.
        handle = os.open(place.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            found = os.fstat(handle)
            # Reading a folder says itself what is wrong.
            if not stat.S_ISREG(found.st_mode) and not stat.S_ISDIR(found.st_mode):
                raise OSError("it is no file: a pipe or a device")
            length = found.st_size if place.length < 0 else place.length
            return _whole(handle, length, place.offset)
        finally:
            os.close(handle)

    def _member(self, place: Place) -> bytes:
        if place.path not in self._zips:
            archive = zipfile.ZipFile(place.path)
            by_offset = {info.header_offset: info for info in archive.infolist()}
            self._zips[place.path] = archive, by_offset
        archive, by_offset = self._zips[place.path]
        # By its place, because two members may have one name.
        return archive.read(by_offset[place.offset])


def _whole(handle: int, length: int, offset: int) -> bytes:
    """`length` bytes: a single read gives up to 2 GiB, and less of some network files."""
    first = os.pread(handle, length, offset)
    if len(first) == length or not first:
        return first
    pieces = [first]
    done = len(first)
    while done < length and (piece := os.pread(handle, length - done, offset + done)):
        pieces.append(piece)
        done += len(piece)
    return b"".join(pieces)


def array_of(data: Any) -> np.ndarray[Any, Any]:
    """An array out of the bytes of an .npy file, or the array itself.

    Raises ValueError for anything else, and for arrays of text, objects or records.
    """
    is_file = isinstance(data, bytes)
    found = np.load(io.BytesIO(data), allow_pickle=False) if is_file else data
    if not isinstance(found, np.ndarray) or found.dtype.kind not in NUMBERS:
        kind = getattr(found, "dtype", type(found).__name__)
        raise ValueError(f"an array of {kind}: only arrays of numbers can be stored")
    return found
