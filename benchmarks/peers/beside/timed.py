"""Lies beside an adapted case: notes when each step begins, as a training log would."""

from __future__ import annotations

import json
import time


class Steps:
    """The times at which steps began, printed at the end."""

    def __init__(self) -> None:
        self.times = [time.perf_counter()]

    def begun(self) -> None:
        """A batch has come."""
        self.times.append(time.perf_counter())

    def show(self) -> None:
        """For the benchmark, on a line of its own."""
        print("STEP_TIMES", json.dumps(self.times), flush=True)
