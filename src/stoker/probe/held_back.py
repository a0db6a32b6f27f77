"""Signals that would end this process, noted until all that it has started is cleaned up."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

# What asks a process to end, beside Ctrl-C: a request, a terminal that is closed, Ctrl-\.
TO_END = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


@contextmanager
def held_back(signals: tuple[signal.Signals, ...], note: Callable[[int], None]) -> Iterator[None]:
    """Call `note` with the number of each of these signals, and do nothing else about it.

    What is ignored stays so, as below nohup; but for Ctrl-C, which shells have background jobs
    ignore and which whoever sends it to one means.
    """

    def noted(number: int, _: FrameType | None) -> None:
        note(number)

    if threading.current_thread() is not threading.main_thread():
        yield  # signals are the main thread's, whatever it does about them
        return
    heard = [
        number
        for number in signals
        if number == signal.SIGINT or signal.getsignal(number) is not signal.SIG_IGN
    ]
    kept = {number: signal.signal(number, noted) for number in heard}
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
