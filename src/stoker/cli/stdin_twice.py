"""Standard input for two readers: the doctor's run that comes first, and the training behind it.

What the first one has read the second one reads again. Of a terminal, and of what is no stream,
nothing is kept.
"""

from __future__ import annotations

import os
import select
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from stoker import lifetime

_STDIN, _STDOUT = 0, 1
_BLOCK_BYTES = 65_536


@contextmanager
def read_twice() -> Iterator[int | None]:
    """The descriptor for the first reader, None for stdin as it is; then stdin is as before."""
    try:
        kind = os.fstat(_STDIN).st_mode
    except OSError:
        kind = 0
    if stat.S_ISREG(kind):
        # Whoever reads it moves the place for all.
        place = os.lseek(_STDIN, 0, os.SEEK_CUR)
        try:
            yield None
        finally:
            os.lseek(_STDIN, place, os.SEEK_SET)
    elif stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind):
        copied = _Copied()
        try:
            yield copied.reader
        finally:
            copied.put_back()
    else:
        yield None


class _Copied:
    """Passes stdin on to a pipe as far as that is read, and keeps what it has taken."""

    def __init__(self) -> None:
        self._kept = os.memfd_create("stoker-stdin")
        self.reader, self._writer = os.pipe()
        self._told, self._tell = os.pipe()
        self._is_ended = False
        self._thread = threading.Thread(target=self._run, name="stoker-stdin", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with suppress(OSError):
            while self._is_ready(reads=_STDIN):
                block = os.read(_STDIN, _BLOCK_BYTES)
                if not block:
                    self._is_ended = True
                    os.close(self._writer)
                    return
                _write(self._kept, block)
                while block and self._is_ready(writes=self._writer):
                    # As much as a pipe takes for certain, once it takes anything.
                    block = block[os.write(self._writer, block[: select.PIPE_BUF]) :]

    def _is_ready(self, *, reads: int | None = None, writes: int | None = None) -> bool:
        """Wait for it; False where all is to end."""
        asked = [self._told, *([reads] if reads is not None else [])]
        ready, _, _ = select.select(asked, [writes] if writes is not None else [], [])
        return self._told not in ready

    def put_back(self) -> None:
        """End, and have stdin begin with what was taken from it."""
        os.close(self._tell)
        self._thread.join()
        taken = os.lseek(self._kept, 0, os.SEEK_CUR)
        os.lseek(self._kept, 0, os.SEEK_SET)
        if taken and self._is_ended:
            os.dup2(self._kept, _STDIN)
        elif taken:
            self._pour()
        for one in (self._kept, self.reader, self._told):
            os.close(one)
        if not self._is_ended:
            os.close(self._writer)

    def _pour(self) -> None:
        """A process that gives what was kept, and then what still comes; it ends with this one."""
        reader, writer = os.pipe()
        root = Path(__file__).parents[2]
        code = (
            f"import sys; sys.path.append({str(root)!r}); from stoker.cli import stdin_twice; "
            f"stdin_twice.pour({self._kept}, {os.getpid()})"
        )
        command = [sys.executable, "-I", "-S", "-c", code]
        subprocess.Popen(command, stdout=writer, pass_fds=[self._kept])
        os.dup2(reader, _STDIN)
        os.close(reader)
        os.close(writer)


def pour(kept: int, starter: int) -> None:
    """Write what is kept, and then stdin to its end, to stdout."""
    lifetime.end_with(starter)
    with suppress(BrokenPipeError):
        for source in (kept, _STDIN):
            while block := os.read(source, _BLOCK_BYTES):
                _write(_STDOUT, block)


def _write(file: int, block: bytes) -> None:
    while block:
        block = block[os.write(file, block) :]
