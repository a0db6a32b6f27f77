"""Loaders that give a batch for every training step beside the training loader: zip(a, b).

What the step waits for is the batches of them all; kept batches stand in for all of them.
Standard library only.
"""

from __future__ import annotations

from stoker.probe.kept import KeptBatches
from stoker.probe.tracks import Track

# Asked in so many steps in a row: a validation in mid-epoch is asked in one.
_STEPS_IN_ROW = 3


class Companion:
    """One such loader, and batches of it to serve in its place."""

    def __init__(self, track: Track) -> None:
        self.track = track
        self.kept = KeptBatches()
        self.last_step = -1
        self.in_row = 0


class Companions:
    """All loaders that were asked beside the training loader, with gradients on."""

    def __init__(self) -> None:
        self._seen: dict[Track, Companion] = {}

    def of(self, track: Track, *, step: int) -> Companion | None:
        """The companion that a loader is, asked now for this step; None as long as it is none."""
        seen = self._seen.setdefault(track, Companion(track))
        if step != seen.last_step:
            seen.in_row = seen.in_row + 1 if step == seen.last_step + 1 else 1
            seen.last_step = step
        return seen if seen.in_row >= _STEPS_IN_ROW else None

    @property
    def tracks(self) -> list[Track]:
        """The loaders that are companions now."""
        return [seen.track for seen in self._seen.values() if seen.in_row >= _STEPS_IN_ROW]
