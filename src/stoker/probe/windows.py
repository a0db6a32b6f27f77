"""The windows of the script's own loop, one after another, as the plan asks for them.

Opens and ends them and times the steps within; what the script gets meanwhile is the conductor's
to say. Knows no torch. Standard library only.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from stoker.probe.aside import Aside
from stoker.probe.epochs import EpochWatch
from stoker.probe.host import host_facts
from stoker.probe.legs import Loop, Plan, Window, plan
from stoker.probe.loop_record import LoopRecord
from stoker.probe.planned_loop import PlannedLoop
from stoker.probe.ranks import Ranks, group_of_process, meeting_place
from stoker.probe.roles import Hooked
from stoker.probe.session import Session
from stoker.probe.sidelines import Sidelines
from stoker.probe.stand_ins import StandIns
from stoker.probe.step_log import StepLog
from stoker.probe.together import plan_together
from stoker.probe.tracks import Track
from stoker.probe.trials import asked_for

REAL = frozenset("RWB")  # legs in which the script gets its own loader's batches
# A thread of the script's own that asks ahead: its loop has ended what lies between when a device
# was found idle so often, looking so many seconds apart.
_RESTS, _LOOK_S = 2, 0.001
_MOST_LOOKS = 100  # for a loop that goes on without us
# A rank that leads may validate or save meanwhile; one that is silent for longer hangs.
_SILENCE_S = 60.0


class Windows:
    """The plan of one training loader, and the window under way.

    `steps` and `per_step` (batches of each of the script's steps) are told by the conductor, which
    sees the calls.
    """

    def __init__(
        self,
        session: Session,
        hooked: Hooked,
        record: LoopRecord,
        stand_ins: StandIns,
        sidelines: Sidelines,
        aside: Aside,
        *,
        now: Callable[[], float],
    ) -> None:
        self._session = session
        self._hooked = hooked
        self._record = record
        self._stand_ins = stand_ins
        self._sidelines = sidelines
        self._aside = aside
        self._now = now
        self._budget_s = float(session.options["budget_s"])
        self._plan: Plan | None = None
        self._ranks: Ranks | None = None  # where several processes train together
        self._loop: PlannedLoop | None = None
        self._epochs = EpochWatch()
        self._began = 0.0
        self.under_way: Window | None = None
        self.steps = StepLog()
        self.per_step: list[int] = []
        self.ended_by = ""  # what the plan says when it has no further window

    @property
    def leg(self) -> str | None:
        """The leg under way."""
        return self.under_way.leg if self.under_way is not None else None

    def elapsed_s(self) -> float | None:
        """Since the loader began to train."""
        return round(self._loop.elapsed_s(), 3) if self._loop is not None else None

    # -- the plan ----------------------------------------------------------------------------------

    def begin(self, track: Track, epochs: EpochWatch, *, changes: int) -> None:
        """Plan the windows of that loader, together with the other ranks where there are some.

        `changes`: how often another loader than the one before was found to train.
        """
        device = self._hooked.device()
        self._stand_ins.has_device = device is not None
        group = group_of_process()
        self._record.training_begins(track, group, device)
        self._epochs = epochs
        self._loop = PlannedLoop(
            self._session,
            track,
            self._sidelines,
            epochs,
            now=self._now,
            owned_cores=float(host_facts()["cores_owned"] or 1.0),
            stand_ins=self._stand_ins,
        )
        if group.world == 1:
            self._plan = self._make_plan(self._loop)
        else:
            self._ranks = Ranks(
                meeting_place(self._session.folder, changes),
                group,
                silence_s=self._budget_s + _SILENCE_S,
                note=lambda text: self._session.write("note", text=text),
            )
            self._plan = plan_together(self._loop, self._ranks, self._make_plan)

    def abandon(self) -> None:
        """Another loader trains: what was under way counts as far as it came."""
        self.flush(is_complete=False)
        self._sidelines.close()
        self.under_way = None
        self.steps.forget()
        self._stand_ins.begin()
        self.per_step = []

    def leave(self) -> None:
        """Tell the other ranks that this one waits for them no more."""
        if self._ranks is not None:
            self._ranks.leave()

    def _make_plan(self, loop: Loop) -> Plan:
        ask, write, alone = self._sidelines.offers, self._session.write, self._ranks is None
        tryout = asked_for(loop, ask, write, alone=alone, budget_s=self._budget_s)
        steps = self._session.options.get("steps")
        return self._stand_ins.while_kept(plan(loop, self._budget_s, steps, tryout))

    # -- the window under way ----------------------------------------------------------------------

    def advance(self, track: Track, iterator: Any) -> Window | None:
        """The window of the coming step; None where the plan has ended, see `ended_by`.

        Runs what the plan does between two windows.
        """
        window = self.under_way
        if window is not None:
            left = window.left(self.steps.run, self.steps.measured.boundaries)
            if not self._is_due(left, track):
                return window
            self.flush(is_complete=left <= 0)
        assert self._plan is not None
        try:
            with self._aside:
                self.under_way = (
                    next(self._plan) if window is None else self._plan.send(self.steps.measured)
                )
        except StopIteration as ended:
            self.under_way = None
            self.ended_by = ended.value
            return None
        self._open(self.under_way, track, iterator, after=window)
        return self.under_way

    def _is_due(self, left: int, track: Track) -> bool:
        """True when the window ends here: it is full, or out of time; for all ranks at once."""
        assert self.under_way is not None
        if self._now() - self._began > self.under_way.limit_s or self._sidelines.is_spoilt:
            left = min(left, 0)
        return left <= 0 if self._ranks is None else self._ranks.is_due(track.batches, left=left)

    def _open(self, window: Window, track: Track, iterator: Any, *, after: Window | None) -> None:
        self.steps.begin()
        if after is None or after.leg != window.leg:
            self._hooked.synchronize()
            self._record.leg_begins(window, self.elapsed_s())
        if after is not None and not {after.leg, window.leg} <= REAL:
            self._epochs.disturbed()
        self._sidelines.is_spoilt = False
        if window.leg == "C":
            with self._aside:
                self._sidelines.begin_beside()
        elif window.leg == "B":
            self._stand_ins.rest(self._sidelines.on_trial_now)  # its workers fill their queue first
        elif window.leg == "V":
            self._stand_ins.rest(iterator)
            with self._aside:
                self._sidelines.begin_trial(window)
        self._record.window_begins(window, iterator, track)
        self._began = self._now()

    def flush(self, *, is_complete: bool) -> None:
        """End the window under way, if there is one, and write down what was seen in it."""
        window = self.under_way
        if window is None:
            return
        self.steps.measured.inside = self._record.window_ends()
        self.steps.measured.drained = self._sidelines.end_beside()
        if self._sidelines.is_spoilt:
            self.steps.begin()
            return
        self._record.window_counts(
            window,
            self.steps,
            self.per_step,
            round_=self._stand_ins.round,
            is_complete=is_complete,
        )

    def close_step(self, called: float) -> None:
        """The open step ended with the call of next() at this time."""
        window = self.under_way
        if window is None or not self.steps.ends():
            return
        began = self._now()
        whole = self.steps.close(called, skip=window.skip)
        if whole is not None:
            self._record.step(*whole)
        self.steps.own_s += self._now() - began
        if self.steps.run in (window.skip, window.skip + window.steps):
            self._come_to_rest()  # steps are measured from rest to rest
            self.steps.device_ended(self._now() - began)
        if self._record.is_in_background and self.steps.run == window.skip + window.steps:
            self.steps.leave_out_lead()

    def _come_to_rest(self) -> None:
        """Wait for the device; where a thread asks ahead of the loop, for what lies between too."""
        self._hooked.synchronize()
        rests = 0
        for _ in range(_MOST_LOOKS if self._record.is_in_background else 0):
            time.sleep(_LOOK_S)
            began = self._now()
            self._hooked.synchronize()
            rests = rests + 1 if self._now() - began < _LOOK_S / 2 else 0
            if rests == _RESTS:
                return
