"""Threads that fill batches ahead of the loop: in chunks of samples, delivered in order.

What it promises, and a difference is a bug. End: the last batch is delivered, then StopIteration.
Failure: the batches before it are delivered, then it is raised, then StopIteration. Closing, also
by forgetting the iterator: threads end after the sample they are at; a stuck one is named, in the
plan too. In a forked child there are no threads: taking is an error at once, closing does nothing.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np

from stoker.errors import LoaderError, StokerError
from stoker.loader.activity import IDLE, SAMPLER, Activity, standstill
from stoker.loader.endings import LoadingThread, check_process
from stoker.loader.order import Indices
from stoker.loader.pace import Pace
from stoker.loader.slots import Fields
from stoker.loader.tally import Tally
from stoker.spans import Clock, SystemClock

# Writes the samples into the rows given: one row a sample, in this order.
Fill = Callable[[Indices, Fields, Activity], None]

# Makes of a full batch what is delivered instead of its fields; in the thread that filled it up.
Complete = Callable[[Fields, Activity], Any]


class Filled(NamedTuple):
    """A batch that is ready, with the samples in it, and what `complete` made of it."""

    samples: Indices
    fields: Fields
    made: Any


class _Open:
    """A batch that is being filled."""

    __slots__ = ("error", "left", "made", "next_row", "samples", "slot", "unfilled")

    def __init__(self, samples: Indices, slot: Any) -> None:
        self.samples = samples
        self.slot = slot
        self.next_row = 0
        self.unfilled = len(samples)  # rows
        # Rows that are not finished; of a batch without any, the batch.
        self.left = max(len(samples), 1)
        self.error: BaseException | None = None
        self.made: Any = None

    @classmethod
    def failed(cls, error: BaseException) -> _Open:
        """A batch that could not be begun: its error comes in its place."""
        batch = cls(np.empty(0, np.int64), None)
        batch.left = 0
        batch.error = error
        return batch


class Room(Protocol):
    """Where blocks come from: `Slots`, or the likes of it."""

    @property
    def held_bytes(self) -> int:
        """Bytes that are not with the caller."""
        ...

    def acquire(self, rows: int) -> Any:
        """A block with `fields` for so many samples, or None when there is no room."""
        ...

    def release(self, slot: Any) -> None:
        """Take a block back that was not lent."""
        ...

    def lend(self, slot: Any, rows: int) -> Fields:
        """Hand a filled block out."""
        ...


class Engine:
    """Fills the batches of `plan` ahead with threads. One consumer; `close` from any thread."""

    def __init__(
        self,
        plan: Iterator[Indices],
        fill: Fill,
        slots: Room,
        *,
        pace: Pace,
        chunk: int,
        watchdog_s: float,
        complete: Complete | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._plan = plan
        self._fill = fill
        self._slots = slots
        self._pace = pace
        self._chunk = chunk
        self._watchdog_s = watchdog_s
        self._complete = complete
        self._clock = clock or SystemClock()
        # Reentrant: an iterator that is part of a cycle may be collected, and so close this, while
        # its own thread holds the lock.
        self._lock = threading.RLock()
        self._room = threading.Condition(self._lock)  # for the threads: something to fill
        self._ready = threading.Condition(self._lock)  # for the consumer: a batch is full
        self._batches: deque[_Open] = deque()  # in order of delivery
        self._next: Indices | None = None  # planned, and not begun so far
        self._is_asking = False  # a thread is asking the plan for it
        self._is_planned = False  # the plan has come to its end
        self._is_closed = False
        self._handed_back = False
        self._threads: list[threading.Thread] = []
        self._activities: dict[int, Activity] = {}
        self._taken_ns = self._clock.wall_ns()
        self._process = os.getpid()
        self.tally = Tally()
        with self._lock:
            self._match_threads()

    def __iter__(self) -> Engine:
        return self

    def __next__(self) -> Filled:
        """The next batch; waits for it. StopIteration at the end, or what the filling raised."""
        check_process(self._process)
        began = self._clock.wall_ns()
        with self._lock:
            is_ready = bool(self._batches) and not self._batches[0].left
            ready = sum(1 for batch in self._batches if not batch.left)
            while not self._is_closed and not (self._batches and not self._batches[0].left):
                if self._is_planned and not self._batches:
                    self._is_closed = True
                    self._room.notify_all()
                else:
                    self._wait_for_progress()
            if self._is_closed:
                raise StopIteration
            batch = self._batches.popleft()
            if batch.error is not None:
                self._is_closed = True
                self._room.notify_all()
                if batch.slot is not None:  # nobody writes to it any more
                    self._slots.release(batch.slot)
                raise batch.error
            fields = self._slots.lend(batch.slot, len(batch.samples))
            now = self._clock.wall_ns()
            waited_s, period_s = (now - began) / 1e9, (now - self._taken_ns) / 1e9
            self._taken_ns = now
            blocked_s = self.tally.taken(
                len(batch.samples), waited_s=waited_s, ready=ready, was_ready=is_ready
            )
            self.tally.held_bytes = self._slots.held_bytes
            self._pace.observe(
                len(batch.samples), period_s=period_s, waited_s=waited_s, blocked_s=blocked_s
            )
            self._match_threads()
            self._room.notify()
        return Filled(batch.samples, fields, batch.made)

    def end(self) -> None:
        """Let the threads end after the sample that they are at, without waiting for that."""
        if self._is_forked:
            return  # the lock may be held by a thread that did not come along
        with self._lock:
            self._is_closed = True
            self._room.notify_all()
            self._ready.notify_all()

    def close(self, wait_s: float = 2.0) -> None:
        """Stop the threads; waits for them for so long at most. A second call does nothing."""
        self.end()
        for thread in [] if self._is_forked else list(self._threads):
            if thread is not threading.current_thread():
                thread.join(wait_s)

    def hand_back(self) -> Room | None:
        """After `close`, the memory, once; None when a thread may still write to it."""
        if self._is_forked:
            return None
        with self._lock:
            if self._handed_back or any(thread.is_alive() for thread in self._threads):
                return None
            self._handed_back = True
            while self._batches:
                slot = self._batches.pop().slot
                if slot is not None:
                    self._slots.release(slot)
            return self._slots

    def stages(self) -> dict[str, float]:
        """Seconds that the threads spent in each stage, summed over them."""
        total: dict[str, float] = {}
        for activity in list(self._activities.values()):
            for stage, spent_s in activity.stage_s.items():
                total[stage] = total.get(stage, 0.0) + spent_s
        return total

    @property
    def threads(self) -> int:
        """Threads that are meant to fill at the moment."""
        return self._pace.threads

    @property
    def thread_ids(self) -> list[int]:
        """The threads, as the kernel numbers them."""
        return [thread.native_id for thread in list(self._threads) if thread.native_id is not None]

    @property
    def is_at_rest(self) -> bool:
        """True while no thread has anything to do: what may be made ahead is made."""
        with self._lock:
            has_room = not self._is_planned and len(self._batches) < self._pace.depth
            is_busy = has_room or any(batch.left for batch in self._batches)
            return self._is_closed or not is_busy

    @property
    def depth(self) -> int:
        """Batches that may be under way or wait."""
        return self._pace.depth

    @property
    def _is_forked(self) -> bool:
        return os.getpid() != self._process

    def _match_threads(self) -> None:
        """Start threads up to the number wanted; those above it end by themselves."""
        while len(self._threads) < self._pace.threads and not self._is_closed:
            number = len(self._threads)
            thread = LoadingThread(self._work, f"stoker-loader-{number}", number)
            self._threads.append(thread)
            thread.start()

    def _work(self, number: int) -> None:
        activity = self._activities[number] = Activity(self._clock)
        while (found := self._chunk_of_work(number, activity)) is not None:
            batch, rows = found
            try:
                self._fill(
                    batch.samples[rows],
                    {name: field[rows] for name, field in batch.slot.fields.items()},
                    activity,
                )
            except BaseException as error:  # noqa: BLE001 - the consumer raises it
                self._finish(batch, rows, _noted(error, activity))
            else:
                self._complete_and_finish(batch, rows, activity)
            activity.enter(IDLE)

    def _complete_and_finish(self, batch: _Open, rows: slice, activity: Activity) -> None:
        """The thread with the last rows makes of the batch what is delivered."""
        error = None
        with self._lock:
            batch.unfilled -= rows.stop - rows.start
            is_last = not batch.unfilled and batch.error is None
        if is_last and self._complete is not None:
            try:
                count = len(batch.samples)
                batch.made = self._complete(
                    {name: field[:count] for name, field in batch.slot.fields.items()}, activity
                )
            except BaseException as raised:  # noqa: BLE001 - the consumer raises it
                error = _noted(raised, activity)
        self._finish(batch, rows, error)

    def _chunk_of_work(self, number: int, activity: Activity) -> tuple[_Open, slice] | None:
        """The next rows to fill; waits for room, and asks the plan. None: the thread is to end."""
        while True:
            with self._lock:
                while True:
                    if self._is_closed or number >= self._pace.threads:
                        self._room.notify()  # it may have been woken in the place of another
                        self._threads = [
                            t for t in self._threads if t is not threading.current_thread()
                        ]
                        return None
                    batch = self._open_batch()
                    if batch is not None:
                        start = batch.next_row
                        batch.next_row = min(start + self._chunk, len(batch.samples))
                        return batch, slice(start, batch.next_row)
                    if self._is_planned:
                        return None
                    if self._may_ask:
                        break
                    began, lacks_room = self._clock.wall_ns(), not self._is_asking
                    self._room.wait()
                    if lacks_room:
                        self.tally.blocked(self._clock.wall_ns() - began)
                self._is_asking = True
            self._ask_plan(activity)

    @property
    def _may_ask(self) -> bool:
        """True where the plan is to be asked for a batch, by one thread at a time."""
        is_wanted = self._next is None and len(self._batches) < self._pace.depth
        return is_wanted and not self._is_asking

    def _ask_plan(self, activity: Activity) -> None:
        """Take the samples of the next batch. Without the lock: a sampler of the script's own may
        hang, and the consumer could not even say so.
        """
        samples, failed = None, None
        activity.enter(SAMPLER)
        try:
            samples = next(self._plan, None)
        except BaseException as error:  # noqa: BLE001 - the consumer raises it
            failed = _Open.failed(error)
        activity.enter(IDLE)
        with self._lock:
            self._is_asking = False
            self._next = samples
            if samples is None:
                self._end_plan(failed)
            else:
                self._room.notify()  # another may ask for the one behind it

    def _end_plan(self, failed: _Open | None) -> None:
        """No batch comes behind those that were begun, but that one."""
        if failed is not None:
            self._batches.append(failed)
        self._is_planned = True
        self._room.notify_all()
        self._ready.notify()

    def _open_batch(self) -> _Open | None:
        """A batch with rows that nobody has begun; None when there is none, or no room for it."""
        if self._batches and self._batches[-1].next_row < len(self._batches[-1].samples):
            return self._batches[-1]
        samples = self._next
        if samples is None or len(self._batches) >= self._pace.depth:
            return None
        try:
            slot = self._slots.acquire(len(samples))
        except Exception as error:  # noqa: BLE001 - no memory: the consumer's
            self._next = None
            self._end_plan(_Open.failed(error))
            return None
        if slot is None:
            return None
        self._next = None
        batch = _Open(samples, slot)
        self._batches.append(batch)
        if len(samples) > self._chunk:
            self._room.notify_all()
        return batch

    def _finish(self, batch: _Open, rows: slice, error: BaseException | None) -> None:
        with self._lock:
            batch.left -= max(rows.stop - rows.start, 1)
            if error is not None:
                # What is left of a failed batch need not be filled.
                batch.left -= len(batch.samples) - batch.next_row
                batch.next_row = len(batch.samples)
                batch.error = batch.error or error
            if not batch.left and self._batches and batch is self._batches[0]:
                self._ready.notify()

    def _wait_for_progress(self) -> None:
        before = self._marks()
        if not self._ready.wait(self._watchdog_s) and before == self._marks():
            self._is_closed = True
            self._room.notify_all()
            raise self._stuck()

    def _marks(self) -> list[tuple[str, int, int]]:
        return [activity.mark for activity in list(self._activities.values())]

    def _stuck(self) -> LoaderError:
        busy = [one for one in list(self._activities.values()) if one.stage != IDLE]
        if not busy:
            return LoaderError(
                f"no batch came for {self._watchdog_s:g} s, and no thread is at work",
                looked_at=f"{len(self._threads)} threads, {len(self._batches)} batches under way",
                run_next="this should not be: please report it with the output of loader.stats()",
            )
        return standstill(busy, self._watchdog_s)


def _noted(error: BaseException, activity: Activity) -> BaseException:
    """The error as the consumer gets it: a LoaderError, or the StokerError that it is already."""
    if isinstance(error, StokerError) or not isinstance(error, Exception):
        raised: BaseException = error
    else:
        way = "mend or leave out that sample"
        if isinstance(error, OSError) and error.filename is not None:
            way = f"see whether {error.filename} is still there, and can be read"
        raised = LoaderError(
            f"{activity.describe()} failed: {type(error).__name__}: {error}",
            looked_at="the exception above, raised in a loading thread",
            run_next=way,
        )
        raised.__cause__ = error
    raised.add_note(activity.describe())
    return raised
