"""Counts what one thread's calls decode, against which a finished batch is held (`delivered`).

Standard library only.
"""

from __future__ import annotations

from typing import Any

from stoker.probe.hooks.calls import PIXEL, Decodes


class Tally:
    """What one thread has decoded since it was last asked."""

    __slots__ = ("_counts", "has_counted", "is_open", "pixels")

    def __init__(self) -> None:
        self.is_open = False  # within a counted call, whose own calls are a part of it
        self.has_counted = False  # ever
        self.pixels = 0  # ever, of pictures
        self._counts: dict[str, list[Any]] = {}

    def add(self, stage: str, decodes: Decodes, arguments: tuple[Any, ...], made: Any) -> None:
        """Count one call by its arguments and what it gave."""
        try:
            count, besides = decodes.counting(arguments, made)
        except Exception:  # noqa: BLE001 - whatever a library gives here, the script goes on
            return
        if not count and not besides:
            return
        self.has_counted = True
        if decodes.unit == PIXEL:
            self.pixels += count
        entry = self._counts.setdefault(stage, [decodes.unit, 0, 0])
        entry[1] += count
        entry[2] += besides

    def take(self) -> dict[str, list[Any]]:
        """Stage -> [unit, count, what `calls.Count` gives besides], and forget it."""
        counts, self._counts = self._counts, {}
        return counts
