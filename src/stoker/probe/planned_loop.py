"""The loop as the plan sees it: a `legs.Loop`, over the side loaders of the training loader.

Standard library only.
"""

from __future__ import annotations

from collections.abc import Callable

from stoker.probe.epochs import EpochWatch
from stoker.probe.session import Session
from stoker.probe.sidelines import Sidelines
from stoker.probe.stand_ins import StandIns
from stoker.probe.tracks import Track


class PlannedLoop:
    """What is known of the training loader, and what may be asked of it between two windows."""

    def __init__(
        self,
        session: Session,
        track: Track,
        sidelines: Sidelines,
        epochs: EpochWatch,
        *,
        now: Callable[[], float],
        owned_cores: float,
        stand_ins: StandIns,
    ) -> None:
        self.workers = track.workers
        self.depth = track.workers * int(track.facts["prefetch_factor"] or 2)
        self.epoch_length = track.length
        self.owned_cores = owned_cores
        self.has_device = stand_ins.has_device
        self._facts = track.facts
        self._stand_ins = stand_ins
        self.wants_stages = bool(session.options.get("stages", True))
        self._session = session
        self._sidelines = sidelines
        self._epochs = epochs
        self._now = now
        self._began = now()

    def elapsed_s(self) -> float:
        """Seconds since the plan began."""
        return self._now() - self._began

    @property
    def native_threads(self) -> int:
        """Threads of all workers of the side loader together, as last seen."""
        return self._sidelines.threads

    def start_s(self, workers: int) -> float:
        """Seconds that it takes to start so many workers, as far as was seen."""
        seen = self._sidelines.start_s(workers)
        if seen is None and self.workers and self._epochs.start_s:
            # the script's own, up to their first batch
            seen = self._epochs.start_s[0] / self.workers * workers
        return seen or 0.0

    def drain(self, what: str, workers: int, *, batches: int, limit_s: float) -> list[float]:
        """Periods of batches taken from a side loader of that many workers."""
        name = what if workers == self.workers else f"{what}{workers}"
        self._session.write("leg", leg=name, elapsed_s=round(self.elapsed_s(), 3))
        return self._sidelines.drain(what, workers, batches=batches, limit_s=limit_s)

    @property
    def kept_round(self) -> int:
        """Kept batches after which their sizes repeat; 1 where they hardly differ."""
        return self._stand_ins.round

    @property
    def can_halve(self) -> bool:
        """Whether half a batch may be served in place of a whole one."""
        return self._stand_ins.can_halve(self._facts)

    def end_trial(self) -> None:
        """The loader of the variant is needed no longer."""
        self._sidelines.end_trial()

    def once(self, limit_s: float) -> None:
        """The examinations that need no loop."""
        self._sidelines.once(limit_s)
