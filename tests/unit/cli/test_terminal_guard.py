"""The guard on a real pseudo-terminal, with a process that is killed or ends in peace."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest

WHOLE_AGAIN = b"\x1b7\x1b[r\x1b8"
SCRIPT = """
import os, signal, sys
from stoker.cli.terminal_guard import guarded
with guarded(2):
    os.write(2, b"\\x1b[1;19r")
    if sys.argv[1] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize(("how", "count"), [("killed", 1), ("in peace", 0)])
def test_a_killed_process_leaves_the_terminal_whole(how: str, count: int) -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen([sys.executable, "-c", SCRIPT, how], stderr=theirs) as process:
        process.wait(timeout=20)
    os.close(theirs)
    seen = b""
    try:
        while chunk := os.read(ours, 1000):
            seen += chunk
    except OSError:  # the last one that had the terminal open is gone
        pass
    os.close(ours)
    assert seen.startswith(b"\x1b[1;19r")
    assert seen.count(WHOLE_AGAIN) == count
