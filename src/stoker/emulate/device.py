"""The virtual timeline of a device: one queue of steps and one link, in absolute times.

Books and never waits, so late wake-ups of the host do not add up. Safe to use from many threads.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from typing import NamedTuple

# One step runs and one is queued: about what a CUDA stream holds, whose 1,024 pending launches are
# one or two steps of a network of some hundred kernels, forward, backward and update.
OUTSTANDING_STEPS = 2

LONG_AGO = -math.inf


class Booking(NamedTuple):
    """A step on the timeline. `room_at`: when the queue has room for one more."""

    ends_at: float
    room_at: float


class Device:
    """When the device and its link are free again; all times in seconds of one clock."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._free_at = self._link_free_at = LONG_AGO
        self._outstanding: deque[float] = deque()  # when each step in the queue ends
        self.busy_s = 0.0
        self.idle_s = 0.0

    def launch(self, now: float, seconds: float, *, ready_at: float = LONG_AGO) -> Booking:
        """Queue a step that lasts `seconds` and needs data that arrives at `ready_at`."""
        with self._lock:
            begins_at = max(now, self._free_at, ready_at)
            if self._free_at > LONG_AGO:
                self.idle_s += begins_at - self._free_at
            self._free_at = begins_at + seconds
            self.busy_s += seconds
            self._outstanding.append(self._free_at)
            room_at = LONG_AGO
            while len(self._outstanding) > OUTSTANDING_STEPS:
                room_at = self._outstanding.popleft()
            return Booking(self._free_at, room_at)

    def send(self, now: float, seconds: float) -> float:
        """Queue a copy over the link; when its last byte is there."""
        with self._lock:
            self._link_free_at = max(now, self._link_free_at) + seconds
            return self._link_free_at

    def done_at(self) -> float:
        """When everything that was queued so far is over."""
        with self._lock:
            return max(self._free_at, self._link_free_at)
