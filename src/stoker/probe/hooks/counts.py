"""What one call has decoded: pixels, frames, rows, by the shape of what it gives.

Each takes a call's positional arguments and its result (see `calls.Count`), and may raise for a
result of another kind, which then counts as nothing. Standard library only.
"""

from __future__ import annotations

import math
from typing import Any

from stoker.probe.hooks.calls import AUDIO_FRAME, FRAME, PIXEL, ROW_OF_TABLE, Decodes


def _of_array(_: tuple[Any, ...], made: Any) -> tuple[int, int]:
    """Height times width of an array (H, W) or (H, W, C); None is a file that was no picture."""
    return (0, 0) if made is None else (made.shape[0] * made.shape[1], 0)


def _of_tensor(_: tuple[Any, ...], made: Any) -> tuple[int, int]:
    """The same of a tensor (C, H, W), or of a list of them."""
    pictures = made if isinstance(made, list) else [made]
    return sum(one.shape[-2] * one.shape[-1] for one in pictures), 0


def _of_image(arguments: tuple[Any, ...], _: Any) -> tuple[int, int]:
    """Of a Pillow image in the size in which it was decoded, which `draft` may have reduced."""
    width, height = arguments[0].size
    return width * height, 0


def _is_undecoded(arguments: tuple[Any, ...]) -> bool:
    """Pillow loads before each operation; only the first load finds something to decode."""
    return bool(arguments[0].tile)


def _one(_: tuple[Any, ...], made: Any) -> tuple[int, int]:
    """OpenCV's `read` gives whether there was a frame, and the frame; its `grab` only whether."""
    return int(made[0] if isinstance(made, tuple) else made), 0


def _first_axis(_: tuple[Any, ...], made: Any) -> tuple[int, int]:
    """As many as the result is long."""
    return made.shape[0], 0


def _frames_or_one(_: tuple[Any, ...], made: Any) -> tuple[int, int]:
    """Frames (N, H, W, C), or a single one."""
    return made.shape[0] if len(made.shape) == 4 else 1, 0


def _of_frame_data(_: tuple[Any, ...], made: Any) -> tuple[int, int]:
    """Frames of torchcodec: their `data` is (C, H, W), or has further axes in front."""
    return math.prod(made.data.shape[:-3]), 0


def _of_sound_data(_: tuple[Any, ...], made: Any) -> tuple[int, int]:
    """Sound of torchcodec: its `data` is (channels, values)."""
    return made.data.shape[-1], 0


def _of_first_result(_: tuple[Any, ...], made: Any) -> tuple[int, int]:
    """Frames of a result (frames, sound, …)."""
    return made[0].shape[0], 0


def _of_wave(_: tuple[Any, ...], made: Any) -> tuple[int, int]:
    """Of a result (wave, rate): a wave is longer than it has channels, whichever come first."""
    return max(made[0].shape), 0


def _of_arrow(_: tuple[Any, ...], made: Any) -> tuple[int, int]:
    """Rows of a pyarrow table, and their bytes."""
    return made.num_rows, made.nbytes


def _of_pandas(_: tuple[Any, ...], made: Any) -> tuple[int, int]:
    """Rows of a pandas table, and their bytes at eight a value: exact counts take too long."""
    rows, columns = made.shape
    return rows, 8 * rows * columns


ARRAY = Decodes(PIXEL, _of_array)
TENSOR = Decodes(PIXEL, _of_tensor)
IMAGE = Decodes(PIXEL, _of_image, _is_undecoded)
ONE_FRAME = Decodes(FRAME, _one)
FRAMES = Decodes(FRAME, _first_axis)
FRAMES_OR_ONE = Decodes(FRAME, _frames_or_one)
FRAME_DATA = Decodes(FRAME, _of_frame_data)
FRAMES_WITH_SOUND = Decodes(FRAME, _of_first_result)
SOUND = Decodes(AUDIO_FRAME, _first_axis)
SOUND_DATA = Decodes(AUDIO_FRAME, _of_sound_data)
SOUND_WITH_RATE = Decodes(AUDIO_FRAME, _of_wave)
ARROW_ROWS = Decodes(ROW_OF_TABLE, _of_arrow)
PANDAS_ROWS = Decodes(ROW_OF_TABLE, _of_pandas)
