"""How long a process lives: whether it still does, and how one ends with who has started it.

Linux, standard library only: also runs in the processes of an examined script.
"""

from __future__ import annotations

import ctypes
import os
import signal
import threading
from pathlib import Path

_PR_SET_PDEATHSIG = 1  # prctl(2)


def end_with(starter: int, namespace: str = "", *, number: int = signal.SIGKILL) -> None:
    """Have the kernel kill this process when its parent ends; at once where `starter` has ended.

    `number`: the signal. Whatever this process becomes by exec is sent it, but no fork of it.

    starter: the process id of whoever has this process started, itself or by a launcher or a fork
    server. It may be gone before the kernel is asked, and then no signal comes. namespace: its
    `pid_namespace()`, where that may be another one, in which its id means nothing here.

    The kernel means the thread that has started this process: only where that is a main thread
    (`is_main_thread`), it lives as long as its process.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
    if namespace in ("", pid_namespace()) and not is_alive(starter):
        os.kill(os.getpid(), number)


def pid_namespace() -> str:
    """Which processes this one sees; "" where that can't be told."""
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def is_main_thread() -> bool:
    """True in the thread that lives as long as its process, as the kernel sees it.

    Python's main thread is the one that has begun Python, which a program may do in any.
    """
    return threading.get_native_id() == os.getpid()


def is_alive(pid: int) -> bool:
    """False for a process that is gone, or that has ended and was not waited for yet."""
    try:
        if not Path("/proc/self").exists():
            os.kill(pid, 0)  # sends nothing
            return True
        state = _facts(pid)[0]
    except (OSError, IndexError):
        return False
    return state != "Z"


def began(pid: int) -> int | None:
    """When it began, in ticks since the boot, which tells it from a later one of its number; None
    where it is gone, or that can't be told.
    """
    try:
        return int(_facts(pid)[19])
    except (OSError, IndexError):
        return None


def _facts(pid: int) -> list[str]:
    """The fields of /proc/PID/stat (proc(5)) behind the name, which may hold blanks itself."""
    return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
