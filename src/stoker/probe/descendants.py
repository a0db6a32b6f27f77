"""Ending a process with all that it started. Linux: read from /proc."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path

from stoker import clocks
from stoker.lifetime import is_alive

_POLL_S = 0.05
_PROC = Path("/proc")


def descendants(pid: int, *, proc: Path = _PROC) -> list[int]:
    """All living processes below `pid`, parents before children."""
    children: dict[int, list[int]] = {}
    for entry in _processes(proc):
        try:
            fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue  # gone in the meantime
        if len(fields) > 1:
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    found: list[int] = []
    waiting = [pid]
    while waiting:
        below = children.get(waiting.pop(0), [])
        found += below
        waiting += below
    return found


def marked(name: str, value: str, *, proc: Path = _PROC) -> list[int]:
    """Living processes that were started with this variable in their environment.

    Finds what a parent that is gone has left behind, which no tree of processes leads to.
    """
    mark = f"{name}={value}".encode()
    found = []
    for entry in _processes(proc):
        try:
            environment = (entry / "environ").read_bytes()
        except OSError:
            continue  # gone in the meantime, or somebody else's
        if mark in environment.split(b"\0"):
            found.append(int(entry.name))
    return found


def end_tree(pid: int, *, after_s: float = 0.0) -> None:
    """SIGTERM to a process and all below it; SIGKILL to those that live on after `after_s`."""
    _end([pid, *descendants(pid)], after_s)


def end_marked(name: str, value: str, *, leave_s: float, after_s: float) -> None:
    """End what carries the mark and does not go by itself within `leave_s`."""
    if not _are_gone(marked(name, value), leave_s):
        _end(marked(name, value), after_s)


def send(pids: Sequence[int], number: int) -> None:
    """Send a signal to all that still live and are ours."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue


def _end(pids: Sequence[int], after_s: float) -> None:
    send(pids, signal.SIGTERM)
    _are_gone(pids, after_s)
    send(pids, signal.SIGKILL)


def _are_gone(pids: Sequence[int], within_s: float) -> bool:
    """Wait for the processes to end; False when the time was not enough."""
    end = clocks.wall_s() + within_s
    while any(is_alive(pid) for pid in pids):
        if clocks.wall_s() >= end:
            return False
        time.sleep(_POLL_S)
    return True


def _processes(proc: Path) -> list[Path]:
    return [entry for entry in proc.iterdir() if entry.name.isdigit()]
