"""What is to be packed, fixed before the first sample is read: fields, shards, and who goes where.

A pure function of the listing and the settings: the place of every sample is known beforehand.
"""

from __future__ import annotations

import math
import zlib
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from stoker.errors import InputError
from stoker.pack import imaging, layout
from stoker.pack.fields import fields_of
from stoker.pack.first import FirstSamples
from stoker.pack.manifest import Codec, Field, Manifest, Origin, Role, Shard, Transform, utf8
from stoker.pack.shard import ShardFrame
from stoker.pack.sources.dataset import SAMPLE_ERRORS
from stoker.pack.sources.listing import Kind, Listing, SampleRef
from stoker.pack.sources.reading import SampleReader
from stoker.pack.work import Setup

TIERS = ("raw", "crop-jpeg", "jpeg", "keep")
DEFAULT_QUALITY = 90
# What a JPEG of this size takes is known after packing only: half a byte a pixel (quality 90).
_JPEG_PIXELS_A_BYTE = 2
# A picture of an aspect family has more pixels than a square one, about so many times.
_BUCKET_PIXELS = 1.4
# Settings that say how a picture comes to its size.
_NEED_A_SIZE = ("fit", "resampler")
# No shard has more samples: a manifest of a million labels alone needs no thousand shards, and
# memory for the rows of a shard's ragged fields stays small.
_MOST_SAMPLES = 100_000


class Order(NamedTuple):
    """In which order samples are stored: that of the source, or shuffled by a seed."""

    seed: int | None = None

    def __str__(self) -> str:
        return "source" if self.seed is None else f"shuffled:{self.seed}"


SOURCE_ORDER = Order()


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A pack to be made. `positions[index]` is the position in the listing of sample `index`."""

    listing: Listing
    transform: Transform
    fields: tuple[Field, ...]
    frames: tuple[ShardFrame, ...]
    positions: NDArray[np.int64]
    shard_samples: int
    origin: Origin
    generation: int = 1
    # What is there already and stays, in front of or between the frames.
    kept: tuple[Shard, ...] = ()
    classes: tuple[str, ...] = ()

    @property
    def samples(self) -> int:
        """The number of places, those that are kept included."""
        return sum(f.count for f in self.frames) + sum(s.count for s in self.kept)

    def setup(self, folder: str) -> Setup:
        """What a worker has to know."""
        return Setup(
            folder,
            self.listing.kind,
            self.listing.location,
            self.listing.columns,
            self.transform,
        )

    def refs(self, frame: ShardFrame, first: int, count: int) -> tuple[SampleRef, ...]:
        """The samples of a run of rows of a frame."""
        start = frame.start + first
        return tuple(self.listing.sample(int(p)) for p in self.positions[start : start + count])

    def sources(self, frame: ShardFrame) -> int:
        """The fingerprint of a frame's sources."""
        return self.listing.fingerprint(self.positions[frame.start : frame.start + frame.count])

    @property
    def key(self) -> int:
        """Equal for jobs that make the same bytes: what a journal must have to be continued."""
        parts = (
            *(self.transform, self.fields, self.origin, self.generation, self.shard_samples),
            *(self.classes, len(self.frames), len(self.kept), self.samples),
        )
        return zlib.crc32(repr(parts).encode("utf-8", "surrogateescape"))

    def payload_bytes(self) -> int | None:
        """Bytes to be written, at the least; None when they depend on how pictures are encoded.

        Of files that are kept, those of the files; else those of the fixed fields.
        """
        codecs = {field.codec for field in self.fields}
        if Codec.SOURCE in codecs:
            sizes = self.listing.sizes
            return sum(
                int(sizes[self.positions[frame.start : frame.start + frame.count]].sum())
                for frame in self.frames
            )
        if not codecs <= {Codec.NONE, Codec.TEXT}:
            return None
        return sum(
            frame.count * _fixed_bytes(frame.fields) for frame in self.frames
        ) + layout.HEADER_BYTES * len(self.frames) * len(self.fields)


