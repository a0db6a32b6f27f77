"""What is to be packed, fixed before the first sample is read: fields, shards, and who goes where.

A pure function of the listing and the settings: the place of every sample is known beforehand.
"""

from __future__ import annotations

import zlib
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from stoker.errors import InputError
from stoker.pack import imaging, layout
from stoker.pack.manifest import Codec, Field, Manifest, Origin, Role, Shard, Transform, utf8
from stoker.pack.shard import ShardFrame
from stoker.pack.sources.listing import Column, Kind, Listing, SampleRef
from stoker.pack.sources.reading import SampleReader, array_of
from stoker.pack.work import Setup

TIERS = ("raw", "crop-jpeg", "jpeg", "keep")
DEFAULT_QUALITY = 90
# Samples looked at for sizes of what isn't decoded to one size.
_LOOKED_AT = 32
# Bytes of a raw picture where sizes differ; near enough for the length of a file.
_RAGGED_PICTURE = 512 * 512 * 3
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
        """Bytes of the fixed fields to be written; None when a ragged one holds the pictures."""
        if any(f.codec not in (Codec.NONE, Codec.TEXT) for f in self.fields):
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
    fields = _fields(listing, transform, hashes=hashes)
    count = len(listing)
    positions = np.arange(count, dtype=np.int64)
    if order.seed is not None:
        positions = np.random.Generator(np.random.PCG64(order.seed)).permutation(positions)
    families = _families(listing, transform, positions)
    per_shard = shard_samples or _samples_a_shard(listing, fields, transform, shard_bytes)
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
    if transform.tier == "keep":
        if transform.size is not None:
            raise InputError(
                "the tier keep stores the files' own bytes: it has no --size",
                looked_at=f"--tier keep --size {transform.size}",
                run_next="leave --size out, or take --tier crop-jpeg",
            )
        return Transform(tier="keep", exif="ignore")
    quality = transform.quality or DEFAULT_QUALITY
    return msgspec.structs.replace(
        transform,
        quality=None if transform.tier == "raw" else quality,
        libraries=imaging.libraries(),
    )


def _fields(listing: Listing, transform: Transform, *, hashes: bool) -> tuple[Field, ...]:
    reader = SampleReader(listing.kind, listing.location, listing.columns)
    try:
        fields = [
            field
            for column in listing.columns
            for field in _fields_of(listing, column, transform, reader)
        ]
    finally:
        reader.close()
    provenance = Role.PROVENANCE
    fields.append(
        Field(name="source", dtype="uint8", is_fixed=False, codec=Codec.TEXT, role=provenance)
    )
    fields.append(Field(name="source_stat", dtype="int64", shape=(2,), role=provenance))
    if hashes:
        fields.append(Field(name="source_hash", dtype="uint64", shape=(), role=provenance))
    return tuple(fields)


def _fields_of(
    listing: Listing, column: Column, transform: Transform, reader: SampleReader
) -> list[Field]:
    name = column.name
    match column.kind:
        case Kind.IMAGE:
            return _image_fields(listing, column, transform, reader)
        case Kind.MASK:
            shape = None if transform.size is None else (transform.size, transform.size)
            is_fixed = transform.size is not None
            return [Field(name=name, dtype="uint8", shape=shape, is_fixed=is_fixed, axes="HW")]
        case Kind.ARRAY:
            return [_array_field(listing, column, reader)]
        case Kind.LABEL:
            return [Field(name=name, dtype="int64", shape=(), role=Role.LABEL)]
        case Kind.INT:
            return [Field(name=name, dtype="int64", shape=())]
        case Kind.FLOAT:
            return [Field(name=name, dtype="float64", shape=())]
        case Kind.TEXT:
            return [Field(name=name, dtype="uint8", is_fixed=False, codec=Codec.TEXT)]
        case _:
            return [Field(name=name, dtype="uint8", is_fixed=False, codec=Codec.BYTES)]


def _image_fields(
    listing: Listing, column: Column, transform: Transform, reader: SampleReader
) -> list[Field]:
    name = column.name
    if transform.tier == "raw":
        shape: tuple[int, ...] | None = None
        if transform.fit != "bucket" or transform.size is None:
            sizes = (
                {(transform.size,) * 2}
                if transform.size
                else _first_sizes(listing, column, reader, transform)
            )
            if len(sizes) > 1 and listing.kind == "dataset":
                # What a script loads is stored as it is, one picture after the other.
                return [Field(name=name, dtype="uint8", is_fixed=False, axes="HWC", colours="RGB")]
            shape = (*_one_of(sizes, listing), 3)
        return [Field(name=name, dtype="uint8", shape=shape, axes="HWC", colours="RGB")]
    if transform.tier == "keep" and listing.kind == "dataset":
        raise InputError(
            "a Dataset gives pictures that are decoded already: there are no bytes to keep",
            looked_at=f"{listing.location}, --tier keep",
            run_next="take --tier crop-jpeg or raw",
        )
    codec = {"jpeg": Codec.JPEG, "crop-jpeg": Codec.CROP_JPEG}.get(transform.tier, Codec.SOURCE)
    field = Field(name=name, dtype="uint8", is_fixed=False, codec=codec, axes="HWC", colours="RGB")
    if codec is not Codec.CROP_JPEG:
        return [field]
    segments = Field(name=f"{name}.segments", dtype="uint16", is_fixed=False, role=Role.INDEX)
    return [field, segments]


