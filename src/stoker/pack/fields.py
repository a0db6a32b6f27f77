"""The fields of a pack, by the columns of its source and what its first samples hold."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from stoker.errors import InputError
from stoker.pack.first import FirstSamples
from stoker.pack.layout import AXES
from stoker.pack.manifest import Codec, Field, Role, Transform
from stoker.pack.sources.listing import Column, Kind, Listing

_NEED_NO_SIZE = "give --size S, or --tier crop-jpeg or keep, which need no one size"


def fields_of(
    listing: Listing, transform: Transform, first: FirstSamples, *, hashes: bool
) -> tuple[Field, ...]:
    """All fields: those of the columns, then where each sample came from.

    Raises InputError where they can't be stored that way.
    """
    fields = [
        field
        for column in listing.columns
        for field in _fields_of(listing, column, transform, first)
    ]
    provenance = Role.PROVENANCE
    fields.append(
        Field(name="source", dtype="uint8", is_fixed=False, codec=Codec.TEXT, role=provenance)
    )
    fields.append(Field(name="source_stat", dtype="int64", shape=(2,), role=provenance))
    if hashes:
        fields.append(Field(name="source_hash", dtype="uint64", shape=(), role=provenance))
    return tuple(fields)


def _fields_of(
    listing: Listing, column: Column, transform: Transform, first: FirstSamples
) -> list[Field]:
    name = column.name
    match column.kind:
        case Kind.IMAGE:
            return _image_fields(listing, column, transform, first)
        case Kind.MASK:
            return [_mask_field(column, transform, first)]
        case Kind.ARRAY:
            return [_array_field(column, first)]
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
    listing: Listing, column: Column, transform: Transform, first: FirstSamples
) -> list[Field]:
    name = column.name
    if transform.tier == "raw":
        return [_raw_field(listing, column, transform, first)]
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


def _raw_field(
    listing: Listing, column: Column, transform: Transform, first: FirstSamples
) -> Field:
    field = Field(name=column.name, dtype="uint8", axes="HWC", colours="RGB")
    if transform.fit == "bucket":  # one shape a shard
        return field
    if transform.size is not None:
        return replace(field, shape=(transform.size, transform.size, 3))
    shapes = {part.shape for part in first.parts(column.name)}
    if not shapes:
        raise first.unreadable()
    if len(shapes) == 1:
        return replace(field, shape=shapes.pop())
    if listing.kind == "dataset":
        # What a script loads is stored as it is, one picture after the other.
        return replace(field, is_fixed=False)
    sizes = ", ".join(f"{height}×{width}" for height, width, _ in sorted(shapes)[:5])
    raise InputError(
        f"pictures differ in size: {sizes}", looked_at=first.looked_at, run_next=_NEED_NO_SIZE
    )


def _mask_field(column: Column, transform: Transform, first: FirstSamples) -> Field:
    dtype = column.dtype
    if not dtype:  # of files
        seen = {part.dtype for part in first.parts(column.name)} or {"uint8"}
        dtype = np.result_type(*seen).name
    field = Field(name=column.name, dtype=dtype, axes="HW")
    if transform.size is None or (transform.fit == "bucket" and transform.tier != "raw"):
        return replace(field, is_fixed=False)
    if transform.fit == "bucket":
        return field
    return replace(field, shape=(transform.size, transform.size))


def _array_field(column: Column, first: FirstSamples) -> Field:
    if column.shape is not None:
        return Field(name=column.name, dtype=column.dtype, shape=column.shape)
    parts = first.parts(column.name)
    if not parts:
        raise first.unreadable()
    dtype, shape = parts[0]
    if len({part.shape for part in parts}) == 1:
        return Field(name=column.name, dtype=dtype, shape=shape)
    return Field(name=column.name, dtype=dtype, is_fixed=False, axes=AXES[: len(shape)])
