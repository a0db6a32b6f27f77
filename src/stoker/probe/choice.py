"""Which of a script's loaders trains: the one that optimizer steps follow.

Standard library only.
"""

from __future__ import annotations

from collections.abc import Callable

from stoker.probe.roles import Hooked
from stoker.probe.tracks import Track

# Without an optimizer step after so many batches, the script has none, or none that torch knows;
# one that has an optimizer may gather gradients over many batches before its first step.
_NO_OPTIMIZER_BATCHES = 6
_MOST_GATHERED = 64
# So many optimizer steps in a row after another loader's batches: that one trains now. Two may be
# the halves of one step of two optimizers.
_FOREIGN_STEPS = 3
_MOST_CHANGES = 4  # of the training loader; a script that goes to and fro must come to an end too
# Optimizer steps without a batch, for as long as the whole budget: no loader feeds them.
_STEPS_WITHOUT_BATCH = 20


class Choice:
    """What was seen so far that tells the training loader from the others."""

    def __init__(self, hooked: Hooked, *, budget_s: float, now: Callable[[], float]) -> None:
        self._hooked = hooked
        self._budget_s = budget_s
        self._now = now
        self._gathers: bool | None = None  # an optimizer is there, but has made no step
        self._foreign_steps = 0
        self._steps_alone = 0  # optimizer steps since the last batch of any loader
        self._alone_since = 0.0
        self.changes = 0  # of the training loader

    def batch_seen(self, *, is_training: bool) -> None:
        """A loader gave a batch."""
        self._steps_alone = 0
        if is_training:
            self._foreign_steps = 0

    def trains_without_steps(self, track: Track) -> bool:
        """Without an optimizer the loader that goes on with gradients on is the one."""
        track.learns = track.learns and self._hooked.grad_enabled()
        if not track.learns or track.batches < _NO_OPTIMIZER_BATCHES:
            return False
        if self._gathers is None:
            self._gathers = self._hooked.has_optimizer()
        return not self._gathers or track.batches >= _MOST_GATHERED

    def has_changed(self, track: Track) -> bool:
        """An optimizer step came after a batch of another loader than the training loader.

        The first pass over a data set may only have counted it, and stages of a training may have
        loaders of their own: after some such steps in a row that one trains.
        """
        self._foreign_steps += track.learns
        if self._foreign_steps < _FOREIGN_STEPS or self.changes >= _MOST_CHANGES:
            return False
        self.changes += 1
        return True

    def steps_without_batches(self) -> int:
        """Count an optimizer step; how many came without a batch, once that is for good."""
        self._steps_alone += 1
        if self._steps_alone == 1:
            self._alone_since = self._now()
        is_long = self._now() - self._alone_since > self._budget_s
        return self._steps_alone if is_long and self._steps_alone >= _STEPS_WITHOUT_BATCH else 0
