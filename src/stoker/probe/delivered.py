"""What a finished batch holds, in the units in which it was decoded: by the shapes of its parts.

Where a shape may mean several things the larger number is told, so that what is decoded is never
said to be more of it than it is. Standard library only.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from stoker.containers import leaves
from stoker.probe.hooks.calls import AUDIO_FRAME, FRAME, PIXEL

BYTE = "byte"
# A batch of more parts than this is no batch of arrays; to walk through it would take too long.
_MOST_LEAVES = 1_000
# Smaller sides are those of boxes, points and matrices.
_SMALLEST_SIDE = 8
# Grey, colour, and colour with transparency, where the channels come last; where they come first
# two channels may as well be two frames.
_MOST_CHANNELS = 4
_FIRST_CHANNELS = (1, 3)
# A wave has a few channels and is long; a spectrum or a vector of features is neither.
_MOST_WAVE_CHANNELS = 8
_SHORTEST_WAVE = 4_000

_Held = Iterator[tuple[str, int]]


def delivered(batch: Any, samples: int) -> dict[str, int]:
    """Video frames, pixels, audio frames and bytes in a batch of so many samples.

    Empty where it can't be told; a unit of which nothing was recognised has 0.
    """
    found = {FRAME: 0, PIXEL: 0, AUDIO_FRAME: 0, BYTE: 0}
    try:
        for number, leaf in enumerate(leaves(batch)):
            if number >= _MOST_LEAVES:
                return {}
            for unit, count in _held(leaf, samples):
                found[unit] += count
    except Exception:  # noqa: BLE001 - a batch of any kind must not end the run
        return {}
    return found


def _held(leaf: Any, samples: int) -> _Held:
    if isinstance(leaf, str | bytes | bytearray):
        yield BYTE, len(leaf)
        return
    if type(leaf).__module__.startswith("PIL."):
        width, height = leaf.size
        yield from ((FRAME, 1), (PIXEL, width * height))
        yield BYTE, width * height * len(leaf.getbands())
        return
    shape = getattr(leaf, "shape", None)
    if not isinstance(shape, tuple):
        return
    yield BYTE, int(getattr(leaf, "nbytes", 0))
    times, own = 1, tuple(shape)
    # Samples that were put together have an axis of their own in front. Of one sample alone, in a
    # fetch that puts nothing together, the first axis is taken for it: the product is the same.
    if own and (own[0] == samples or samples == 1):
        times, own = own[0], own[1:]
    pictures, area = _pictures(own)
    yield PIXEL, times * pictures * area
    if len(own) >= 3:
        yield FRAME, times * pictures
    yield AUDIO_FRAME, times * _wave(own)


def _pictures(shape: tuple[int, ...]) -> tuple[int, int]:
    """How many pictures an array holds, and the pixels of each."""
    if len(shape) >= 3 and shape[-1] <= _MOST_CHANNELS:
        *lead, height, width, _ = shape
    elif len(shape) >= 2:
        *lead, height, width = shape
        # (frames, channels, …) as well as (channels, frames, …)
        for place in (-1, 0):
            if lead and lead[place] in _FIRST_CHANNELS:
                lead.pop(place)
                break
    else:
        return 0, 0
    if min(height, width) < _SMALLEST_SIDE:
        return 0, 0
    return math.prod(lead), height * width


def _wave(shape: tuple[int, ...]) -> int:
    """Values of a wave (n), (channels, n) or (n, channels)."""
    if not 1 <= len(shape) <= 2 or max(shape) < _SHORTEST_WAVE:
        return 0
    return math.prod(shape) if len(shape) == 1 or min(shape) <= _MOST_WAVE_CHANNELS else 0
