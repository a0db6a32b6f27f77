"""How large a sample is where its transforms are cut, as a raw pack keeps it.

Standard library only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stoker import clocks
from stoker.containers import parts
from stoker.split.cut import Cut

# Their mean is good enough to forecast a disk by, where pictures differ in size too.
_SAMPLES = 4
# What a pixel takes in Pillow's modes of one band, where a pack keeps it as the number that it is.
_NUMBER_BYTES = {"1": 1, "L": 1, "P": 1, "I": 4, "F": 4}
_NUMBER, _RGB = 8, 3
# What the user's own code may raise for a sample, and what is no part of one to be measured.
_ANY_ERROR = Exception


def packed_bytes(
    dataset: Any, cut: Cut | None, indices: Sequence[Any], *, limit_s: float
) -> float | None:
    """Mean bytes of some of these samples with the transforms before the cut alone; None: all ran.

    None where no sample can be made so. After `limit_s` seconds no further one is made.
    """
    end = clocks.wall_s() + limit_s
    kept = dataset if cut is None else cut.kept(dataset)
    sizes: list[int] = []
    for index in indices[:_SAMPLES]:
        try:
            sizes.append(stored_bytes(kept[index]))
        except _ANY_ERROR:
            continue  # a broken sample, or a data set that can't do without the rest
        if clocks.wall_s() > end:
            break
    return sum(sizes) / len(sizes) if sizes else None


def stored_bytes(sample: Any) -> int:
    """Bytes of all parts of a sample: pictures as RGB, masks and arrays as their numbers."""
    total = 0
    has_picture = False
    for _, part in parts(sample):
        mode = getattr(part, "mode", None)
        if isinstance(mode, str) and hasattr(part, "resize"):
            total += _of_picture(part, mode, is_first=not has_picture)
            has_picture = True
        else:
            total += _of_value(part)
    return total


def _of_picture(picture: Any, mode: str, *, is_first: bool) -> int:
    """Of 8 bits in one band, the first is a gray picture and turned RGB, a further one a mask."""
    width, height = picture.size
    each = 2 if mode.startswith("I;16") else _NUMBER_BYTES.get(mode, _RGB)
    return int(width * height * (_RGB if is_first and each == 1 else each))


def _of_value(part: Any) -> int:
    if isinstance(part, str):
        return len(part.encode("utf-8", "surrogateescape"))
    if isinstance(part, bytes):
        return len(part)
    if hasattr(part, "element_size"):  # a tensor
        return int(part.numel() * part.element_size())
    return int(getattr(part, "nbytes", _NUMBER))
