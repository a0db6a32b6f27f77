"""Do threads help a data set? Found out on the first batches, which are needed anyway.

A pure rule over times: after a batch that warms up, some samples by one thread and the next by
two, and again where the two times do not say it clearly.
"""

from __future__ import annotations

# Two threads that hold the GIL all the time give 1.0, two that never do 2.0. Processes cost a copy
# of each batch and seconds to start: below this they win for work of more than a millisecond.
_WORTH_IT = 1.3
# Another program that takes the core in one of two short batches can move their ratio past
# `_WORTH_IT`, hardly past these; and hardly the fastest of three batches of each kind.
_CLEARLY_NOT, _CLEARLY = 1.15, 1.7
_MOST_PAIRS = 3


class Verdict:
    """Whether to stay with threads, and the sentence that says so. None: not known yet."""

    def __init__(self, cores: int) -> None:
        self.cores = cores
        self._alone_s = float("inf")
        self._together_s = float("inf")
        self._pairs = 0
        self.stays: bool | None = None if cores > 1 else True
        self.sentence = "threads: this process owns one core" if cores == 1 else ""

    def alone(self, seconds_a_sample: float) -> None:
        """Note what a sample took while one thread worked."""
        self._alone_s = min(self._alone_s, seconds_a_sample)

    def together(self, seconds_a_sample: float) -> None:
        """Note what a sample took, by the clock, while two threads worked; and decide if clear."""
        if self._alone_s == float("inf") or self.stays is not None:
            return
        self._together_s = min(self._together_s, seconds_a_sample)
        self._pairs += 1
        gain = self._alone_s / self._together_s if self._together_s > 0 else 2.0
        if _CLEARLY_NOT < gain < _CLEARLY and self._pairs < _MOST_PAIRS:
            return
        self.stays = gain >= _WORTH_IT
        kind = "threads" if self.stays else "processes"
        # Cores that others hold keep a second thread waiting as the GIL does.
        why = "lets go of the GIL" if self.stays else "holds the GIL, or the cores are busy"
        self.sentence = (
            f"{kind}: two threads made samples {gain:.2f} times as fast as one, so the data set's "
            f"work {why}"
        )
