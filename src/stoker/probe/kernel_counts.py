"""Counters that the kernel keeps, read from files that stay open: 2 to 5 µs a reading.

Standard library only: this module also runs inside workers.
"""

from __future__ import annotations

import os


class _Counter:
    """A file of /proc that is read again and again."""

    _PATH = ""

    def __init__(self) -> None:
        try:
            self._file: int | None = os.open(self._PATH, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._file = None

    def _text(self) -> bytes:
        """Empty where there is no such file, or no longer."""
        if self._file is None:
            return b""
        try:
            return os.pread(self._file, 512, 0)
        except OSError:
            return b""

    def __del__(self) -> None:
        if self._file is not None:
            os.close(self._file)


class RunQueue(_Counter):
    """How long the thread that made it has waited for a core."""

    _PATH = "/proc/thread-self/schedstat"

    def waited_ns(self) -> int | None:
        """None where the kernel does not count it."""
        try:
            return int(self._text().split()[1])
        except (IndexError, ValueError):
            return None


class BytesRead(_Counter):
    """What read calls of this process have returned, from files in memory or not.

    Pages of mapped files are not in it: they come by page faults.
    """

    _PATH = "/proc/self/io"

    def since(self, before: tuple[int, int] | None) -> int | None:
        """Bytes between a `now` and this moment; None where they are not counted."""
        now = self.now()
        if now is None or before is None:
            return None
        count, own = before
        return max(0, now[0] - count - own)  # the first reading counts itself, afterwards

    def now(self) -> tuple[int, int] | None:
        """The count, and how many bytes it took to read it."""
        text = self._text()
        name, _, rest = text.partition(b" ")
        if name != b"rchar:":
            return None
        return int(rest.split(None, 1)[0]), len(text)
