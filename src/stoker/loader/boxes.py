"""Which part of each picture is cut: boxes from draws, without pixels and without torch.

The distributions are those of torchvision's transforms of the same names.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stoker.loader.draws import Chance

Ints = NDArray[np.int64]
# (height, width) of all pictures, or of each.
Source = tuple[int, int] | tuple[Ints, Ints]

# As torchvision: so many tries for a box that fits, then the largest one in the middle.
TRIES = 10


class Boxes(NamedTuple):
    """One box a sample, in pixels of the source; each field has shape (N,)."""

    top: Ints
    left: Ints
    height: Ints
    width: Ints


def fixed(chance: Chance, source: Source, size: tuple[int, int]) -> Boxes:
    """Boxes of one size at random places: draws 0 and 1."""
    rows, columns = _of_each(chance, source)
    return Boxes(
        chance.below(0, rows - size[0] + 1),
        chance.below(1, columns - size[1] + 1),
        np.full(len(chance), size[0]),
        np.full(len(chance), size[1]),
    )


def centred(chance: Chance, source: Source, size: tuple[int, int]) -> Boxes:
    """Boxes of one size in the middle, rounded to an even pixel as torchvision does."""
    rows, columns = _of_each(chance, source)
    return Boxes(
        np.rint((rows - size[0]) / 2).astype(np.int64),
        np.rint((columns - size[1]) / 2).astype(np.int64),
        np.full(len(chance), size[0]),
        np.full(len(chance), size[1]),
    )


def middle(chance: Chance, source: Source, share: float) -> Boxes:
    """Squares in the middle whose side is a share of the picture's shorter one."""
    rows, columns = _of_each(chance, source)
    side = np.maximum(np.rint(share * np.minimum(rows, columns)), 1).astype(np.int64)
    return Boxes((rows - side) // 2, (columns - side) // 2, side, side)


def resized(
    chance: Chance, source: Source, scale: tuple[float, float], ratio: tuple[float, float]
) -> Boxes:
    """Boxes of random area and shape: area uniform, the logarithm of width : height uniform.

    Draws 0 to 21.
    """
    count = len(chance)
    rows, columns = _of_each(chance, source)
    # All tries of all samples at once: for eight of them a loop over tries takes twice as long.
    tries = 2 * np.arange(TRIES)
    area = rows * columns * chance.uniforms(tries, *scale)
    shape = np.exp(chance.uniforms(tries + 1, *(math.log(bound) for bound in ratio)))
    wide = np.rint(np.sqrt(area * shape)).astype(np.int64)
    high = np.rint(np.sqrt(area / shape)).astype(np.int64)
    fits = (wide > 0) & (wide <= columns) & (high > 0) & (high <= rows)
    first = fits.argmax(axis=0), np.arange(count)
    is_open = ~fits[first]
    height, width = high[first], wide[first]
    if is_open.any():
        largest = _largest(rows, columns, ratio)
        height, width = (
            np.where(is_open, whole, found)
            for whole, found in zip(largest, (height, width), strict=True)
        )
    top = chance.below(2 * TRIES, rows - height + 1)
    left = chance.below(2 * TRIES + 1, columns - width + 1)
    top = np.where(is_open, (rows - height) // 2, top)
    left = np.where(is_open, (columns - width) // 2, left)
    return Boxes(top, left, height, width)


def _of_each(chance: Chance, source: Source) -> tuple[Ints, Ints]:
    rows, columns = (np.broadcast_to(np.asarray(side, np.int64), (len(chance),)) for side in source)
    return rows, columns


def _largest(rows: Ints, columns: Ints, ratio: tuple[float, float]) -> tuple[Ints, Ints]:
    """The largest box whose shape is allowed: what is taken when no try fits."""
    shape = columns / rows
    height = np.where(shape > ratio[1], rows, np.minimum(rows, np.rint(columns / ratio[0])))
    width = np.where(shape < ratio[0], columns, np.minimum(columns, np.rint(rows * ratio[1])))
    height = np.where(shape < ratio[0], np.rint(columns / ratio[0]), height)
    return height.astype(np.int64), width.astype(np.int64)
