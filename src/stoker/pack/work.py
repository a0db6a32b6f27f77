"""What a worker does: reads, decodes and writes a run of samples; joins and seals a shard.

Everything is a function of its arguments and of the sources, so who does it doesn't matter.
"""

from __future__ import annotations

import re
import warnings
import zipfile
import zlib
from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stoker.errors import InputError
from stoker.pack import crop_jpeg, imaging, shard
from stoker.pack.manifest import (
    BadSample,
    Codec,
    Field,
    FileEntry,
    Moments,
    Role,
    Transform,
    utf8,
)
from stoker.pack.sources.dataset import SAMPLE_ERRORS
from stoker.pack.sources.listing import Column, Kind, SampleRef
from stoker.pack.sources.reading import SampleReader, array_of

# Pixel statistics come from every 16th sample: exact sums of all would cost
# 2 % of decoding and resizing to 256², and more for larger ones.
MOMENTS_EVERY = 16
_BAD = (*imaging.PICTURE_ERRORS, *SAMPLE_ERRORS, zipfile.BadZipFile, zlib.error)


class Setup(NamedTuple):
    """What a worker has to know before its first task."""

    folder: str
    kind: str
    location: str
    columns: tuple[Column, ...]
    transform: Transform


class Chunk(NamedTuple):
    """A task: the samples of a shard from row `first` on."""

    frame: shard.ShardFrame
    first: int
    refs: tuple[SampleRef, ...]


class Seal(NamedTuple):
    """A task: all runs of the shard are written; join, check and rename."""

    frame: shard.ShardFrame
    runs: tuple[int, ...]


class ChunkDone(NamedTuple):
    """What became of a Chunk."""

    number: int
    first: int
    samples: int
    bad: tuple[BadSample, ...]
    notes: dict[str, int]
    moments: Moments


class SealDone(NamedTuple):
    """What became of a Seal."""

    number: int
    files: tuple[FileEntry, ...]


class Failed(NamedTuple):
    """A task that could not be done. `errno` is set when the pack could not be written."""

    happened: str
    looked_at: str = ""
    run_next: str = ""
    errno: int | None = None


