"""Whether caches have had their chance: a step is judged only once they could help; pure.

A cache costs first, and gives from the second time on that it is asked for a sample: mostly in the
next epoch.
"""

from __future__ import annotations

# A pass: as many samples as the data set has, or an epoch, whichever is shorter. Behind one pass a
# cache is full when hardly anything comes new; where the order repeats samples by chance some come
# new for long, and so many passes are enough: 95 % of all were asked for by then.
_MOST_PASSES = 3.0
_FEW_NEW = 0.05
_STRETCH = 64  # samples over which that share is taken


class Filling:
    """What was asked of the caches, and what they have taken in of it."""

    def __init__(self, samples: int | None, batches: int | None) -> None:
        """`samples` of the data set, `batches` of an epoch; None where it has no length."""
        self._samples = samples
        self._batches = batches
        self._asked = 0
        self._given = 0
        self._held = 0
        self._stretch = 0  # samples of the stretch under way
        self._new = 0  # and what came new in it
        self._is_quiet = False

    def given(self, samples: int, held: int) -> None:
        """A batch came through the caches, which hold so many samples, or files, by now."""
        self._asked += samples
        self._given += 1
        self._stretch += samples
        self._new += max(0, held - self._held)
        self._held = held
        if self._stretch >= _STRETCH:
            self._is_quiet = self._new <= _FEW_NEW * self._stretch
            self._stretch = self._new = 0

    @property
    def is_over(self) -> bool:
        """True when more of the same would make no step faster."""
        passes = self._passes
        return passes >= _MOST_PASSES or (passes >= 1.0 and self._is_quiet)

    @property
    def _passes(self) -> float:
        by_samples = self._asked / self._samples if self._samples else 0.0
        by_batches = self._given / self._batches if self._batches else 0.0
        # Of what has no length nobody knows when it comes again.
        is_endless = not self._samples and not self._batches
        return _MOST_PASSES if is_endless else max(by_samples, by_batches)