def _first_sizes(
    listing: Listing, column: Column, reader: SampleReader, transform: Transform
) -> set[tuple[int, int]]:
    """The sizes of the first pictures, of those that can be read."""
    found: set[tuple[int, int]] = set()
    for position in range(min(len(listing), _LOOKED_AT)):
        try:
            data = reader.read(listing.sample(position))[column.name]
            found.add(imaging.size_of(data, exif=transform.exif))
        except imaging.PICTURE_ERRORS:
            continue  # will be quarantined
    return found


def _one_of(found: set[tuple[int, int]], listing: Listing) -> tuple[int, int]:
    """The size that all pictures have. Raises InputError when they have several, or none."""
    if len(found) == 1:
        return next(iter(found))
    sizes = ", ".join(f"{height}×{width}" for height, width in sorted(found)[:5])
    raise InputError(
        f"pictures differ in size: {sizes}" if found else "none of the first pictures can be read",
        looked_at=f"the first {min(len(listing), _LOOKED_AT)} pictures of {listing.location}",
        run_next="give --size S, or --tier crop-jpeg or keep, which need no one size",
    )


def _array_field(listing: Listing, column: Column, reader: SampleReader) -> Field:
    dtype, shapes, axes = column.dtype, {column.shape}, 0
    if not dtype:
        shapes = set()
        for position in range(min(len(listing), _LOOKED_AT)):
            found = array_of(reader.read(listing.sample(position))[column.name])
            dtype, axes = dtype or found.dtype.name, found.ndim
            shapes.add(found.shape)
    shape = shapes.pop() if len(shapes) == 1 else None
    if shape is not None:
        return Field(name=column.name, dtype=dtype, shape=shape)
    axes = axes or array_of(reader.read(listing.sample(0))[column.name]).ndim
    return Field(name=column.name, dtype=dtype, is_fixed=False, axes="NMKLJI"[:axes])


def _families(
    listing: Listing, transform: Transform, positions: NDArray[np.int64]
) -> list[_Family]:
    """Aspect families with their members, the widest last; empty unless the fit is bucket."""
    if transform.fit != "bucket" or transform.size is None or transform.tier != "raw":
        return []
    (column,) = [column for column in listing.columns if column.kind is Kind.IMAGE][:1]
    reader = SampleReader(listing.kind, listing.location, listing.columns)
    members: dict[tuple[int, int], list[int]] = {}
    try:
        for position in positions.tolist():
            try:
                data = reader.read(listing.sample(position))[column.name]
                height, width = imaging.size_of(data, exif=transform.exif)
            except imaging.PICTURE_ERRORS:
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
    return sum(
        int(np.prod(field.shape)) * np.dtype(field.dtype).itemsize
        for field in fields
        if field.shape is not None
    )


def _samples_a_shard(
    listing: Listing, fields: tuple[Field, ...], transform: Transform, shard_bytes: int
) -> int:
    """So many that the largest field's file has about `shard_bytes`.

    A sample larger than the usual shard is one by itself; InputError when it is the shard that was
    asked for too small.
    """
    largest = max(
        (
            int(np.prod(field.shape)) * np.dtype(field.dtype).itemsize
            for field in fields
            if field.shape is not None
        ),
        default=0,
    )
    if any(field.codec in (Codec.JPEG, Codec.CROP_JPEG, Codec.SOURCE) for field in fields):
        # What a JPEG of this size takes is known after packing only; the mean of the source, or
        # half a byte a pixel (quality 90), is near enough for the length of a file.
        mean = int(listing.sizes.mean()) if len(listing) else 0
        guess = transform.size**2 // 2 if transform.size else mean or 1 << 17
        largest = max(largest, guess)
    elif any(field.axes == "HWC" and not field.is_fixed for field in fields):
        largest = max(largest, min(_RAGGED_PICTURE, shard_bytes))
    elif transform.fit == "bucket" and transform.size:
        largest = max(largest, int(transform.size**2 * 3 * 1.4))
    if shard_bytes < min(largest, layout.SHARD_BYTES):
        raise InputError(
            f"a shard of {shard_bytes:,} B holds not one sample, of about {largest:,} B",
            looked_at="--shard-size, and the largest field of a sample",
            run_next="leave it out, for shards of 256 MB: files of a sample each are read slowly",
        )
    return int(np.clip(shard_bytes // max(1, largest), 1, min(_MOST_SAMPLES, max(1, len(listing)))))


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
