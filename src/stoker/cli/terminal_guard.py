"""Gives the terminal its last row back when stoker can't: after a SIGKILL."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

# Waits for a line, which comes when all went well, or for the end of whoever would have sent it.
# The keys of the terminal reach this process, too, and must not end it first.
_GUARD = r"trap '' INT QUIT TERM HUP TSTP; read -r _ || printf '\0337\033[r\0338'"


@contextmanager
def guarded(terminal: int) -> Iterator[None]:
    """Have a shell stand by that makes the scrolling region whole again; a file descriptor."""
    try:
        guard = subprocess.Popen(
            ["/bin/sh", "-c", _GUARD],
            stdin=subprocess.PIPE,
            stdout=terminal,
            stderr=subprocess.DEVNULL,
        )
    except OSError:
        yield  # without a shell there is no guard
        return
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            guard.communicate(b"\n")
