"""What is written down of the script's loop, and what is read beside its windows for that.

The conductor says when; nothing here decides what the script gets. Standard library only.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from stoker.probe.cgroup import Throttling
from stoker.probe.epochs import Boundary, EpochWatch
from stoker.probe.gauges import Gauges, memory_of
from stoker.probe.host import host_facts, throttling_now
from stoker.probe.legs import Window
from stoker.probe.ranks import Group
from stoker.probe.roles import Hooked
from stoker.probe.session import Session
from stoker.probe.step_log import StepLog
from stoker.probe.tracks import Track

# Of the batches that each step of a window takes, so many are told: they are alike.
_TOLD_STEPS = 100


class LoopRecord:
    """The lines of one loop, from the choice of the training loader to the end."""

    def __init__(self, session: Session, hooked: Hooked) -> None:
        self._session = session
        self._hooked = hooked
        self._gauges: Gauges | None = None
        self._used: dict[str, float | None] = {}  # of the window that has just ended
        self._throttled: Throttling | None = None
        self._watched: tuple[Sequence[int], Track] | None = None  # whose memory is looked at
        self.is_in_background = False

    def training_begins(self, track: Track, group: Group, device: str | None) -> None:
        """That loader trains from now on; the group's throttling counts from here."""
        self._session.write(
            "training-loader",
            **track.facts,
            device=device,
            rank=group.rank,
            world=group.world,
            versions=self._hooked.versions(),
        )
        self._throttled = throttling_now()

    def batch_comes(self, boundary: Boundary | None) -> None:
        """A batch of the training loader's own, the first of an epoch or not."""
        self.is_in_background = threading.current_thread() is not threading.main_thread()
        if boundary is not None:
            self._session.write("boundary", **vars(boundary))

    def leg_begins(self, window: Window, elapsed_s: float | None) -> None:
        """The first window of a leg."""
        self._session.write("leg", leg=window.leg, elapsed_s=elapsed_s, variant=window.variant)

    def window_begins(self, window: Window, iterator: Any, track: Track | None) -> None:
        """Read from here on what the window's leg asks for."""
        workers = self._hooked.worker_pids(iterator) if window.leg == "R" else None
        self._watched = (workers, track) if workers is not None and track is not None else None
        self._see_memory(has_ended=False)
        is_inside = window.leg == "P"
        self._gauges = Gauges(
            workers,
            samples_stack=is_inside and not self.is_in_background,
            device=self._hooked.device() if is_inside else None,
        )

    def _see_memory(self, *, has_ended: bool) -> None:
        if self._watched is not None:
            workers, track = self._watched
            self._session.write(
                "memory", **memory_of(workers), batches=track.fetched, ended=has_ended
            )

    def step(self, began: float, ended: float) -> None:
        """A whole step lies in the window."""
        if self._gauges is not None:
            self._gauges.step(began, ended)

    def window_ends(self) -> dict[str, Any] | None:
        """Stop reading, before anything else is done; what the stack samples say, if any."""
        gauges, self._gauges = self._gauges, None
        self._used = gauges.stop() if gauges is not None else {}
        self._see_memory(has_ended=True)
        self._watched = None
        inside = gauges.inside if gauges is not None else None
        if inside is not None:
            self._session.write("inside", **inside)
        return inside

    def window_counts(
        self,
        window: Window,
        steps: StepLog,
        per_step: Sequence[int],
        *,
        round_: int,
        is_complete: bool,
    ) -> None:
        """Write down the window that has ended.

        `per_step`: batches of the script's last steps; `round_`: kept batches after which their
        sizes repeat.
        """
        self._session.write(
            "window",
            leg=window.leg,
            workers=window.workers,
            variant=window.variant,
            skip=window.skip,
            complete=is_complete,
            background=self.is_in_background,
            round=round_,
            per_step=list(per_step[-_TOLD_STEPS:]),
            **steps.fields(),
            **self._used,
        )

    def host(self, iterator: Any) -> None:
        """What the job owned and used of the host since the loader began to train."""
        workers = self._hooked.worker_pids(iterator)
        self._session.write("host", **host_facts(worker_pids=workers, before=self._throttled))

    def end(
        self, reason: str, epochs: EpochWatch, *, batches: int, elapsed_s: float | None
    ) -> None:
        """The last line."""
        self._session.write(
            "end", reason=reason, **epochs.fields(), batches=batches, elapsed_s=elapsed_s
        )
