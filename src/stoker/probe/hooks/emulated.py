"""What emulated accelerators say of themselves: how long they had nothing to do before each step.

The counterpart of `hooks/cuda.py`, and exact. Standard library only.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

from stoker.probe.legs import DEVICE_LEGS


class Account(NamedTuple):
    """Of all emulated accelerators together, so far."""

    steps: int
    idle_s: float


class EmulatedWatch:
    """Their idle time from batch to batch."""

    def __init__(self, account: Callable[[], Account], write: Callable[..., None]) -> None:
        """`account`: theirs now; `write` takes the kind and the fields of a record."""
        self._account = account
        self._write = write
        self._leg: str | None = None
        self._seen: list[Account] = []

    def batch_given(self, leg: str | None) -> None:
        """The training loop got its next batch, in that leg."""
        if leg != self._leg:
            self.tell()  # the step to come follows a pause of ours, and tells nothing
            self._leg = leg
        elif leg in DEVICE_LEGS:
            self._seen.append(self._account())

    def step_ended(self) -> None:
        """The optimizer made its step, which is nothing to an emulated device."""

    def tell(self) -> None:
        """Write down the leg that ends here, if they were given steps in it."""
        seen, self._seen = self._seen, []
        if not seen or seen[-1].steps == seen[0].steps:
            return
        # An accelerator that is gone takes its account along.
        idle = [max(0.0, round(b.idle_s - a.idle_s, 7)) for a, b in pairwise(seen)]
        self._write("device", leg=self._leg, each="batch", idle=idle, behind=[], states=[])