# An aspect family's (height, width), None for all at one size, and its members.
_Family = tuple[tuple[int, int] | None, NDArray[np.int64]]


def make_job(
    listing: Listing,
    transform: Transform,
    *,
    order: Order = SOURCE_ORDER,
    shard_bytes: int = layout.SHARD_BYTES,
    shard_samples: int | None = None,
    hashes: bool = False,
) -> Job:
    """Everything about the pack but its samples.

    `shard_samples`: so many a shard, as a pack that is there has them; else as many as make about
    `shard_bytes`. Raises InputError for settings that can't be.
    """
    transform = _complete(transform)
    first = FirstSamples(listing, exif=transform.exif)
    fields = fields_of(listing, transform, first, hashes=hashes)
    count = len(listing)
    positions = np.arange(count, dtype=np.int64)
    if order.seed is not None:
        positions = np.random.Generator(np.random.PCG64(order.seed)).permutation(positions)
    families = _families(listing, transform, positions)
    per_shard = shard_samples or _samples_a_shard(listing, fields, transform, shard_bytes, first)
    if families:
        positions = np.concatenate([members for _, members in families])
    frames: list[ShardFrame] = []
    start = 0
    whole: list[_Family] = [(None, positions)]
    for shape, members in families or whole:
        here = tuple(_with_shape(field, shape) for field in fields)
        for at in range(0, len(members), per_shard):
            size = min(per_shard, len(members) - at)
            number = len(frames)
            frames.append(ShardFrame(number, layout.stem(number), start, size, here))
            start += size
    origin = Origin(
        kind=listing.kind,
        location=utf8(listing.location),
        count=count,
        order=str(order),
        fingerprint=listing.fingerprint(range(count)),
        is_hashed=hashes,
    )
    return Job(
        listing=listing,
        transform=transform,
        fields=fields,
        frames=tuple(frames),
        positions=positions,
        shard_samples=per_shard,
        origin=origin,
        classes=tuple(map(utf8, listing.classes)),
    )


def _complete(transform: Transform) -> Transform:
    """The settings with their defaults, and those that mean nothing taken out."""
    if transform.tier not in TIERS:
        raise InputError(
            f"unknown tier {transform.tier!r}",
            looked_at=f"the tiers {', '.join(TIERS)}",
            run_next="stoker pack --help",
        )
    usual = Transform(tier=transform.tier)
    for name in _NEED_A_SIZE:
        given = getattr(transform, name)
        if transform.size is None and given != getattr(usual, name):
            raise InputError(
                f"--{name} {given} without --size: pictures keep the size that they have",
                looked_at=f"--{name}, --size",
                run_next=f"give --size S, or leave --{name} out",
            )
    if transform.tier == "keep":
        if transform.size is not None:
            raise InputError(
                "the tier keep stores the files' own bytes: it has no --size",
                looked_at=f"--tier keep --size {transform.size}",
                run_next="leave --size out, or take --tier crop-jpeg",
            )
        if transform.exif != "ignore":
            raise InputError(
                "the tier keep stores the files' own bytes: none is turned",
                looked_at=f"--tier keep --exif {transform.exif}",
                run_next="leave --exif out, or take --tier crop-jpeg",
            )
        return Transform(tier="keep")
    quality = transform.quality or DEFAULT_QUALITY
    return msgspec.structs.replace(
        transform,
        quality=None if transform.tier == "raw" else quality,
        libraries=imaging.libraries(),
    )


