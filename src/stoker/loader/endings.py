"""Threads end with what they work for: when it is forgotten, and before the interpreter goes.

Standard library only: also runs in a script under remedies.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

from stoker.errors import LoaderError

# Enough for the sample or batch that a thread is at; a stuck one must not keep Python from ending.
_WAIT_AT_EXIT_S = 5.0

_open: set[Callable[[], None]] = set()


class LoadingThread(threading.Thread):
    """A daemon that Python waits for all the same, for some seconds, when it ends.

    One that still runs then is ended where it next takes the GIL; inside a library of C++, torch
    for one, that aborts the whole process.
    """

    def __init__(self, target: Callable[..., None], name: str, *arguments: Any) -> None:
        super().__init__(target=target, name=name, args=arguments, daemon=True)


def check_process(begun_in: int) -> None:
    """Raises LoaderError in another process than that: threads and workers did not come along."""
    if os.getpid() != begun_in:
        raise LoaderError(
            f"this iterator belongs to process {begun_in}; what makes its "
            "batches is not in a forked child",
            looked_at=f"process {os.getpid()}, which asked it for a batch",
            run_next="make a new one: call iter() again in the child",
        )


def when_gone(owner: object, end: Callable[[], None]) -> None:
    """Call `end` when `owner` is collected or Python ends, whatever is first.

    `end` must not refer to `owner` nor wait, and must bear being called twice and from any thread.
    """
    _open.add(end)
    weakref.finalize(owner, _forgotten, end).atexit = False


def _forgotten(end: Callable[[], None]) -> None:
    _open.discard(end)
    end()


@atexit.register
def _end_all() -> None:
    while _open:
        _open.pop()()
    # Also those of owners that were forgotten before: they may be at their last sample.
    latest = time.monotonic() + _WAIT_AT_EXIT_S
    for thread in threading.enumerate():
        if isinstance(thread, LoadingThread):
            thread.join(max(0.0, latest - time.monotonic()))
