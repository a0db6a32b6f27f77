"""What a device said of itself, put together from the lines of its legs."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from stoker.records.profile import DeviceFacts
from stoker.stats import bootstrap

Line = dict[str, Any]


def read_device(lines: Sequence[Line]) -> DeviceFacts | None:
    """The device under leg R, and its clocks over all legs; None where it said nothing."""
    if not lines:
        return None
    idle = [value for line in lines if line["leg"] == "R" for value in line["idle"]]
    states = [state for line in lines for state in line["states"]]
    busy = [state["busy"] for line in lines if line["leg"] == "R" for state in line["states"]]
    clocks = [s["sm_mhz"] / s["sm_most_mhz"] for s in states if s["sm_most_mhz"]]
    return DeviceFacts(
        idle_s=bootstrap(idle) if idle else None,
        busy_reported=statistics.fmean(busy) if busy else None,
        clock_share=statistics.fmean(clocks) if clocks else None,
        slowed_by=tuple(dict.fromkeys(name for state in states for name in state["slowed_by"])),
    )