def _families(
    listing: Listing, transform: Transform, positions: NDArray[np.int64]
) -> list[_Family]:
    """Aspect families with their members, the widest last; empty unless the fit is bucket."""
    pictures = [c for c in listing.columns if c.kind in (Kind.IMAGE, Kind.MASK)]
    if transform.fit != "bucket" or transform.tier != "raw" or not pictures:
        return []
    assert transform.size is not None, "a fit needs a size"
    column = min(pictures, key=lambda one: one.kind is Kind.MASK)
    reader = SampleReader(listing.kind, listing.location, listing.columns)
    members: dict[tuple[int, int], list[int]] = {}
    try:
        for position in positions.tolist():
            try:
                data = reader.read(listing.sample(position))[column.name]
                height, width = imaging.size_of(data, exif=transform.exif)
            except SAMPLE_ERRORS:
                height = width = transform.size  # will be quarantined; it needs a place
            shape = imaging.bucket_of(height, width, transform.size)
            members.setdefault(shape, []).append(position)
    finally:
        reader.close()
    return [(shape, np.array(members[shape], dtype=np.int64)) for shape in sorted(members)]


def _with_shape(field: Field, shape: tuple[int, int] | None) -> Field:
    if shape is None or not field.is_fixed or field.axes not in ("HWC", "HW"):
        return field
    return msgspec.structs.replace(field, shape=(*shape, 3) if field.axes == "HWC" else shape)


def _fixed_bytes(fields: tuple[Field, ...]) -> int:
    """Bytes of one sample in the fixed fields."""
    return sum(_bytes(field.shape, field) for field in fields if field.shape is not None)


def _bytes(shape: tuple[int, ...], field: Field) -> int:
    return math.prod(shape) * np.dtype(field.dtype).itemsize


def _samples_a_shard(
    listing: Listing,
    fields: tuple[Field, ...],
    transform: Transform,
    shard_bytes: int,
    first: FirstSamples,
) -> int:
    """So many that the largest field's file has about `shard_bytes`.

    A sample larger than the usual shard is one by itself; InputError when it is the shard that was
    asked for too small.
    """
    largest = max(_sample_bytes(field, listing, transform, first) for field in fields)
    if shard_bytes < min(largest, layout.SHARD_BYTES):
        raise InputError(
            f"a shard of {shard_bytes:,} B holds not one sample, of about {largest:,} B",
            looked_at="--shard-size, and the largest field of a sample",
            run_next="leave it out, for shards of 256 MB: files of a sample each are read slowly",
        )
    return int(np.clip(shard_bytes // max(1, largest), 1, min(_MOST_SAMPLES, max(1, len(listing)))))


def _sample_bytes(field: Field, listing: Listing, transform: Transform, first: FirstSamples) -> int:
    """What a sample takes in the files of a field, about."""
    size = transform.size
    if field.shape is not None:
        return _bytes(field.shape, field)
    if field.role is not Role.DATA:
        return 0  # names, lengths of segments: little beside what they belong to
    if field.is_fixed:  # aspect families
        assert size is not None, "a fit needs a size"
        square = (size, size, 3 if field.axes == "HWC" else 1)
        return int(_bytes(square, field) * _BUCKET_PIXELS)
    if field.codec not in (Codec.JPEG, Codec.CROP_JPEG, Codec.SOURCE):
        return first.mean_bytes(field.name)
    if size is not None:
        return size**2 // _JPEG_PIXELS_A_BYTE
    if listing.sizes.any():
        return int(listing.sizes.mean())
    return first.mean_bytes(field.name) // (3 * _JPEG_PIXELS_A_BYTE)  # 3 bytes a pixel


def manifest_of(job: Job, shards: tuple[Shard, ...]) -> Manifest:
    """The manifest of the finished job; `shards` in any order, those that are kept among them."""
    from stoker.pack.manifest import SCHEMA

    ordered = tuple(sorted(shards, key=lambda shard: shard.number))
    return Manifest(
        schema=SCHEMA,
        generation=job.generation,
        samples=job.samples,
        shard_samples=job.shard_samples,
        fields=job.fields,
        classes=job.classes,
        transform=job.transform,
        origin=job.origin,
        shards=ordered,
        quarantine=tuple(bad for shard in ordered for bad in shard.quarantine),
    )
