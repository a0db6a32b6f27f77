"""What there is to load: a pack, or a folder of pictures, as columns of one count.

The only place that knows both kinds; the loader sees columns.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from stoker.errors import InputError
from stoker.loader.access import Access, Reading
from stoker.loader.crops import CenterCrop, Crop, RandomCrop
from stoker.loader.folder import Folder
from stoker.loader.jpeg import Decoder, JpegColumn, Picture
from stoker.loader.order import Indices
from stoker.loader.packed import (
    ArrayColumn,
    Column,
    HeldColumn,
    Rows,
    array_column,
    read_range,
)
from stoker.loader.slots import Field
from stoker.pack import Codec, Pack, Role, open_pack
from stoker.pack import Field as PackField
from stoker.pack.layout import MANIFEST

# What a batch calls the numbers of its samples.
INDEX = "index"
_ENCODED = (Codec.JPEG, Codec.CROP_JPEG, Codec.SOURCE)
_OTHERS = (
    "give the folder of a pack or of pictures; for a data set object there is stoker.DataLoader, "
    "for any iterable stoker.feed"
)


class Wanted(NamedTuple):
    """How the contents are to be read. `fields`: None for all that a batch is made of."""

    fields: Sequence[str] | None = None
    crop: Crop | None = None
    decoder: Decoder = "simplejpeg"
    reading: Reading | None = None


class Contents(NamedTuple):
    """Columns, and what the loader has to know about them.

    `usable`: the indices that may be trained on. `labels`: of all samples, where they are known.
    `access`: how a pack is read; None for files. `is_decoded`: samples cost a decode each, not a
    copy.
    """

    usable: Indices
    columns: tuple[Column, ...]
    labels: NDArray[np.integer] | None
    classes: tuple[str, ...]
    generation: int
    access: Access | None
    is_decoded: bool

    @property
    def reading(self) -> str:
        """How samples are read now."""
        return "files" if self.access is None else self.access.reading


def contents_of(source: str | os.PathLike[str] | Pack | Folder, wanted: Wanted) -> Contents:
    """Open the source. Raises InputError, PackError and its kinds as `open_pack` does."""
    if isinstance(source, Pack):
        return _of_pack(source, wanted)
    if isinstance(source, Folder):
        return _of_folder(source, wanted)
    if not isinstance(source, str | os.PathLike):
        raise InputError(
            f"stoker.Loader cannot read {source!r:.80}",
            looked_at=f"its type, {type(source).__name__}: neither a path nor an open Pack",
            run_next=_OTHERS,
        )
    path = Path(source)
    if not path.is_dir():
        raise InputError(
            f"{path} is not a folder",
            looked_at=str(path.absolute()),
            run_next=_OTHERS,
        )
    if (path / MANIFEST).exists() or not _has_pictures(path):
        return _of_pack(open_pack(path), wanted)
    return _of_folder(Folder(path), wanted)


def _has_pictures(path: Path) -> bool:
    """False only for what can be nothing but half a pack or an empty folder."""
    return not any(path.glob("shard-*")) and any(path.iterdir())


def _of_folder(folder: Folder, wanted: Wanted) -> Contents:
    crop = wanted.crop or _refuse_no_size(folder.path)
    columns: list[Column] = [JpegColumn("image", folder, crop=crop, decoder=wanted.decoder)]
    if folder.classes:
        columns.append(LabelColumn(folder.labels))
    return Contents(
        usable=np.arange(len(folder)),
        columns=_chosen(columns, wanted),
        labels=folder.labels if folder.classes else None,
        classes=folder.classes,
        generation=0,
        access=None,
        is_decoded=True,
    )


class LabelColumn:
    """Labels that are in memory already."""

    field = Field.of("label", (), np.int64)

    def __init__(self, labels: NDArray[np.int64]) -> None:
        self._labels = labels

    def fill(self, rows: Rows, out: NDArray[np.int64]) -> None:
        """Copy them."""
        np.take(self._labels, rows.samples, out=out, mode="clip")


def _of_pack(pack: Pack, wanted: Wanted) -> Contents:
    fields = _pack_fields(pack, wanted)
    access = Access(pack, [field.name for field in fields], wanted.reading)
    columns: list[Column] = []
    for field in fields:
        crop = wanted.crop if _is_picture(field) else None
        if field.codec in _ENCODED:
            pictures = PackedPictures(pack, field, access)
            crop = wanted.crop or _whole(pack, field) or _refuse_no_size(pack.path)
            columns.append(JpegColumn(field.name, pictures, crop=crop, decoder=wanted.decoder))
        else:
            columns.append(array_column(pack, field.name, crop=crop, access=access))
    _check_cut_alike(columns, wanted.crop)
    held = {c.field.name: c.values for c in columns if isinstance(c, HeldColumn)}
    labels = [
        held[field.name] for field in fields if field.role is Role.LABEL and field.name in held
    ]
    return Contents(
        usable=pack.usable,
        columns=tuple(columns),
        labels=labels[0] if labels else None,
        classes=pack.classes,
        generation=pack.generation,
        access=access,
        is_decoded=any(isinstance(column, JpegColumn) for column in columns),
    )


class PackedPictures:
    """Encoded pictures of a pack."""

    def __init__(self, pack: Pack, field: PackField, access: Access) -> None:
        self._pack = pack
        self._field = field.name
        self._has_segments = field.codec is Codec.CROP_JPEG
        self._access = access

    def read(self, sample: int) -> Picture:
        """The bytes of one, by map or by a read."""
        pack, name = self._pack, self._field
        if self._access.reading == "mmap":
            segments = pack.segments(name, sample) if self._has_segments else None
            return Picture(pack.raw(name, sample), self.name(sample), segments)
        data, segments = read_range(pack.file_range(name, sample)), None
        if self._has_segments:
            stored = read_range(pack.file_range(f"{name}.segments", sample))
            segments = np.frombuffer(stored, np.uint16)
        return Picture(data, self.name(sample), segments)

    def name(self, sample: int) -> str:
        """Where it lies in the pack."""
        return f"{self._pack.path}, field {self._field!r}, sample {sample}"


def _pack_fields(pack: Pack, wanted: Wanted) -> list[PackField]:
    """The fields named, or else all data and labels; refused when they make no batch."""
    if wanted.fields is not None:
        fields = [pack.field(name) for name in wanted.fields]
    else:
        fields = list(pack.batch_fields)
    if any(field.name == INDEX for field in fields):
        others = ", ".join(repr(field.name) for field in fields if field.name != INDEX)
        raise InputError(
            f"the pack has a field {INDEX!r}, and so is called in a batch which samples are in it",
            looked_at=f"the fields {', '.join(pack.fields)} of {pack.path}",
            run_next=f"leave it out, as in stoker.Loader(…, fields=({others},)); its values come "
            f"by pack.value({INDEX!r}, index)",
        )
    ragged = [f for f in fields if not f.is_fixed and f.codec not in _ENCODED]
    if not fields or ragged:
        raise InputError(
            f"field {ragged[0].name!r} has samples of any length, which make no batch"
            if ragged
            else f"{pack.path} has no field that a batch is made of",
            looked_at=f"the fields {', '.join(pack.fields)} of {pack.path}",
            run_next="name the fields that you want: stoker.Loader(…, fields=(…)); samples of any "
            "length come by pack.value(field, index), in a Dataset of your own",
        )
    return fields


def _is_picture(field: PackField) -> bool:
    """True for what a crop applies to: pictures and masks, by name as for the recipes."""
    if field.axes:
        return field.axes.startswith("HW")
    axes = len(field.shape or ()) if field.role is Role.DATA else 0
    return axes == 3 or (axes == 2 and field.name == "mask")


def _check_cut_alike(columns: Sequence[Column], crop: Crop | None) -> None:
    """Refuse fields of different sizes, of which a random crop would be different parts."""
    if not isinstance(crop, RandomCrop):
        return
    cut = [(c.field.name, c.sides) for c in columns if isinstance(c, ArrayColumn) and c.is_cut]
    for other, sides in cut[1:]:
        if not np.array_equal(sides, cut[0][1]):
            raise InputError(
                f"a random crop would cut other parts of {other!r} than of {cut[0][0]!r}: their "
                "sizes differ",
                looked_at="height and width of both fields in every shard",
                run_next=f"leave one out, as in stoker.Loader(…, fields=({cut[0][0]!r}, …))",
            )


def _whole(pack: Pack, field: PackField) -> Crop | None:
    """All of each encoded picture, where all of them have one size; else None."""
    shapes = np.concatenate([pack.shapes(field.name, n) for n in range(len(pack.shards))])
    sizes = shapes[pack.usable, :2]  # what could not be packed has no size
    if not len(sizes) or sizes.shape[1] < 2 or (sizes != sizes[0]).any():
        return None
    return CenterCrop((int(sizes[0, 0]), int(sizes[0, 1])))


def _refuse_no_size(path: Path) -> NoReturn:
    raise InputError(
        f"{path} holds encoded pictures, and nothing says what size they shall have in a batch",
        looked_at="crop=None; only a pack whose pictures are all of one size needs no crop",
        run_next="crop=224, crop=stoker.augment.RandomResizedCrop(224), or "
        "crop=stoker.augment.CenterResizedCrop(224) for evaluation",
    )


def _chosen(columns: Sequence[Column], wanted: Wanted) -> tuple[Column, ...]:
    if wanted.fields is None:
        return tuple(columns)
    by_name = {column.field.name: column for column in columns}
    unknown = [name for name in wanted.fields if name not in by_name]
    if unknown:
        raise InputError(
            f"there is no field {unknown[0]!r}",
            looked_at=f"the fields {', '.join(by_name)}",
            run_next="leave fields out for all of them",
        )
    return tuple(by_name[name] for name in wanted.fields)
