"""What a loader has done so far, counted where batches change hands.

Standard library only: also runs in a script under remedies.
"""

from __future__ import annotations


class Tally:
    """Counters of one epoch. Its holder has a lock."""

    def __init__(self) -> None:
        self.batches = self.samples = 0
        self.take_wait_s = self.put_wait_s = 0.0
        self.held_bytes = 0
        self._ready = self._were_ready = 0
        self._blocked_s = 0.0  # since the last batch was taken

    def taken(self, samples: int, *, waited_s: float, ready: int, was_ready: bool) -> float:
        """Count a delivered batch; gives the seconds that threads had no room since the last."""
        self.batches += 1
        self.samples += samples
        self.take_wait_s += waited_s
        self._ready += ready
        self._were_ready += was_ready
        blocked_s, self._blocked_s = self._blocked_s, 0.0
        return blocked_s

    def blocked(self, spent_ns: int) -> None:
        """Count the time that one thread had no room."""
        self.put_wait_s += spent_ns / 1e9
        self._blocked_s += spent_ns / 1e9

    @property
    def ready_share(self) -> float:
        """Of the batches delivered, those that lay ready."""
        return self._were_ready / self.batches if self.batches else 0.0

    @property
    def ready_mean(self) -> float:
        """How many batches lay ready when one was asked for."""
        return self._ready / self.batches if self.batches else 0.0
