"""Where a group's Loader is best beside its rate, and why not where it is not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# What the table shows beside the rate -> why the Loader may take more of it than another loader.
REASONS: dict[str, str | None] = {
    "cpu_s_per_1000": None,
    "memory_bytes": "batches made ahead, and torch",
    "first_batch_s": None,
}
# Medians of some rounds are as good as equal within this.
TIE = 1.05


def best_or_why(
    own: Mapping[str, Any], others: Mapping[str, Mapping[str, Any]]
) -> tuple[dict[str, str], bool]:
    """A remark for each of REASONS, and whether the Loader is best in each or there is a reason.

    `own`: its numbers; `others`: those of other loaders by their names, none is allowed.
    """
    remarks, holds = {}, True
    for measure, reason in REASONS.items():
        name, least = min(
            ((name, numbers[measure]) for name, numbers in others.items()),
            key=lambda one: one[1],
            default=("", own[measure]),
        )
        if own[measure] <= TIE * least:
            remarks[measure] = "best"
        else:
            remarks[measure] = f"least: {name}" + (f"; here {reason}" if reason else "")
            holds &= reason is not None
    return remarks, holds
