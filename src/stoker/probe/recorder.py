"""Keeps what each stage of a batch costs: exclusive wall and thread-CPU time, by a stack a thread.

A stage's time is without that of the stages it calls, so the stages of a batch sum to its fetch.
Standard library only; assigns to nothing but itself.
"""

from __future__ import annotations

import itertools
import operator
import random
import threading
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, Literal

from stoker import clocks
from stoker.probe.decoded import Tally
from stoker.probe.delivered import delivered
from stoker.probe.hooks.calls import Decodes
from stoker.probe.kernel_counts import BytesRead, RunQueue
from stoker.spans import Clock, SystemClock

Where = Literal["worker", "main"]
Sink = Callable[[dict[str, Any]], object]

# A timed call costs 2 to 3 µs. A stage that is called more often than this a sample takes 2 ms of
# it and more, and its own calls are too short to be told from the timing.
MOST_CALLS_A_SAMPLE = 1_000
# But for calls that take so long that timing is 3 % of them: frames of a long video, for one.
_LONG_CALL_NS = 100_000
# Sample records kept of one worker: enough for a trend against size or index, 130 kB of JSON.
_RESERVOIR = 2_000
# And of one batch: writing one down takes 6 µs, and the next batch has others.
_RECORDS_A_BATCH = 4
# Calls timed to learn what one costs: in less than a millisecond.
_COST_CALLS = 256
_LONGEST_INDEX = 80
# An open stage: wall and CPU of the stages in it. That of a data set's `__getitem__` has a mark.
_STAGE = [0, 0]
_SAMPLE = [0, 0, 0]


class _State:
    """What one thread is doing: its open stages, its sums, its open sample."""

    __slots__ = (
        *("bytes_read", "ceiling", "decoded", "ended_ns", "file", "has_sample", "offered", "queue"),
        *("samples", "slowest", "stack", "sums"),
    )

    def __init__(self) -> None:
        self.stack: list[list[int]] = []  # open stages
        self.sums: dict[str, list[int]] = {}  # stage -> calls, wall, CPU
        self.ceiling = MOST_CALLS_A_SAMPLE
        self.has_sample = False
        self.file: tuple[str, int | None] | None = None  # the first one the sample opened
        self.samples: list[list[Any]] = []
        self.offered = 0  # samples of this batch that could have been kept
        self.slowest: list[Any] | None = None
        self.ended_ns: int | None = None
        self.queue: RunQueue | None = None
        self.bytes_read: BytesRead | None = None
        self.decoded = Tally()


class _Thread(threading.local):
    """One look-up by thread a call; the rest are plain attributes, which are faster."""

    def __init__(self) -> None:
        self.state = _State()


