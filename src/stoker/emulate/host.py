"""How a thread lets time pass while the emulated device works, to within some microseconds."""

from __future__ import annotations

import hashlib
import time
from typing import Literal, Protocol

from stoker import clocks

Host = Literal["sleep", "spin", "gil"]

# Linux wakes a sleeper up to its timer slack of 50 µs late; Python saw 65 to 90 µs.
_SPIN_S = 100e-6
# 16 kB take about 15 µs, without the GIL: fine enough for a deadline, coarse enough to let go.
_SPIN_BLOCK = bytes(16_384)


class HostTime(Protocol):
    """A thread's time."""

    def now(self) -> float:
        """Monotonic seconds."""
        ...

    def wait_until(self, deadline: float) -> None:
        """Return at the deadline, at once if it has passed."""
        ...

    def spend(self, seconds: float) -> None:
        """Use CPU time in this thread."""
        ...


class RealHost:
    """The machine's own time; `host` says what the thread does while it waits."""

    now = staticmethod(clocks.wall_s)

    def __init__(self, host: Host) -> None:
        self._wait = {"sleep": _sleep, "spin": _spin, "gil": _spin_with_gil}[host]

    def wait_until(self, deadline: float) -> None:
        """Return at the deadline; the doctor knows a host that waits by this function's name."""
        self._wait(deadline)

    def spend(self, seconds: float) -> None:
        """Use CPU time in this thread, and with it the GIL, as the Python side of a launch does."""
        end = clocks.cpu_s() + seconds
        while clocks.cpu_s() < end:
            pass


def _sleep(deadline: float) -> None:
    """Free the core and the GIL, but for the last moment."""
    left = deadline - clocks.wall_s() - _SPIN_S
    if left > 0:
        time.sleep(left)
    while clocks.wall_s() < deadline:
        pass


def _spin(deadline: float) -> None:
    """Keep a core busy and leave the GIL to others, as a driver does that polls."""
    while clocks.wall_s() < deadline - _SPIN_S:
        hashlib.sha256(_SPIN_BLOCK).digest()
    while clocks.wall_s() < deadline:
        pass


def _spin_with_gil(deadline: float) -> None:
    """Keep a core busy and the GIL too; others get it when they have asked for 5 ms."""
    while clocks.wall_s() < deadline:
        pass