class Work:
    """Does tasks in this process."""

    def __init__(self, setup: Setup) -> None:
        self._folder = Path(setup.folder)
        self._columns = setup.columns
        self._transform = setup.transform
        self._reader = SampleReader(setup.kind, setup.location, setup.columns)

    def close(self) -> None:
        """Close what was opened."""
        self._reader.close()

    def do(self, task: Chunk | Seal) -> ChunkDone | SealDone:
        """Do a task. Raises OSError when the pack can't be written, InputError for a source that
        doesn't fit the fields.
        """
        if isinstance(task, Seal):
            files = shard.finish(self._folder, task.frame, task.runs)
            return SealDone(task.frame.number, files)
        with warnings.catch_warnings():
            # Pillow warns from half its limit on; what is above the limit is quarantined.
            warnings.simplefilter("ignore", imaging.BombWarning)
            return self._chunk(task)

    def _chunk(self, task: Chunk) -> ChunkDone:
        rows = _Rows(task.frame.fields, len(task.refs))
        bad: list[BadSample] = []
        notes: Counter[str] = Counter()
        moments = Moments()
        for row, ref in enumerate(task.refs):
            index = task.frame.start + task.first + row
            try:
                sample = self._sample(ref, task.frame.fields)
            except _BAD as error:
                bad.append(BadSample(index=index, source=utf8(ref.name), reason=_reason(error)))
                sample = _Sample()
            rows.put(row, sample.values, self._reader.as_read(ref))
            notes.update(sample.notes)
            if index % MOMENTS_EVERY == 0 and sample.picture is not None:
                moments = add_moments(moments, moments_of(sample.picture))
        shard.write_rows(self._folder, task.frame, task.first, rows.columns)
        return ChunkDone(
            task.frame.number,
            task.first,
            len(task.refs),
            tuple(bad),
            dict(notes),
            moments,
        )

    def stored(self, ref: SampleRef, fields: Sequence[Field]) -> dict[str, bytes]:
        """The bytes of one sample by field, as a pack of these fields has them.

        Raises what the sample raises.
        """
        rows = _Rows(fields, 1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", imaging.BombWarning)
            rows.put(0, self._sample(ref, fields).values, self._reader.as_read(ref))
        columns = rows.columns
        return {
            f.name: columns[f.name].tobytes() if f.is_fixed else columns[f.name][0][0]
            for f in fields
        }

    def source_hash(self, ref: SampleRef) -> int:
        """The hash of what one sample is made of. Raises what the sample raises."""
        return _hash(self._reader.read(ref))

    def _sample(self, ref: SampleRef, fields: Sequence[Field]) -> _Sample:
        """One sample as it is stored. Raises any of _BAD."""
        by_name = {field.name: field for field in fields}
        read = self._reader.read(ref)
        sample = _Sample()
        for column in self._columns:
            value = read[column.name]
            field = by_name[column.name]
            match column.kind:
                case Kind.IMAGE:
                    self._add_image(sample, value, field)
                    continue
                case Kind.MASK:
                    stored = self._mask(value, field)
                case Kind.ARRAY:
                    stored = _array(value, field)
                case Kind.TEXT:
                    data = str(value).encode("utf-8", "surrogateescape")
                    stored = data, (len(data),)
                case Kind.BYTES:
                    stored = bytes(value), (len(value),)
                case _:
                    stored = value
            sample.values[field.name] = stored
        if "source_hash" in by_name:
            sample.values["source_hash"] = _hash(read)
        return sample

    def _add_image(self, sample: _Sample, value: Any, field: Field) -> None:
        transform = self._transform
        if field.codec is Codec.SOURCE:
            imaging.is_whole(value)
            height, width = imaging.size_of(value, exif="ignore")
            sample.values[field.name] = value, (height, width, 3)
            return
        image, notes = imaging.open_picture(value, exif=transform.exif)
        before = image.size
        image = imaging.fitted(image, transform, field.shape)
        sample.notes += notes
        if _is_cut(before, image.size, transform):
            sample.notes.append("cut")
        if field.name == "image":
            sample.picture = image
        if field.codec is Codec.NONE:
            pixels = np.asarray(image)
            sample.values[field.name] = (
                _pixels(pixels, field) if field.is_fixed else (pixels.tobytes(), pixels.shape)
            )
            return
        assert transform.quality is not None, "JPEG tiers have a quality"
        if field.codec is Codec.CROP_JPEG:
            data = crop_jpeg.encode(image, quality=transform.quality)
            lengths = crop_jpeg.segment_lengths(data)
            sample.values[f"{field.name}.segments"] = lengths.tobytes(), (len(lengths),)
        else:
            data = imaging.jpeg(image, transform.quality)
        sample.values[field.name] = data, (image.height, image.width, 3)

    def _mask(self, value: Any, field: Field) -> Any:
        """Masks keep their class numbers: no conversion, the nearest neighbour."""
        opened = imaging.open_mask(value)
        transform = imaging.nearest(self._transform)
        fitted = np.asarray(imaging.fitted(opened, transform, field.shape))
        if field.is_fixed:
            return fitted
        return np.ascontiguousarray(fitted).tobytes(), fitted.shape


class _Sample:
    """What was made of one sample: values by field, what was noted, the picture as it is stored."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.notes: list[str] = []
        self.picture: Any = None  # a Pillow image, before any encoding


class _Rows:
    """The columns of a run of samples, filled row by row; a bad sample leaves its fill values."""

    def __init__(self, fields: Sequence[Field], count: int) -> None:
        self._fields = fields
        self.columns: dict[str, Any] = {}
        for field in fields:
            if field.is_fixed:
                assert field.shape is not None, "a frame's fixed fields have shapes"
                self.columns[field.name] = np.full(
                    (count, *field.shape), fill_value(field), dtype=field.dtype
                )
            else:
                self.columns[field.name] = [(b"", _no_shape(field))] * count

    def put(self, row: int, values: dict[str, Any], ref: SampleRef) -> None:
        for field in self._fields:
            if field.name == "source":
                name = ref.name.encode("utf-8", "surrogateescape")
                self.columns["source"][row] = name, (len(name),)
            elif field.name == "source_stat":
                self.columns["source_stat"][row] = ref.size, ref.mtime_ns
            elif field.name in values:
                self.columns[field.name][row] = values[field.name]


def fill_value(field: Field) -> int:
    """What stands in the place of a bad sample: −1 for labels, 0 for everything else."""
    return -1 if field.role is Role.LABEL else 0


def _no_shape(field: Field) -> tuple[int, ...]:
    axes = len(field.axes) or 1
    return (0,) * axes


def _array(value: Any, field: Field) -> Any:
    found = array_of(value)
    if found.dtype.name != field.dtype:
        raise ValueError(f"an array of {found.dtype}, the first is of {field.dtype}")
    if not field.is_fixed:
        if found.ndim != len(field.axes):
            raise ValueError(f"an array of {found.ndim} axes, the first has {len(field.axes)}")
        return np.ascontiguousarray(found).tobytes(), found.shape
    if found.shape != field.shape:
        raise ValueError(f"an array of shape {found.shape}, the first of {field.shape}")
    return found


def _pixels(pixels: NDArray[np.uint8], field: Field) -> NDArray[np.uint8]:
    if pixels.shape != field.shape:
        raise InputError(
            f"pictures differ in size: {pixels.shape[:2]}, the first {field.shape}",
            looked_at="the tier raw, which keeps all pictures at one size",
            run_next="give --size S, or --tier crop-jpeg or keep, which need no one size",
        )
    return pixels


def _hash(read: dict[str, Any]) -> int:
    """The first 8 bytes of blake2b over the bytes that were read, as an unsigned number."""
    digest = blake2b(digest_size=8)
    for value in read.values():
        digest.update(value if isinstance(value, bytes) else _bytes_of(value))
    return int.from_bytes(digest.digest(), "little")


def _bytes_of(value: Any) -> bytes:
    return value.tobytes() if hasattr(value, "tobytes") else repr(value).encode()


def moments_of(image: Any) -> Moments:
    """Exact sums over the pixels of a Pillow image, by channel.

    From its histogram, in a thirtieth of the time of summing squares in numpy.
    """
    counts = np.array(image.histogram(), dtype=np.int64).reshape(-1, 256)
    values = np.arange(256)
    return Moments(
        pixels=int(counts[0].sum()),
        total=tuple((counts @ values).tolist()),
        squares=tuple((counts @ (values * values)).tolist()),
    )


def add_moments(a: Moments, b: Moments) -> Moments:
    """Sums of both."""
    if not a.pixels or not b.pixels:
        return a if a.pixels else b
    return Moments(
        pixels=a.pixels + b.pixels,
        total=tuple(x + y for x, y in zip(a.total, b.total, strict=True)),
        squares=tuple(x + y for x, y in zip(a.squares, b.squares, strict=True)),
    )


def _is_cut(before: tuple[int, int], after: tuple[int, int], transform: Transform) -> bool:
    """True when the centre crop took a pixel row off: the aspect ratios differ by more."""
    if transform.size is None or transform.fit not in ("shorter", "bucket"):
        return False
    scale = max(after[0] / before[0], after[1] / before[1])
    return before[0] * scale - after[0] >= 1 or before[1] * scale - after[1] >= 1


def _reason(error: BaseException) -> str:
    """One line that is the same every time: no address of an object in memory."""
    text = re.sub(r"<[^<>]* at 0x[0-9a-f]+>", "the data", str(error)).strip()
    if isinstance(error, FileNotFoundError):
        text = "the file vanished"
    elif isinstance(error, OSError) and error.strerror:
        text = error.strerror
    return utf8(" ".join(f"{type(error).__name__}: {text}".split()))
