"""Lines of leg S made by hand."""

from __future__ import annotations

from typing import Any

MS = 1_000_000


def line(records: list[list[Any]], **stages: list[int]) -> dict[str, Any]:
    """A batch of a worker, not its first one."""
    return {
        "where": "worker",
        "samples": max(1, len(records)),
        "runqueue_ns": 0,
        "read_bytes": None,
        "gap_ns": 0,
        "stages": stages,
        "records": records,
    }


def sample(
    index: int,
    wall_ms: float,
    path: str | None = None,
    size: int | None = None,
    pixels: int | None = None,
) -> list[Any]:
    """The record of a sample that computes all the time."""
    return [index, index, int(wall_ms * MS), int(wall_ms * MS), path, size, "decode", pixels]