class StageRecorder:
    """Times stages of one process and gives a record of each batch to `sink`.

    Counts only what happens inside a fetch. In a worker, stages in other threads (the pickling of
    finished batches, a data set's own threads) are kept aside: they run beside the fetch.
    """

    def __init__(self, sink: Sink, *, where: Where, clock: Clock | None = None) -> None:
        self.where = where
        self._sink = sink
        clock = clock or SystemClock()
        self._wall_ns, self._cpu_ns = clock.wall_ns, clock.cpu_ns
        self._thread = _Thread()
        self._home = threading.get_ident()
        self._off: set[str] = set()
        self._on_off: Callable[[str], None] = lambda _: None
        self._notes: list[str] = []
        self._aside: dict[str, list[int]] = {}
        self._aside_lock = threading.Lock()
        self._seen = 0  # samples
        self._random = random.Random(0)  # its own: the script's sequence must not move
        self._process_ns = clocks.process_ns()
        self._cost_ns = 0

    # -- timing ------------------------------------------------------------------------------------

    def timed(
        self, stage: str, function: Callable[..., Any], *, makes_samples: bool = False
    ) -> Callable[..., Any]:
        """The function, timed as a stage; outside a fetch it is only passed through."""
        opened = _SAMPLE if makes_samples else _STAGE
        thread, off = self._thread, self._off
        wall_ns, cpu_ns = self._wall_ns, self._cpu_ns
        beside, too_often = self._beside, self._too_often

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            state = thread.state
            stack = state.stack
            if not stack or stage in off:
                return beside(stage, function, args, kwargs)
            inside = opened.copy()
            stack.append(inside)
            # The same order on both sides: the reading of one clock lies in both times alike.
            cpu = cpu_ns()
            wall = wall_ns()
            try:
                return function(*args, **kwargs)
            finally:
                cpu = cpu_ns() - cpu
                wall = wall_ns() - wall
                stack.pop()
                outer = stack[-1]
                outer[0] += wall
                outer[1] += cpu
                try:
                    sums = state.sums[stage]
                except KeyError:
                    sums = state.sums[stage] = [0, 0, 0]
                sums[0] += 1
                sums[1] += wall - inside[0]
                sums[2] += cpu - inside[1]
                if sums[0] > state.ceiling:
                    too_often(stage)

        call.__stoker_timed__ = True  # type: ignore[attr-defined]
        return call

    def timed_sample(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same for a function (holder, index) or (iterator) that makes one sample.

        The outermost call inside a fetch is the sample and leaves a record.
        """
        thread = self._thread
        timed = self.timed(stage, function, makes_samples=True)

        @wraps(function)
        def call(holder: Any, *index: Any) -> Any:
            state = thread.state
            if state.has_sample or not state.stack:
                return timed(holder, *index)
            outer = state.stack[-1]
            wall, cpu, *_ = outer
            before = [sums[1] for sums in state.sums.values()]
            pixels = state.decoded.pixels
            state.has_sample, state.file = True, None
            try:
                made = timed(holder, *index)
            finally:
                state.has_sample = False
            # What the call has added to the stage around it is its whole time.
            spent = outer[0] - wall, outer[1] - cpu
            pixels = state.decoded.pixels - pixels
            self._keep_sample(state, index[0] if index else None, spent, before, pixels or None)
            return made

        call.__stoker_timed__ = True  # type: ignore[attr-defined]
        return call

    def timed_direct(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Timed only where a data set's `__getitem__` itself calls it.

        Deeper down it is a part of the stage that calls it: which method the time goes to says
        more than which helper does the work for all of them.
        """
        thread = self._thread
        timed = self.timed(stage, function)

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            stack = thread.state.stack
            if stack and len(stack[-1]) == len(_SAMPLE):
                return timed(*args, **kwargs)
            return function(*args, **kwargs)

        call.__stoker_timed__ = True  # type: ignore[attr-defined]
        return call

    def counted(
        self, stage: str, function: Callable[..., Any], decodes: Decodes
    ) -> Callable[..., Any]:
        """The function; what its calls decode within a fetch is counted, and told of the stage.

        What such a call itself calls is a part of it, and is not counted again.
        """
        thread = self._thread
        is_due = decodes.is_due

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            state = thread.state
            tally = state.decoded
            if not state.stack or tally.is_open or (is_due is not None and not is_due(args)):
                return function(*args, **kwargs)
            tally.is_open = True
            try:
                made = function(*args, **kwargs)
            finally:
                tally.is_open = False
            tally.add(stage, decodes, args, made)
            return made

        call.__stoker_timed__ = True  # type: ignore[attr-defined]
        return call

    def fetch(self, function: Callable[..., Any], arguments: tuple[Any, ...], samples: int) -> Any:
        """Run a fetch of a batch, and give its record to the sink."""
        state = self._thread.state
        if state.stack:  # a loader inside a loader: one batch of the outer one
            return function(*arguments)
        state.ceiling = MOST_CALLS_A_SAMPLE * max(1, samples)
        if state.queue is None or state.bytes_read is None:
            state.queue, state.bytes_read = RunQueue(), BytesRead()
        waited = state.queue.waited_ns()
        # Of the whole process: some libraries read with threads of their own.
        read = state.bytes_read.now()
        state.stack.append(_STAGE.copy())
        cpu, began = self._cpu_ns(), self._wall_ns()
        has_batch = False
        try:
            batch = function(*arguments)
            has_batch = True
            return batch
        finally:
            cpu, ended = self._cpu_ns() - cpu, self._wall_ns()
            inside = state.stack.pop()
            wall = ended - began
            read_bytes = state.bytes_read.since(read)
            state.sums["fetch"] = [1, wall - inside[0], cpu - inside[1]]
            record = self.flush()
            if has_batch:
                gap = None if state.ended_ns is None else began - state.ended_ns
                now_waited = state.queue.waited_ns()
                if "decoded" in record:
                    record["delivered"] = delivered(batch, samples)
                record |= {
                    "samples": samples,
                    "wall_ns": wall,
                    "cpu_ns": cpu,
                    "runqueue_ns": _difference(now_waited, waited),
                    "read_bytes": read_bytes,
                    "gap_ns": gap,
                    "process_cpu_ns": self._process_cpu_ns(),
                }
                self._give(record)
                state.ended_ns = self._wall_ns()

    def flush(self) -> dict[str, Any]:
        """What this thread has summed up since the last flush, and forget it.

        `stages`: name -> [calls, exclusive wall ns, exclusive CPU ns]; `aside`: the same of other
        threads; `records`: [slot, index, wall ns, CPU ns, path, bytes, stage that took the most] of
        single samples, with the pixels decoded for it, where a slot from 0 on replaces what it held
        before, and slot -1 is the batch's slowest sample; `own_ns`: what timing itself took;
        `decoded`, from the first time that something was: see `Tally.take`.
        """
        state = self._thread.state
        stages, state.sums = state.sums, {}
        samples, state.samples, state.offered = state.samples, [], 0
        slowest, state.slowest = state.slowest, None
        with self._aside_lock:
            aside, self._aside = self._aside, {}
        notes, self._notes = self._notes, []
        calls = sum(sums[0] for sums in stages.values())
        record: dict[str, Any] = {
            "where": self.where,
            "stages": stages,
            "records": samples if slowest is None else [*samples, slowest],
            "own_ns": calls * self._cost_ns,
        }
        decoded = state.decoded.take()
        if state.decoded.has_counted:
            record["decoded"] = decoded
        if aside:
            record["aside"] = aside
        if notes:
            record["notes"] = notes
        return record

    # -- what hooks say beside --------------------------------------------------------------------

    def note_file(self, path: str, size: int | None) -> None:
        """A file was opened; the first one of a sample goes into its record, by its full path."""
        state = self._thread.state
        if state.has_sample and state.file is None:
            state.file = (path if path.startswith("/") else str(Path.cwd() / path), size)

    @property
    def is_inside(self) -> bool:
        """True within a fetch of the calling state."""
        return bool(self._thread.state.stack)

    def note(self, text: str) -> None:
        """Say something with the next record."""
        self._notes.append(text)

    def give_notes(self) -> None:
        """Give out what was said so far: without a fetcher no batch will ever take it along."""
        if self._notes:
            self._give(self.flush())

    def on_off(self, callback: Callable[[str], None]) -> None:
        """Call back with a stage that is no longer timed."""
        self._on_off = callback

    def learn_cost(self) -> None:
        """Measure what timing one call takes here."""
        state = self._thread.state
        timed = self.timed("", lambda: None)
        state.stack.append(_STAGE.copy())
        began = clocks.wall_ns()
        for _ in range(_COST_CALLS):
            timed()
        self._cost_ns = (clocks.wall_ns() - began) // _COST_CALLS
        state.stack.pop()
        state.sums.clear()

    # -- within ------------------------------------------------------------------------------------

    def _beside(
        self, stage: str, function: Callable[..., Any], args: Any, kwargs: dict[str, Any]
    ) -> Any:
        """A call outside of a fetch, or of a stage that is off."""
        state = self._thread.state
        is_aside = (
            self.where == "worker"
            and not state.stack
            and stage not in self._off
            and threading.get_ident() != self._home
        )
        if not is_aside:
            return function(*args, **kwargs)
        state.stack.append(_STAGE.copy())
        try:
            return self.timed(stage, function)(*args, **kwargs)
        finally:
            state.stack.pop()
            with self._aside_lock:
                for name, sums in state.sums.items():
                    total = self._aside.setdefault(name, [0, 0, 0])
                    total[:] = map(operator.add, total, sums)
            state.sums.clear()

    def _too_often(self, stage: str) -> None:
        calls, wall, _ = self._thread.state.sums[stage]
        if stage in self._off or wall >= calls * _LONG_CALL_NS:
            return
        self._off.add(stage)
        self.note(
            f"{stage}: called more than {MOST_CALLS_A_SAMPLE:,} times a sample, no longer timed; "
            f"its time counts with the stage that calls it"
        )
        self._on_off(stage)

    def _keep_sample(
        self,
        state: _State,
        index: Any,
        spent: tuple[int, int],
        before: list[int],
        pixels: int | None,
    ) -> None:
        """Reservoir sampling, so that what was written so far is always a fair choice.

        `spent`: wall and CPU ns; `before`: the stages' wall ns when the sample began; `pixels`:
        decoded for it.
        """
        wall, cpu = spent
        is_slowest = state.slowest is None or wall > state.slowest[2]
        if state.offered < _RECORDS_A_BATCH:
            state.offered += 1
            slot = self._seen if self._seen < _RESERVOIR else self._random.randrange(self._seen + 1)
            self._seen += 1
        else:
            slot = _RESERVOIR
        if slot >= _RESERVOIR and not is_slowest:
            return
        path, size = state.file or (None, None)
        stage = _dearest(state.sums, before)
        record = [slot, _plain_index(index), wall, cpu, path, size, stage, pixels]
        if slot < _RESERVOIR:
            state.samples.append(record)
        if is_slowest:
            state.slowest = [-1, *record[1:]]

    def _process_cpu_ns(self) -> int:
        """CPU of all threads of the process since the last batch."""
        before, self._process_ns = self._process_ns, clocks.process_ns()
        return self._process_ns - before

    def _give(self, record: dict[str, Any]) -> None:
        try:
            self._sink(record)
        except OSError:
            self._sink = lambda _: None  # a full disk must not end the user's run


def _dearest(sums: dict[str, list[int]], before: list[int]) -> str | None:
    """The stage that took the most since then; those that are new come last in the sums."""
    earlier = itertools.chain(before, itertools.repeat(0))
    spent = [(total[1] - was, name) for (name, total), was in zip(sums.items(), earlier)]  # noqa: B905 - endless
    return max(spent)[1] if spent else None


def _difference(after: int | None, before: int | None) -> int | None:
    return None if after is None or before is None else after - before


def _plain_index(index: Any) -> int | str | None:
    """An index that JSON can hold."""
    if index is None:
        return None
    try:
        return operator.index(index)
    except TypeError:
        return str(index)[:_LONGEST_INDEX]
