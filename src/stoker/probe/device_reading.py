"""What a device said of itself, put together from the lines of its legs."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from stoker.records.profile import DeviceFacts
from stoker.stats import Spread, bootstrap

Line = dict[str, Any]


def read_device(lines: Sequence[Line], per_step: int = 1) -> DeviceFacts | None:
    """The device under legs R and D, and its clocks over both; None where it said nothing.

    `per_step`: batches of a training step, for what was told batch by batch.
    """
    if not lines:
        return None
    states = [state for line in lines for state in line["states"]]
    busy = [state["busy"] for line in lines if line["leg"] == "R" for state in line["states"]]
    clocks = [s["sm_mhz"] / s["sm_most_mhz"] for s in states if s["sm_most_mhz"]]
    return DeviceFacts(
        idle_s=_of_step(lines, "R", "idle", per_step),
        idle_alone_s=_of_step(lines, "D", "idle", per_step),
        behind_s=_of_step(lines, "D", "behind", per_step),
        busy_reported=statistics.fmean(busy) if busy else None,
        clock_share=statistics.fmean(clocks) if clocks else None,
        slowed_by=tuple(dict.fromkeys(name for state in states for name in state["slowed_by"])),
    )


def _of_step(lines: Sequence[Line], leg: str, what: str, per_step: int) -> Spread | None:
    """Mean seconds of a step under a leg."""
    values = [
        value * (per_step if line["each"] == "batch" else 1)
        for line in lines
        if line["leg"] == leg
        for value in line[what]
    ]
    return bootstrap(values) if values else None
