"""How a script is left when enough was seen: from whatever thread asks for batches.

Standard library only.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import threading
import time
from typing import NoReturn

from stoker import clocks

_SWALLOWED_STOPS = 20  # a script that catches our stop so often will never let go
# After the end a thread that loads gets a batch this often, so that the main thread does not hang.
_PAUSE_S = 0.05
# Once the main thread was stopped it needs no more batches, unless it has swallowed the stop.
_PATIENCE_S = 1.0
# Batches until that is stopped again: 5 s, in which its `finally` blocks should be through.
_AGAIN = 100
# The script's own threads get this long after its main thread, which it may have told them about.
_THREADS_S = 2.0


class StokerStop(SystemExit):
    """Ends the script when enough was seen: exit code 0, silent, not an `Exception`."""

    def __init__(self) -> None:
        super().__init__(0)


class Leaving:
    """Raises the stop again and again, until the script has let go."""

    def __init__(self) -> None:
        self._swallowed = 0
        self._has_stopped_main = False
        self._is_watched = False

    def from_step(self) -> NoReturn:
        """Raise the stop in the thread that makes the steps."""
        self._has_stopped_main = True
        self._watch_the_end()
        raise StokerStop

    def now(self, *, can_go_on: bool, has_optimizer: bool) -> None:
        """Raise the stop here; returns where the asking thread must be kept going meanwhile.

        A thread that only fetches can't end the script. The optimizer hook stops the main thread
        at its next step; without an optimizer it is stopped where it stands, and again, long after,
        where that was swallowed.
        """
        self._swallowed += 1
        main = threading.main_thread()
        if threading.current_thread() is main or not main.is_alive() or not can_go_on:
            if self._swallowed > _SWALLOWED_STOPS:
                _leave_at_once()
            self._watch_the_end()
            raise StokerStop
        if (self._swallowed == 1 and not has_optimizer) or self._swallowed % _AGAIN == 0:
            _raise_in(main)
        if self._swallowed > _SWALLOWED_STOPS * _AGAIN:
            _leave_at_once()
        # A daemon thread that is in torch's code when Python ends takes the process down with it.
        time.sleep(_PATIENCE_S if self._has_stopped_main else _PAUSE_S)

    def _watch_the_end(self) -> None:
        """Python waits for threads before it ends; nobody takes what these still make."""
        if not self._is_watched:
            self._is_watched = True
            threading.Thread(target=_end_with_main, name="stoker-end", daemon=True).start()


def _end_with_main() -> None:
    threading.main_thread().join()
    end = clocks.wall_s() + _THREADS_S
    while clocks.wall_s() < end:
        if not _has_other_threads():
            return  # exit hooks may take their time
        time.sleep(_PAUSE_S)
    _leave_at_once()


def _has_other_threads() -> bool:
    main = threading.main_thread()
    return any(t is not main and t.is_alive() and not t.daemon for t in threading.enumerate())


def _raise_in(thread: threading.Thread) -> None:
    """Have the stop raised in another thread, as soon as that runs Python code."""
    ident, stop = ctypes.c_ulong(thread.ident or 0), ctypes.py_object(StokerStop)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, stop)


def _leave_at_once() -> None:
    """End the process of a script that will not let go; what it has printed still comes out."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):  # closed, or none
            stream.flush()
    os._exit(0)
