"""stdout for the payload; a reader that goes away (`stoker report FILE | head`) is no error."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import Any

from stoker.errors import StokerError


def open_closed() -> None:
    """Have standard streams that are closed (`<&- >&- 2>&-`) lead nowhere.

    The next file that is opened would get the number of a closed one, and with it what was meant
    for the stream: what the script prints, for one.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The lowest that is free: this number.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115


def write_stdout(text: str, *, encoding: str | None = None) -> None:
    """Write the payload; `encoding` overrides stdout's own (JSON is UTF-8 everywhere).

    Raises StokerError when stdout can't take it, a full disk for one.
    """
    if sys.stdout is None:  # closed by whoever started us (`>&-`): nobody wants the payload
        return
    try:
        sys.stdout.flush()
        raw = text.encode(encoding or sys.stdout.encoding or "utf-8", "replace")
        sys.stdout.buffer.write(raw)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        _discard_stdout()
    except OSError as error:
        _discard_stdout()
        raise StokerError(
            f"stdout cannot be written: {error.strerror}",
            looked_at=f"{len(text):,} characters for stdout",
            run_next="direct stdout to a file or a pipe that takes them",
        ) from error


def told_on_stderr() -> contextlib.redirect_stdout[Any]:
    """What a Dataset of the user's prints within it goes to stderr: it is no part of the answer."""
    return contextlib.redirect_stdout(sys.stderr)


def _discard_stdout() -> None:
    """Send what is still buffered nowhere: python flushes at exit and would complain again."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
