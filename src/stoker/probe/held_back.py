"""Signals that would end this process, noted until all that it has started is cleaned up."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def held_back(signals: tuple[signal.Signals, ...], note: Callable[[int], None]) -> Iterator[None]:
    """Call `note` with the number of each of these signals, and do nothing else about it."""

    def noted(number: int, _: FrameType | None) -> None:
        note(number)

    if threading.current_thread() is not threading.main_thread():
        yield  # signals are the main thread's, whatever it does about them
        return
    kept = {number: signal.signal(number, noted) for number in signals}
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
