"""Stands inside the script's own loop and conducts it through the legs.

Every `next()` on a loader of the script passes through `on_next`; for most legs that is all the
control there is. Knows no torch: the hooks hand in what is needed. Standard library only.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NoReturn

from stoker import clocks
from stoker.probe.aside import Aside
from stoker.probe.choice import Choice
from stoker.probe.companions import Companion
from stoker.probe.epochs import EpochWatch
from stoker.probe.leaving import Leaving, StokerStop
from stoker.probe.legs import Window
from stoker.probe.loop_record import LoopRecord
from stoker.probe.roles import Hooked, Rehearsal
from stoker.probe.session import Session
from stoker.probe.sidelines import Sidelines
from stoker.probe.stand_ins import StandIns
from stoker.probe.tracks import Track
from stoker.probe.windows import REAL, Windows

Fetch = Callable[[], Any]

_FETCHING = REAL | {"V"}  # legs in which some loader is waited for
_REST_SHARE = 0.15  # of the budget, at most, for workers to come to rest


class Conductor:
    """Whose turn it is in the loop, and what it gets."""

    def __init__(self, session: Session, hooked: Hooked) -> None:
        self._session = session
        self._hooked = hooked
        self._pid = os.getpid()
        self._now = clocks.wall_s
        budget_s = float(session.options["budget_s"])
        # which loader trains
        self._training: Track | None = None
        self._iterator: Any = None
        self._last: Track | None = None
        self._passing: tuple[Track, float] | None = None  # another loader, asked since that time
        self._new_batches = 0
        self._choice = Choice(hooked, budget_s=budget_s, now=self._now)
        self._epochs = EpochWatch()
        # what it gets, and when
        self._aside = Aside()
        self._record = LoopRecord(session, hooked)
        self._stand_ins = StandIns(session, hooked, rest_s=_REST_SHARE * budget_s)
        self._sidelines = Sidelines(session, self._rehearsal)
        self._windows = Windows(
            session,
            hooked,
            self._record,
            self._stand_ins,
            self._sidelines,
            self._aside,
            now=self._now,
        )
        self._steps = self._windows.steps
        self._is_over = False
        self._leaving = Leaving()

    # -- called by the hooks -----------------------------------------------------------------------

    @property
    def is_inert(self) -> bool:
        """True in forked children and while our own side loaders are made."""
        return os.getpid() != self._pid or self._aside.is_on

    def looking_away(self) -> Aside:
        """Loaders that this thread asks meanwhile are part of what is watched already."""
        return self._aside

    @property
    def leg(self) -> str | None:
        """The leg under way."""
        return self._windows.leg

    def on_epoch(self, track: Track, began: float) -> None:
        """The script called `iter()` on a loader at that time."""
        track.served = 0
        track.is_open = True
        if track is self._training:
            self._steps.forget()  # a step left by `break` has no end that we know
            self._epochs.iterated(began)
            if self.leg is not None and self.leg not in REAL:
                self._epochs.disturbed()
        elif self._training is None:
            self._epochs.iterated(began)

    def on_next(self, track: Track, iterator: Any, fetch: Fetch) -> Any:
        """The script asks a loader for its next batch."""
        called = self._now()
        if self._is_over:
            return self._stop()
        if self._training is None and self._choice.trains_without_steps(track):
            self._begin(track)
        self._choice.batch_seen(is_training=track is self._training)
        if track is not self._training:
            return self._serve_other(track, iterator, fetch, called)
        self._epochs.training_resumes(called)
        self._passing = None
        self._last = track
        self._iterator = iterator
        self._windows.close_step(called)
        window = self._windows.advance(track, iterator)
        if window is None:
            self._end(self._windows.ended_by)
            return self._stop()
        self._end_by_count(track, window)
        if window.leg in REAL:
            return self._serve_real(track, fetch)
        serve = self._serve_variant if window.leg == "V" else self._serve_kept
        return serve(track, iterator, window)

    def on_optimizer_step(self) -> None:
        """An optimizer made a step: the loader asked last is the training loader."""
        if self.is_inert:
            return
        if self._is_over:
            self._leaving.from_step()
        self._stop_without_batches()
        self._passing = None  # it is trained on
        if self._last is not None and self._last is not self._training:
            self._follow_optimizer(self._last)
        if self._new_batches:
            self._windows.per_step.append(self._new_batches)
            self._new_batches = 0

    @property
    def has_seen_batches(self) -> bool:
        """True once a loader that is followed has given a batch."""
        return self._last is not None

    def leave(self) -> NoReturn:
        """Enough was seen of a loop that no loader feeds."""
        self._is_over = True
        raise StokerStop

    def finish(self) -> None:
        """Write down what is still open; called at exit, whatever the reason."""
        if os.getpid() == self._pid and not self._is_over and self._last is not None:
            try:
                self._windows.flush(is_complete=False)
                self._end("script-ended")
            except Exception as error:  # noqa: BLE001 - the script's exit is none of ours to break
                self._session.write_failure("the end of measuring", error)

    def give_up(self, error: Exception) -> None:
        """Something of ours broke: what was seen so far is all; the script must not notice."""
        self._session.write_failure("measuring", error)
        if self._is_over:
            return
        try:
            self._windows.flush(is_complete=False)
            self._end("probe-failed")
        except Exception as another:  # noqa: BLE001 - as above
            self._is_over = True
            self._session.write_failure("the end of measuring", another)

    # -- which loader trains -----------------------------------------------------------------------

    def _follow_optimizer(self, track: Track) -> None:
        """An optimizer step came after a batch of another loader than the training loader."""
        if self._training is None:
            self._begin(track)
            return
        if track.learns and not self._training.is_open and track.is_like(self._training):
            # The loader of another epoch, of another length; its boundary was not watched.
            self._training = track
            self._epochs.cut()
            return
        if not self._choice.has_changed(track):
            return
        self._windows.abandon()
        self._epochs = EpochWatch()
        self._begin(track)

    def _stop_without_batches(self) -> None:
        """End where optimizers go on and on without a batch: nothing more will be seen."""
        steps = self._choice.steps_without_batches()
        if not steps:
            return
        self._windows.flush(is_complete=False)
        self._session.write("steps-alone", steps=steps)
        self._end("script-ended")
        raise StokerStop

    def _begin(self, track: Track) -> None:
        self._windows.begin(track, self._epochs, changes=self._choice.changes)
        # Last: the loader may be asked by another thread than the one that makes the steps.
        self._training = track

    def _serve_other(self, track: Track, iterator: Any, fetch: Fetch, called: float) -> Any:
        """A loader that goes along with each step; another one passes, or one before the choice."""
        companion = None
        if self._training is not None:
            if self._hooked.grad_enabled():
                companion = self._stand_ins.companions.of(track, step=self._training.batches)
                if companion is None:
                    self._end_before_pass(track, called)
            else:
                self._windows.close_step(called)  # a validation in mid-epoch is no part of the step
                called = self._now()
        if companion is not None:
            batch = self._serve_companion(companion, iterator, fetch, called)
        else:
            if self._training is not None:
                self._epochs.other_began(called)
            batch = fetch()
        if self._training is None:
            self._epochs.batch(self._now())
        self._count(track, is_fetched=companion is None)
        self._last = track
        return batch

    def _end_before_pass(self, track: Track, called: float) -> None:
        """End the open step where another loader began to give batch after batch.

        Not every script turns gradients off for its validation; one batch may be of the step.
        """
        if self._passing is None or self._passing[0] is not track:
            self._passing = (track, called)
        elif self._windows.per_step and self._new_batches:
            self._steps.forget()  # the optimizer has not made its step: it goes on behind the pass
        else:
            self._windows.close_step(self._passing[1])

    def _count(self, track: Track, *, is_fetched: bool = False) -> None:
        track.count(is_fetched=is_fetched)
        if self._training is None or track is self._training:
            self._new_batches += 1

    def _end_by_count(self, track: Track, window: Window) -> None:
        """End an epoch in which other batches than the loader's own were served."""
        is_disturbed = window.leg not in REAL or not self._epochs.is_pure
        if track.length and track.served >= track.length and is_disturbed:
            self._epochs.cut()
            track.is_open = False
            raise StopIteration

    # -- serving -----------------------------------------------------------------------------------

    def _serve_real(self, track: Track, fetch: Fetch) -> Any:
        self._stand_ins.wake()
        asked = self._now()
        try:
            batch = fetch()
        except StopIteration:
            self._epochs.ended(asked)
            track.is_open = False
            raise
        returned = self._now()
        self._count(track, is_fetched=True)
        boundary = self._epochs.batch(returned)
        self._record.batch_comes(boundary)
        self._stand_ins.keep(batch)
        ended = self._now()
        self._steps.own_s += ended - returned
        if boundary is None:
            self._steps.opens(ended, returned - asked)
        else:  # its first batch waits for the whole pipeline to fill: that is the boundary's
            self._steps.edge(boundary.seconds - boundary.validation_s)
        return batch

    def _serve_variant(self, track: Track, iterator: Any, window: Window) -> Any:
        """A batch of the loader on trial; the script's own workers are at rest meanwhile."""
        self._stand_ins.rest(iterator)
        begins = window.epochs > 0 and track.served == 0
        asked = self._now()
        with self._aside:
            found = self._sidelines.on_trial(window, anew=track.length if begins else None)
        self._count(track)
        now = self._now()
        if found is None:
            return self._stand_ins.hand_out("")  # the window ends here, and tells nothing
        if begins and self._steps.run:  # the workers' own start tells of no later epoch
            self._steps.edge(now - asked)
        else:
            self._steps.opens(now, now - asked)
        return found[0]

    def _serve_kept(self, track: Track, iterator: Any, window: Window) -> Any:
        self._stand_ins.rest(iterator)
        batch = self._stand_ins.hand_out(window.leg, variant=window.variant)
        self._sidelines.ticket()
        self._count(track)
        self._steps.opens(self._now())
        return batch

    def _serve_companion(
        self, companion: Companion, iterator: Any, fetch: Fetch, called: float
    ) -> Any:
        """A batch of a loader that goes along with every step."""
        track, window = companion.track, self._windows.under_way
        if window is not None and window.leg not in _FETCHING and companion.kept:
            self._stand_ins.rest(iterator)
            self._end_by_count(track, window)
            return self._stand_ins.hand_out(window.leg, companion)
        self._stand_ins.wake()
        try:
            batch = fetch()
        except StopIteration:  # of zip(a, b) only the first to end is asked to its end
            self._windows.close_step(called)
            self._epochs.ended(called)
            track.is_open = False
            raise
        self._steps.waited_beside(self._now() - called)
        self._stand_ins.keep_of(companion, batch)
        return batch

    def _rehearsal(self) -> Rehearsal:
        assert self._training is not None
        beside = self._stand_ins.companions.tracks
        return self._hooked.rehearsal(self._training, self._stand_ins.first, beside)

    # -- the end -----------------------------------------------------------------------------------

    def _end(self, reason: str) -> None:
        if self._training is not None:
            self._record.host(self._iterator)
        self._sidelines.close()
        batches = self._last.batches if self._last is not None else 0
        self._record.end(reason, self._epochs, batches=batches, elapsed_s=self._windows.elapsed_s())
        self._windows.leave()
        # Last: where a thread asks for batches the main thread stops now, and all ends with it.
        self._is_over = True

    def _stop(self) -> Any:
        """Leave the script; or, where we can't, keep it going until the main thread has left."""
        self._leaving.now(
            can_go_on=bool(self._stand_ins), has_optimizer=bool(self._windows.per_step)
        )
        return self._stand_ins.hand_out("")
