"""What a library's file says of it: which of its functions are which stage, what they decode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

# Units in which is counted what a call decodes. Rows of tables are ROW_OF_TABLE as long as their
# bytes tell how many of them are used; rows of chunked arrays are ROW.
FRAME, PIXEL, AUDIO_FRAME, ROW, ROW_OF_TABLE = "frame", "pixel", "audio-frame", "row", "table-row"

# From a call's positional arguments and its result: how many units it has decoded; and of ROW how
# many were asked for, of ROW_OF_TABLE their bytes, of all others 0.
Count = Callable[[tuple[Any, ...], Any], tuple[int, int]]


class Decodes(NamedTuple):
    """How what a call decodes is counted.

    `is_due`: asked before the call, with its positional arguments; False where it decodes nothing.
    """

    unit: str
    counting: Count
    is_due: Callable[[tuple[Any, ...]], bool] | None = None


class Call(NamedTuple):
    """A function or method. `path`: the position of the argument that names a file, if one does."""

    stage: str
    path: int | None = None
    decodes: Decodes | None = None


# Module -> dotted name in it -> call. The module is patched when it is imported, not before.
Calls = dict[str, dict[str, Call]]
