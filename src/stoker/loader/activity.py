"""What a loading thread is at: for its stage times, for the notes on its errors, for the watchdog.

Written by its own thread only; others may read it at any moment. Standard library only: also runs
in a script under remedies.
"""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Sequence

from stoker.errors import LoaderError
from stoker.spans import Clock, SystemClock

IDLE = "idle"
SAMPLER = "sampler"  # what says which samples come next is asked
# Frames of a stuck thread that are shown: the call that hangs and what led to it.
_SHOWN_FRAMES = 6


class Activity:
    """The stage and sample of one thread, and the seconds it spent in each stage so far."""

    __slots__ = ("_clock", "_since_ns", "sample", "spent_ns", "stage", "thread_id", "where")

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._since_ns = self._clock.wall_ns()
        self.spent_ns: dict[str, int] = {}
        self.stage = IDLE
        self.sample = -1
        self.where = ""
        self.thread_id = threading.get_ident()

    def enter(self, stage: str, sample: int = -1, where: str = "") -> None:
        """Leave the stage so far and begin another; `where` is the file of the sample."""
        now = self._clock.wall_ns()
        self.spent_ns[self.stage] = self.spent_ns.get(self.stage, 0) + now - self._since_ns
        self._since_ns = now
        self.stage, self.sample, self.where = stage, sample, where
        self.thread_id = threading.get_ident()  # another may have made it

    @property
    def stage_s(self) -> dict[str, float]:
        """Seconds spent in each stage that is over."""
        spent = list(self.spent_ns.items())
        return {stage: spent_ns / 1e9 for stage, spent_ns in spent if stage != IDLE}

    @property
    def lasted_s(self) -> float:
        """Seconds since the stage began."""
        return (self._clock.wall_ns() - self._since_ns) / 1e9

    @property
    def mark(self) -> tuple[str, int, int]:
        """Changes whenever the thread comes on."""
        return self.stage, self.sample, self._since_ns

    def describe(self) -> str:
        """Stage, sample and file, as far as they are known."""
        text = f"stage {self.stage!r}"
        if self.sample >= 0:
            text += f", sample {self.sample}"
        return f"{text} ({self.where})" if self.where else text


def standstill(busy: Sequence[Activity], watchdog_s: float) -> LoaderError:
    """The error of a loop that waited `watchdog_s` while none of the `busy` threads came on."""
    longest = max(busy, key=lambda one: one.lasted_s)
    stack = stack_of(longest.thread_id)
    error = LoaderError(
        f"no batch came for {watchdog_s:g} s: {longest.describe()} has taken "
        f"{longest.lasted_s:.1f} s so far",
        looked_at=f"{len(busy)} threads at work; the longest hangs in\n{stack}".rstrip(),
        run_next="look at that file, transform or sampler, or give a larger watchdog_s",
    )
    error.add_note(longest.describe())
    return error


def stack_of(thread_id: int | None) -> str:
    """Where a thread of this process is: its last calls as text; empty where there is none."""
    frame = None if thread_id is None else sys._current_frames().get(thread_id)
    return "".join(traceback.format_stack(frame)[-_SHOWN_FRAMES:]) if frame else ""
