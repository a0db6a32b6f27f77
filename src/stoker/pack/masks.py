"""Masks and other grids of numbers that come as pictures: kept as the numbers that they are."""

from __future__ import annotations

import io
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from stoker.pack import imaging
from stoker.pack.manifest import Transform
from stoker.pack.sources.kinds import GRID_DTYPES

Given: TypeAlias = bytes | Image.Image | NDArray[np.uint8]


def dtype_of(data: Given) -> str:
    """The type of a mask's numbers, from the header alone. Raises what Pillow raises."""
    if isinstance(data, np.ndarray):
        return str(data.dtype.name)
    if isinstance(data, Image.Image):
        return GRID_DTYPES.get(data.mode, "uint8")
    with Image.open(io.BytesIO(data)) as image:
        return GRID_DTYPES.get(image.mode, "uint8")


def numbers_of(
    data: Given, transform: Transform, shape: tuple[int, ...] | None, dtype: str
) -> NDArray[np.generic]:
    """A mask (height, width) at the size that is stored: the nearest neighbours, none mixed.

    Raises ValueError for one in colours or of a type that `dtype` doesn't hold, and what Pillow
    raises for a damaged file.
    """
    grid = _grid(data)
    if not np.can_cast(grid.dtype, dtype):
        raise ValueError(f"a mask of {grid.dtype}, the first are of {dtype}")
    if transform.size is None:
        return grid.astype(dtype)
    # Pillow resizes 32 bits and 8, not all the types of 16.
    resizable = Image.fromarray(grid.astype(np.int32) if grid.dtype == np.uint16 else grid)
    fitted = imaging.fitted(resizable, imaging.nearest(transform), shape)
    return np.asarray(fitted).astype(dtype)


def _grid(data: Given) -> NDArray[np.generic]:
    """The numbers (height, width): palette numbers and gray levels are class numbers."""
    if isinstance(data, np.ndarray):
        if data.ndim != 2:
            raise ValueError(f"a mask of shape {data.shape}")
        return data
    if isinstance(data, Image.Image):
        return _numbers(data)
    if not data:
        raise ValueError("the file is empty")
    with Image.open(io.BytesIO(data)) as image:
        return _numbers(image)


def _numbers(image: Image.Image) -> NDArray[np.generic]:
    if image.mode in GRID_DTYPES:
        return np.asarray(image).astype(GRID_DTYPES[image.mode])
    bands = np.asarray(image.convert("RGB"))
    if (bands != bands[:, :, :1]).any():
        raise ValueError(f"a mask of mode {image.mode}: which class a colour means is not known")
    return bands[:, :, 0]
