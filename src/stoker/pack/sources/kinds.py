"""What each part of a Dataset's samples is, told from the first few."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from stoker.errors import InputError
from stoker.pack.sources.listing import NUMBERS, Column, Kind

# What a pixel is in Pillow's modes of one band; palette numbers count as numbers.
GRID_DTYPES = {
    **dict.fromkeys(("1", "L", "P"), "uint8"),
    **dict.fromkeys(("I;16", "I;16L", "I;16B", "I;16N"), "uint16"),
    "I": "int32",
    "F": "float32",
}
_LABEL_NAMES = ("label", "target", "class")


def columns_of(samples: Sequence[Mapping[str, Any]]) -> tuple[Column, ...]:
    """The columns of some samples with the same parts. Raises InputError for what can't be packed.

    A picture of one band is a mask where its name says so, behind a picture in colours, and in the
    place of the label; one of a palette or of 1 bit behind any picture. More than 8 bits are
    numbers wherever they are.
    """
    first = next((name for name, value in samples[0].items() if is_picture(value)), "")
    # Several views of one picture, "image.0" and "image.1", are of one kind.
    before = [n for n in samples[0] if n.partition(".")[0] == first.partition(".")[0]]
    in_colours = not _modes([s[n] for s in samples for n in before]) <= GRID_DTYPES.keys()
    return tuple(
        _column(
            name,
            [sample[name] for sample in samples],
            is_first=name in before,
            beside_colours=in_colours,
        )
        for name in samples[0]
    )


def remarks_on(columns: Sequence[Column]) -> Iterator[str]:
    """What to say of how they are stored."""
    for column in columns:
        if column.kind is Kind.MASK and not _says_mask(column.name):
            yield f"{column.name}: stored as the numbers that it holds ({column.dtype}), as a mask"
        yield from _costly(column)


def is_picture(value: Any) -> bool:
    """True for a Pillow image, and for an array that one can be made of."""
    if hasattr(value, "mode") and hasattr(value, "resize"):
        return True
    return (
        isinstance(value, np.ndarray)
        and value.dtype == np.uint8
        and value.ndim == 3
        and value.shape[2] == 3
    )


def _column(name: str, found: Sequence[Any], *, is_first: bool, beside_colours: bool) -> Column:
    value = found[0]
    if is_picture(value):
        return _of_pictures(name, _modes(found), is_first=is_first, beside_colours=beside_colours)
    if isinstance(value, np.ndarray) and value.dtype.kind in NUMBERS:
        shapes = {np.shape(other) for other in found}
        shape = shapes.pop() if len(shapes) == 1 else None
        return Column(name, Kind.ARRAY, value.dtype.name, shape)
    if isinstance(value, bool | int | float):
        # Whole numbers first and fractions later are fractions.
        if any(isinstance(other, float) for other in found):
            return Column(name, Kind.FLOAT)
        return Column(name, Kind.LABEL if name.lower() in _LABEL_NAMES else Kind.INT)
    if isinstance(value, str):
        return Column(name, Kind.TEXT)
    if isinstance(value, bytes):
        return Column(name, Kind.BYTES)
    kind = f"an array of {value.dtype}" if isinstance(value, np.ndarray) else type(value).__name__
    raise InputError(
        f"part {name!r} of a sample is {kind}, which cannot be packed",
        looked_at="sample 0",
        run_next="return images, arrays of numbers, numbers, text or bytes, in a tuple or a dict",
    )


def _of_pictures(name: str, modes: set[str], *, is_first: bool, beside_colours: bool) -> Column:
    if not modes <= GRID_DTYPES.keys():
        return Column(name, Kind.IMAGE)
    dtype = np.result_type(*(GRID_DTYPES[mode] for mode in modes)).name
    is_target = name.lower().rpartition(".")[2] in _LABEL_NAMES or bool(modes & {"P", "1"})
    is_mask = _says_mask(name) or (not is_first and (beside_colours or is_target))
    is_grid = is_mask or dtype != "uint8"
    return Column(name, Kind.MASK, dtype) if is_grid else Column(name, Kind.IMAGE)


def _modes(found: Sequence[Any]) -> set[str]:
    return {getattr(value, "mode", "RGB") for value in found if is_picture(value)}


def _says_mask(name: str) -> bool:
    return "mask" in name.lower() or "seg" in name.lower()


def _costly(column: Column) -> Iterator[str]:
    """What to say of floats that may well be pictures; signals and tables of floats are none."""
    shape = column.shape
    if column.kind is not Kind.ARRAY or shape is None:
        return
    dtype = np.dtype(column.dtype)
    if dtype.kind == "f" and len(shape) == 3 and {shape[0], shape[2]} & {1, 3, 4}:
        yield (
            f"{column.name}: stores {dtype} {shape}, {dtype.itemsize} times "
            "the bytes of uint8; if these are pictures, return a picture or uint8, and make floats "
            "of what the pack gives"
        )
