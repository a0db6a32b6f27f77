"""What a pack holds, in numbers: fields and their bytes, pixel statistics, classes, order."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from stoker.errors import InputError, PackError
from stoker.pack import layout
from stoker.pack.manifest import BadSample, Codec, Moments, Origin, Role, Transform
from stoker.pack.reader import Pack
from stoker.pack.sources.dataset import SAMPLE_ERRORS
from stoker.pack.work import add_moments

# Reading in stored order gives each batch few classes when this many neighbours are of one class.
_ORDERED_SHARE = 0.5
# Labels that are compared with their neighbours: enough to tell 50 % from 51.
_LABELS_LOOKED_AT = 100_000
# A label beyond is an identifier or the like, and no class.
_MOST_CLASSES = 1_000_000
_SHEET_CELL = 128


class FieldSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A field, what it takes and how."""

    name: str
    dtype: str
    shape: str
    codec: Codec
    role: Role
    bytes: int


class PackSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What `stoker info` tells. Means and deviations are of 0 to 255, channel by channel."""

    schema: str = "stoker.info/1"
    path: str
    samples: int
    generation: int
    shards: int
    bytes: int
    fields: tuple[FieldSummary, ...]
    transform: Transform
    origin: Origin
    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    classes: dict[str, int]
    # Share of neighbours with one label, and what chance would give.
    same_class_neighbours: float | None
    by_chance: float | None
    quarantine: tuple[BadSample, ...]
    notes: dict[str, int]

    @property
    def is_class_ordered(self) -> bool:
        """True when stored order has to be shuffled globally, or batches have few classes."""
        if self.same_class_neighbours is None or self.by_chance is None:
            return False
        return self.same_class_neighbours > self.by_chance + _ORDERED_SHARE * (1 - self.by_chance)


def summarise(pack: Pack) -> PackSummary:
    """Everything about the pack but its samples; only labels are read."""
    moments = Moments()
    notes: dict[str, int] = {}
    for shard in pack.shards:
        moments = add_moments(moments, shard.moments)
        for name, count in shard.notes.items():
            notes[name] = notes.get(name, 0) + count
    mean, deviation = _statistics(moments)
    labels = _labels(pack)
    same, chance = _neighbours(labels)
    return PackSummary(
        path=str(pack.path),
        samples=len(pack),
        generation=pack.generation,
        shards=len(pack.shards),
        bytes=sum(file.size for shard in pack.shards for file in shard.files),
        fields=tuple(_field(pack, name) for name in pack.fields),
        transform=pack.manifest.transform,
        origin=pack.manifest.origin,
        mean=mean,
        deviation=deviation,
        classes=_classes(labels, pack.classes),
        same_class_neighbours=same,
        by_chance=chance,
        quarantine=pack.manifest.quarantine,
        notes=notes,
    )


def _field(pack: Pack, name: str) -> FieldSummary:
    field = pack.field(name)
    names = {
        file
        for shard in pack.shards
        for file in layout.files_of(shard.stem, name, is_fixed=field.is_fixed)
    }
    taken = sum(f.size for shard in pack.shards for f in shard.files if f.name in names)
    if field.shape is not None:
        shape = " × ".join(map(str, field.shape)) or "one number"
    elif field.is_fixed:
        shapes = sorted({shard.shapes[name] for shard in pack.shards})
        shape = ", ".join("×".join(map(str, one)) for one in shapes)
    else:
        shape = "differs"
    return FieldSummary(
        name=name, dtype=field.dtype, shape=shape, codec=field.codec, role=field.role, bytes=taken
    )


def _statistics(moments: Moments) -> tuple[tuple[float, ...], tuple[float, ...]]:
    if not moments.pixels:
        return (), ()
    mean = tuple(total / moments.pixels for total in moments.total)
    variance = [s / moments.pixels - m * m for s, m in zip(moments.squares, mean, strict=True)]
    return mean, tuple(math.sqrt(max(0.0, value)) for value in variance)


def _labels(pack: Pack) -> NDArray[Any] | None:
    """The first label of every sample, as a number; None for a pack without."""
    names = [field.name for field in pack.batch_fields if field.role is Role.LABEL]
    if not names or pack.field(names[0]).shape != ():
        return None
    return np.concatenate([pack.array(names[0], number) for number in range(len(pack.shards))])


def _classes(labels: NDArray[Any] | None, names: tuple[str, ...]) -> dict[str, int]:
    """Samples by class: all that have names, and other labels that occur. −1 is no class."""
    if labels is None or labels.dtype.kind not in "iu":
        return {}
    found, counts = np.unique(labels[labels >= 0], return_counts=True)
    if not len(found) or found[-1] >= _MOST_CLASSES:
        return {}
    by_label = dict.fromkeys(range(len(names)), 0)
    by_label |= zip(found.tolist(), counts.tolist(), strict=True)
    return {
        (names[label] if label < len(names) else str(label)): count
        for label, count in by_label.items()
    }


def _neighbours(labels: NDArray[Any] | None) -> tuple[float | None, float | None]:
    if labels is None or len(labels) < 2:
        return None, None
    labels = labels[:_LABELS_LOOKED_AT]
    _, counts = np.unique(labels, return_counts=True)
    chance = float(((counts / len(labels)) ** 2).sum())
    return float((labels[1:] == labels[:-1]).mean()), chance


def picture(pack: Pack, index: int, name: str = "image") -> Any:
    """The Pillow image of a sample's field. Raises InputError when it holds no pictures."""
    import io

    from PIL import Image

    field = pack.fields.get(name)
    if field is None or (field.codec is Codec.NONE and field.dtype != "uint8"):
        raise InputError(
            f"{pack.path} has no pictures",
            looked_at=f"its fields {', '.join(pack.fields)}",
            run_next=f"stoker info {pack.path} without --sheet",
        )
    value = pack.value(name, index)
    if not isinstance(value, bytes):
        return Image.fromarray(value)
    try:
        return Image.open(io.BytesIO(value)).convert("RGB")
    except SAMPLE_ERRORS as error:
        raise PackError(
            f"sample {index} of {pack.path} can't be decoded: {error}",
            looked_at=f"the bytes of its field {name!r}, from {pack.source(index) or 'no file'}",
            run_next=f"stoker verify {pack.path} tells whether these bytes were written",
        ) from error


def write_sheet(pack: Pack, path: Path, *, across: int = 8, down: int = 6) -> int:
    """A sheet of pictures evenly spread over the pack, as a PNG or JPEG. Returns their number.

    Raises InputError for a pack without pictures and a path that can't be written.
    """
    from PIL import Image

    count = min(across * down, len(pack.usable))
    chosen = pack.usable[np.linspace(0, len(pack.usable) - 1, count).astype(int)] if count else []
    rows = max(1, -(-count // across))
    sheet = Image.new("RGB", (across * _SHEET_CELL, rows * _SHEET_CELL), "white")
    for number, index in enumerate(chosen):
        image = picture(pack, int(index))
        image.thumbnail((_SHEET_CELL - 4, _SHEET_CELL - 4))
        row, column = divmod(number, across)
        sheet.paste(image, (column * _SHEET_CELL + 2, row * _SHEET_CELL + 2))
    try:
        sheet.save(path)
    except (OSError, ValueError) as error:
        raise InputError(
            f"--sheet: {path} cannot be written: {error}",
            looked_at=str(path.absolute()),
            run_next="give a .png or .jpg in a folder that you may write to",
        ) from error
    return count
