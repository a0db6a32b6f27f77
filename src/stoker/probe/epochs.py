"""What happens at epoch boundaries: how long they take, and what whole epochs take.

An epoch counts as pure when every batch of it was the loader's own and nothing was examined in
between; only pure ones tell what an epoch really takes. Standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Boundary:
    """One boundary: from the end of an epoch's last step to the first batch of the next."""

    seconds: float
    validation_s: float  # of it, with other loaders
    batches: int  # of the epoch that ended
    epoch_s: float | None  # from first batch to first batch, when that epoch was pure
    mid_validation_s: float  # other loaders in the middle of the epoch that ended


class EpochWatch:
    """Follows the training loader from epoch to epoch."""

    def __init__(self) -> None:
        self.start_s: list[float] = []  # from iter() to the first batch
        # Other loaders in the middle of epochs: batches asked for before, and seconds.
        self.mid_validation: list[tuple[int, float]] = []
        self._asked = 0
        self._is_between = False  # epochs: the next one has not been asked for a batch
        self._iterated: float | None = None
        self._first: float | None = None
        self._ended: float | None = None
        self._batches = 0
        self._ended_batches = 0
        self._ended_first: float | None = None
        self._pure = True
        self._ended_pure = False
        self._validation = 0.0
        self._within = 0.0  # validation of this epoch
        self._ended_within = 0.0
        self._other_since: float | None = None

    def iterated(self, began: float) -> None:
        """`iter()` was called on the loader at this time."""
        self._iterated = began
        self._batches = 0
        self._first = None
        self._pure = True
        self._within = 0.0

    @property
    def is_pure(self) -> bool:
        """True while this epoch is the loader's own."""
        return self._pure

    def disturbed(self) -> None:
        """Something else than the loader's own batches is served in this epoch."""
        self._pure = False
        self._iterated = None  # its first batch, if one comes, comes late
        self._ended = None  # and the boundary before it has no end

    def ended(self, called: float) -> None:
        """The call of next() at this time found the epoch exhausted."""
        self._ended = called
        self._ended_batches = self._batches
        self._ended_first = self._first
        self._ended_pure = self._pure
        self._ended_within = self._within
        self._validation = 0.0
        self._is_between = True

    def cut(self) -> None:
        """The epoch was ended early by us: its boundary tells nothing."""
        self._ended = None
        self._is_between = True

    def other_began(self, now: float) -> None:
        """Another loader is asked for a batch."""
        if self._other_since is None:
            self._other_since = now

    def training_resumes(self, now: float) -> None:
        """The training loader is asked again."""
        since, self._other_since = self._other_since, None
        if since is not None and self._is_between:
            self._validation += now - since
        elif since is not None:
            self.mid_validation.append((self._asked, now - since))
            self._within += now - since
        self._is_between = False
        self._asked += 1

    def batch(self, returned: float) -> Boundary | None:
        """A real batch came back; the boundary that it completes, if it is the first."""
        self._batches += 1
        if self._first is not None:
            return None
        self._first = returned
        if self._iterated is not None:
            self.start_s.append(returned - self._iterated)
        if self._ended is None:
            return None
        boundary = Boundary(
            seconds=returned - self._ended,
            validation_s=self._validation,
            batches=self._ended_batches,
            epoch_s=(
                returned - self._ended_first
                if self._ended_pure and self._ended_first is not None
                else None
            ),
            mid_validation_s=self._ended_within,
        )
        self._ended = None
        return boundary

    def fields(self) -> dict[str, Any]:
        """What is written down in the end."""
        return {
            "start_s": [round(value, 6) for value in self.start_s],
            "mid_validation": [(asked, round(value, 6)) for asked, value in self.mid_validation],
        }
