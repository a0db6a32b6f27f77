"""Workers that are forked from this process, for a Dataset that no other process could import.

They are forked before a sample is read here: files that a Dataset opens on its first read are then
each worker's own, as with torch's loaders.
"""

from __future__ import annotations

import multiprocessing
import os
import socket
import subprocess
import sys
import warnings
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any

from stoker.pack import worker
from stoker.pack.crew import Started


class ForkedAhead:
    """So many workers that wait for a crew. They see what this process had when it made them."""

    def __init__(self, count: int) -> None:
        self._ready = [_forked() for _ in range(count)]

    def __call__(self, keep_open: Sequence[int]) -> Started:
        """One of them; what is opened later, as `keep_open`, it can't inherit."""
        del keep_open
        return self._ready.pop()

    def close(self) -> None:
        """End those that nobody took."""
        for connection, process in self._ready:
            connection.close()
            process.kill()
        self._ready.clear()


class _Process:
    """A process of multiprocessing, waited for as those of subprocess are."""

    def __init__(self, process: Any) -> None:
        self._process = process
        self.pid: int = process.pid

    def kill(self) -> None:
        """End it."""
        self._process.kill()

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, −N for signal N. Raises subprocess.TimeoutExpired."""
        self._process.join(timeout)
        code = self._process.exitcode
        if code is None:
            raise subprocess.TimeoutExpired("a forked worker", timeout or 0.0)
        return int(code)


def _forked() -> Started:
    ours, theirs = socket.socketpair()
    with theirs, warnings.catch_warnings():
        # Python warns of threads beside a fork; torch's own loaders fork in the same place.
        warnings.simplefilter("ignore", DeprecationWarning)
        process = multiprocessing.get_context("fork").Process(
            target=_serve, args=(ours, theirs, os.getpid())
        )
        process.start()
    return Started(Connection(ours.detach()), _Process(process))


def _serve(ours: socket.socket, theirs: socket.socket, packer: int) -> None:
    ours.close()
    worker.belong_to(packer)
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)  # the threads of the parent are not there
    with Connection(theirs.detach()) as connection:
        worker.serve(connection)
