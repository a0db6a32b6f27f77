"""The last row of a terminal as a status line, apart from what scrolls above it.

The examined script writes to the same terminal whenever it likes, bars of its own included. A line
drawn at the cursor would be torn by that, so the last row is taken out of the scrolling region
(DECSTBM, as apt does for its progress bar) and given back at the end.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import TextIO

_SAVE, _RESTORE = "\x1b7", "\x1b8"
_UP = "\x1b[1A"
_CLEAR_LINE = "\x1b[2K"
_ALL_ROWS = "\x1b[r"
# A script needs some rows to print on; a window lower than this gets lines instead.
LEAST_ROWS = 5


class BottomLine:
    """Draws one line of text in the last row. Use as a context manager."""

    def __init__(self, stream: TextIO, size: Callable[[], os.terminal_size]) -> None:
        self._stream = stream
        self._size = size
        self._reserved: os.terminal_size | None = None

    def __enter__(self) -> BottomLine:
        return self

    def __exit__(self, *_: object) -> None:
        if self._reserved is not None:
            with contextlib.suppress(OSError):  # a terminal that was closed meanwhile
                self._write(f"{_SAVE}{_ALL_ROWS}{_last_row(self._reserved)}{_CLEAR_LINE}{_RESTORE}")
            self._reserved = None

    @property
    def columns(self) -> int:
        """How many characters fit."""
        return self._size().columns - 1

    def draw(self, text: str) -> None:
        """Show the text, in place of what was there. It must fit in `columns`."""
        size = self._size()
        reserve = "" if size == self._reserved else self._reserve(size)
        self._reserved = size
        # One write, so that the script's output does not come between save and restore.
        self._write(f"{reserve}{_SAVE}{_last_row(size)}{_CLEAR_LINE}{text}{_RESTORE}")

    def _reserve(self, size: os.terminal_size) -> str:
        """Take the last row out of the scrolling region, also after the window changed its size."""
        # The line feed makes room when the cursor stands in the last row; setting the region moves
        # the cursor, hence save and restore around it.
        return f"\n{_SAVE}\x1b[1;{size.lines - 1}r{_RESTORE}{_UP}"

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def _last_row(size: os.terminal_size) -> str:
    return f"\x1b[{size.lines};1H"
