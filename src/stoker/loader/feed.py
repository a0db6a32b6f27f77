"""`stoker.feed`: batches of any iterable, made and brought to the device beside the loop.

End: StopIteration after the last batch. Failure: what the iterable raised, after the batches
before it. A loop that is left, and an iterator that is forgotten, end the thread; the batches
that were made ahead are lost, as with any prefetching. Standard library only, and so is all that it
imports: the remedies of `stoker run` load ahead through it, inside the script's own process.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from stoker.errors import InputError, LoaderError
from stoker.loader.activity import IDLE, Activity, stack_of, standstill
from stoker.loader.device import Lane, lane_to
from stoker.loader.endings import LoadingThread, check_process, when_gone
from stoker.loader.tally import Tally
from stoker.loader.whole import is_whole
from stoker.spans import SystemClock

# How long a new loop waits for the batch that was being made as the last one was left.
_PATIENCE_S = 120.0


def feed(iterable: Iterable[Any], device: Any = None, *, depth: int = 2) -> Feed:
    """The iterable's batches, made in the background and brought to `device`.

        for batch in stoker.feed(loader, device="cuda"):
            step(batch)

    `device`: None or "cpu" (the batches stay where they are), a CUDA device of torch (pinned
    staging, a stream of its own), or a `stoker.EmulatedAccelerator`. At most `depth` batches are
    on the device ahead of the loop, and one more is being made on the host. Each `iter()` begins
    the iterable anew, once nobody is taking from it any more for a loop that was left. What the
    iterable raises is raised in the loop, where its batch would be.

    Raises InputError for a device that is not there, and a depth that is no whole number from 1 on.
    """
    if not is_whole(depth, 1):
        raise InputError(
            f"depth={depth!r}, and a whole number of batches, at least 1, has to be ahead",
            looked_at="the depth of stoker.feed",
            run_next="depth=2 is enough for any steady loader",
        )
    return Feed(iterable, lane_to(device), depth)


class Feed:
    """An iterable whose batches are made ahead. Made by `stoker.feed`."""

    def __init__(self, iterable: Iterable[Any], lane: Lane, depth: int) -> None:
        self._iterable = iterable
        self._lane = lane
        self._depth = depth
        self._begun: list[_Taking] = []

    def __iter__(self) -> FeedIterator:
        """A pass. Raises InputError where another one takes from an iterator that is its own, and
        LoaderError where a loop was left and the batch that was being made is never there.
        """
        self._begun = [one for one in self._begun if one.is_alive or one.is_running]
        for one in self._begun:
            one.wait_if_left(_PATIENCE_S)
        # Here, not in the thread: what the iterable does first happens where it always did.
        batches = iter(self._iterable)
        if batches is self._iterable and any(one.is_running for one in self._begun):
            raise InputError(
                f"two loops at once over this feed of a {type(batches).__name__}, which can be "
                "gone through once: each would miss the batches that the other takes",
                looked_at="a loop that was begun, and has neither come to its end nor been left",
                run_next="let the first loop end, or close() its iterator; a list or a loader, "
                "which each loop begins anew, can be fed twice at once",
            )
        made = FeedIterator(batches, self._lane, self._depth)
        self._begun.append(made.taking)
        return made

    def __repr__(self) -> str:
        return f"stoker.feed({type(self._iterable).__name__}, depth={self._depth})"

    def __len__(self) -> int:
        return len(self._iterable)  # type: ignore[arg-type]


class FeedIterator:
    """One pass. `close` ends it early; leaving the loop does so too.

    activity: where the lane notes what it is at while it sends. A stage of it that lasts
    `watchdog_s` while the loop waits is a LoaderError there; what `batches` does is not watched.
    """

    def __init__(
        self,
        batches: Iterator[Any],
        lane: Lane,
        depth: int,
        *,
        activity: Activity | None = None,
        watchdog_s: float | None = None,
    ) -> None:
        self._lane = lane
        self._channel = _Channel(depth, activity or Activity(), watchdog_s)
        self._thread = LoadingThread(_produce, "stoker-feed", batches, lane, self._channel)
        self.taking = _Taking(self._thread, self._channel)
        when_gone(self, self._channel.close)
        self._thread.start()

    def __iter__(self) -> FeedIterator:
        return self

    def __next__(self) -> Any:
        check_process(self._channel.process)
        return self._lane.receive(self._channel.get())

    def close(self, patience_s: float | None = None) -> None:
        """End the thread, after the batch that it is making; wait so long for it, or for ever."""
        self._channel.close()
        is_own = os.getpid() == self._channel.process
        if is_own and self._thread is not threading.current_thread():
            self._thread.join(patience_s)

    @property
    def tally(self) -> Tally:
        """Readiness and waiting so far."""
        return self._channel.tally


class _Taking:
    """The thread of a pass, which takes from the iterable also when its iterator is forgotten."""

    def __init__(self, thread: LoadingThread, channel: _Channel) -> None:
        self._thread = thread
        self._channel = channel

    @property
    def is_alive(self) -> bool:
        """True while it may ask for a batch; never in a forked child."""
        return os.getpid() == self._channel.process and self._thread.is_alive()

    @property
    def is_running(self) -> bool:
        """True while the loop has batches to come; never in a forked child."""
        return os.getpid() == self._channel.process and not self._channel.is_over

    def wait_if_left(self, patience_s: float) -> None:
        """Wait for the batch that it is at, where nobody wants any more. LoaderError: in vain."""
        if not self._channel.is_closed or self._thread is threading.current_thread():
            return
        self._thread.join(patience_s)
        if self.is_alive:
            stack = stack_of(self._thread.ident)
            raise LoaderError(
                f"the batch that was being made as the last loop was left is not there after "
                f"{patience_s:g} s, and no other loop can begin before",
                looked_at=f"the thread that takes from the iterable, which hangs in\n{stack}",
                run_next="look at that line; or give each loop an iterable and a feed of its own",
            )


class _Channel:
    """Between one producer and one consumer: at most `depth` batches, then the end."""

    def __init__(self, depth: int, activity: Activity, watchdog_s: float | None) -> None:
        self._depth = depth
        self._activity = activity
        self._watchdog_s = watchdog_s
        self.process = os.getpid()
        self._clock = SystemClock()
        # Reentrant: an iterator may be collected, and close this, while its thread holds the lock.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._items: deque[Any] = deque()
        self._is_closed = False
        self._is_ended = False
        self._error: BaseException | None = None
        self.tally = Tally()

    @property
    def is_closed(self) -> bool:
        """True when the consumer wants no more."""
        return self._is_closed

    @property
    def is_over(self) -> bool:
        """True when the consumer wants no more, or has all that there is."""
        return self._is_closed or (self._is_ended and not self._items)

    def wait_for_room(self) -> bool:
        """Producer: wait until one more batch may be sent; False when nobody wants it."""
        began = self._clock.wall_ns()
        with self._lock:
            while len(self._items) >= self._depth and not self._is_closed:
                self._changed.wait()
            self.tally.blocked(self._clock.wall_ns() - began)
            return not self._is_closed

    def put(self, item: Any) -> None:
        """Producer: hand over a batch for which there is room; one that comes too late is lost."""
        with self._lock:
            if not self._is_closed:
                self._items.append(item)
                self._changed.notify_all()

    def end(self, error: BaseException | None) -> None:
        """Producer: nothing more comes."""
        with self._lock:
            self._is_ended = True
            self._error = error
            self._changed.notify_all()

    def get(self) -> Any:
        """Consumer: the next batch; StopIteration or the producer's exception at the end.

        Raises LoaderError for a standstill.
        """
        began = self._clock.wall_ns()
        with self._lock:
            ready = len(self._items)
            while not self._items and not self._is_ended and not self._is_closed:
                self._wait_for_progress()
            if self._items:
                item = self._items.popleft()
                waited_s = (self._clock.wall_ns() - began) / 1e9
                self.tally.taken(0, waited_s=waited_s, ready=ready, was_ready=ready > 0)
                self._changed.notify_all()
                return item
            error, self._error = self._error, None
        if error is not None:
            try:
                raise error
            finally:
                del error  # as below: no circle of this frame and the traceback
        raise StopIteration

    def _wait_for_progress(self) -> None:
        before = self._activity.mark
        if self._changed.wait(self._watchdog_s) or self._watchdog_s is None:
            return
        if self._activity.stage != IDLE and self._activity.mark == before:
            self._is_closed = True
            raise standstill([self._activity], self._watchdog_s)

    def close(self) -> None:
        """Consumer: no more is wanted."""
        if os.getpid() != self.process:
            return  # forked: the lock may be held by the thread, which did not come along
        with self._lock:
            self._is_closed = True
            self._items.clear()
            self._changed.notify_all()


def _produce(batches: Iterator[Any], lane: Lane, channel: _Channel) -> None:
    """The thread: no reference to the iterator that the loop holds, so that it can be collected."""
    error = None
    try:
        for batch in batches:
            if not channel.wait_for_room():
                break
            channel.put(lane.send(batch))
            del batch  # while the next one is made, this one is the loop's alone
    except BaseException as raised:  # noqa: BLE001 - the loop raises it
        error = raised
    channel.end(error)
    # The traceback holds this frame, and the frame would hold the iterable and its workers.
    del error, batches
