"""One pass: inputs in order to the workers, batches in order to the loop, as many ahead as torch.

End: the last batch, then StopIteration. Failure: the batches before it, then it is raised, then
StopIteration. A pass that is left goes on being heard: what comes of it is dropped.
"""

from __future__ import annotations

import pickle
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from stoker.errors import LoaderError
from stoker.loader.endings import check_process
from stoker.loader.processes.block import Arena
from stoker.loader.processes.board import WAITING
from stoker.loader.processes.carried import Place, get, put
from stoker.loader.processes.failure import Failure
from stoker.loader.processes.pool import Died, Pool, Standstill
from stoker.loader.processes.records import Kind, Record
from stoker.loader.processes.rows import Rows, bytes_of
from stoker.loader.processes.slots import Ring
from stoker.loader.processes.ways import Ways


class _Open:
    """A batch that is being made."""

    __slots__ = ("count", "failure", "is_misfit", "keys", "layout", "left", "made", "place", "slot")

    def __init__(self, keys: Any, count: int, slot: int, place: Place) -> None:
        self.keys = keys
        self.count = count
        self.slot = slot
        self.place = place  # of the inputs
        # Samples that are not made; of a batch of none, the batch.
        self.left = max(count, 1)
        self.layout: Any = None  # when it is made by rows
        self.made: tuple[Place, int] | None = None  # when it was made whole: where, and the end
        self.failure: tuple[int, Failure] | None = None  # and whose
        self.is_misfit = False


class Desk:
    """A pool, its blocks, and the batches that are under way; kept over passes."""

    def __init__(self, pool: Pool, ways: Ways, depth: int, patience_s: float) -> None:
        self.pool = pool
        self.ways = ways
        self.depth = depth
        self._patience_s = patience_s
        # Not a method of this: who forgets the desk ends the workers, at once.
        self.ring = Ring(depth, lambda slot, block: pool.introduce(slot, block, patience_s))
        self._batches: dict[int, _Open] = {}
        self._left: set[int] = set()  # batches that nobody wants any more
        self._next = 0
        self.is_broken = False  # a worker is dead or stuck
        weakref.finalize(self, pool.close)  # when it is forgotten, and before Python ends
        if ways.layout is not None:
            pool.announce(ways.layout, patience_s)

    def begin(self, inputs: Any, keys: Sequence[Any] | None, turn: int) -> int:
        """Send to the workers what a batch is made of; `turn`: its number in the pass.

        `keys`: of its samples, where it is made of samples. Gives the batch's name here.
        """
        while len(self._batches) >= 2 * self.depth and not self.pool.is_closed:
            self.hear(waits=True)  # those of a pass that was left: pipes and memory are bounded
        number, self._next = self._next, self._next + 1
        try:
            slot = self.ring.acquire()
        except Standstill:
            raise self._stuck() from None
        try:
            batch = self._laid(inputs, keys, slot)
        except BaseException:
            self.ring.release(slot)
            raise
        self._batches[number] = batch
        if batch.layout is not None:
            self._order_rows(number, batch)
        else:
            self._order_whole(number, batch, None if self.ways.is_free else turn)
        return number

    def _laid(self, inputs: Any, keys: Sequence[Any] | None, slot: int) -> _Open:
        """A batch whose inputs lie in the slot. Raises what pickling them raises, and OSError."""
        arena = Arena(self.ring[slot])
        count = 1 if keys is None else len(keys)
        batch = _Open(keys, count, slot, put(inputs, arena))
        if self.ways.has_rows and count:
            batch.layout = self.ways.layout
            self.ring[slot].reach(bytes_of(batch.layout, count, arena.end))
        return batch

    def leave(self, number: int) -> None:
        """Nobody wants this batch any more."""
        if number in self._batches:
            self._left.add(number)
            self._drop_finished(number)

    def is_ready(self, number: int) -> bool:
        """True when it is made, or has failed."""
        batch = self._batches[number]
        return batch.failure is not None or (not batch.left and not batch.is_misfit)

    def take(self, number: int) -> Any:
        """A batch that is ready. Raises what making it raised."""
        batch = self._batches[number]
        if batch.failure is not None:
            self.leave(number)
            raise self._raised(batch, *batch.failure)
        del self._batches[number]
        start = batch.place.offset + batch.place.length
        if batch.made is None:
            end = bytes_of(batch.layout, batch.count, start)
            root = self.ring.lend(batch.slot, end)
            return Rows(root, start, batch.layout, batch.count).batch()
        place, end = batch.made
        return get(self.ring.lend(batch.slot, end), place)

    def hear(self, *, waits: bool) -> None:
        """Note what workers have done. Raises LoaderError for death and standstill."""
        try:
            records, failures = self.pool.hear(self._patience_s if waits else 0.0)
        except Died as died:
            self.is_broken = True
            at = self.pool.board.at(died.worker)
            raise LoaderError(
                f"{self.pool.name(died.worker)} {died.how()}",
                looked_at=f"its last place: stage {at.stage!r}{self._sample(at.batch, at.row)}",
                run_next=f"{died.hint()}num_workers=0 (workers=0 of a stoker.Loader) does "
                "the same in the training process",
            ) from None
        except Standstill:
            raise self._stuck() from None
        for record in records:
            self._note(record)
        for worker, failure in failures:
            self._note_failure(worker, failure)

    def close(self) -> None:
        """End the workers; batches that the loop has stay as they are."""
        self.pool.close()
        self.ring.close()

    def _note(self, record: Record) -> None:
        batch = self._batches.get(record.batch)
        if batch is None:
            return
        if record.kind == Kind.WHOLE:
            batch.left = 0
            batch.is_misfit = False
            batch.made = Place(record.offset, record.length), record.first
            self._learn(record, batch)
        else:
            self.ways.noticed(record.extra)
            batch.left -= record.samples
            batch.is_misfit |= record.kind == Kind.MISFIT
            if batch.is_misfit and not batch.left:
                self.ways.misfitted()
                batch.left, batch.layout = batch.count, None
                self._order_whole(record.batch, batch, None)
        self._drop_finished(record.batch)

    def _learn(self, record: Record, batch: _Open) -> None:
        layout = None
        if self.ways.layout is None and record.samples:
            block = self.ring[batch.slot]
            block.reach(record.first)
            layout = pickle.loads(block.memory[record.first - record.samples : record.first].data)
        if self.ways.replied(record.slot, batch.count, record.extra, layout):
            try:
                self.pool.announce(layout, self._patience_s)
            except Standstill:
                raise self._stuck() from None
            except OSError:  # no file for it: batches that are made whole do as well
                self.ways.misfitted()

    def _note_failure(self, worker: int, failure: Failure) -> None:
        batch = self._batches.get(failure.batch)
        if batch is not None:
            batch.left -= failure.samples
            if batch.failure is None or failure.row < batch.failure[1].row:
                batch.failure = worker, failure
            self._drop_finished(failure.batch)

    def _drop_finished(self, number: int) -> None:
        if number in self._left and not self._batches[number].left:
            self._left.discard(number)
            self.ring.release(self._batches.pop(number).slot)

    def _order_whole(self, number: int, batch: _Open, turn: int | None) -> None:
        place = batch.place
        task = Record(
            *(Kind.WHOLE, number, batch.slot, 0, max(batch.count, 1)),
            *(place.offset, place.length, batch.count),
        )
        self.pool.order([task], None if turn is None else turn % self.pool.workers)

    def _order_rows(self, number: int, batch: _Open) -> None:
        place, count = batch.place, batch.count
        step = self.ways.chunk(count, self.depth, self.pool.capacity)
        self.pool.order(
            [
                Record(
                    *(Kind.ROWS, number, batch.slot, first, min(step, count - first)),
                    *(place.offset, place.length, count),
                )
                for first in range(0, count, step)
            ]
        )

    def _raised(self, batch: _Open, worker: int, failure: Failure) -> BaseException:
        key = _key(batch.keys, failure.row)
        return failure.raised(key, self.pool.name(worker))

    def _sample(self, number: int, row: int) -> str:
        batch = self._batches.get(number)
        key = _key(batch.keys, row) if batch is not None else ""
        return f", sample {key}" if key else ""

    def _stuck(self) -> LoaderError:
        self.is_broken = True
        busy = [one for one in enumerate(self.pool.places()) if one[1].stage != WAITING]
        if not busy:
            return LoaderError(
                f"no batch came for {self._patience_s:g} s, and no worker is at work",
                looked_at=f"{self.pool.workers} workers, {len(self._batches)} batches under way",
                run_next="this should not be: please report it",
            )
        worker, longest = max(busy, key=lambda one: one[1].lasted_s)
        where = f"stage {longest.stage!r}{self._sample(longest.batch, longest.row)}"
        error = LoaderError(
            f"no batch came for {self._patience_s:g} s: {where} has taken "
            f"{longest.lasted_s:.1f} s so far",
            looked_at=f"{len(busy)} worker processes at work",
            run_next=f"py-spy dump --pid {self.pool.pids[worker]} shows where it stands; a larger "
            "timeout (watchdog_s of a stoker.Loader) waits longer",
        )
        error.add_note(where)
        return error


class Pass:
    """The batches of one pass."""

    def __init__(self, desk: Desk, inputs: Iterator[Any], *, has_keys: bool = True) -> None:
        self.desk = desk
        self._inputs: Iterator[Any] | None = inputs
        self._has_keys = has_keys  # each input is a list with a key for each sample
        self.begun = 0  # batches
        self.is_cut = False  # batches that it gave were lost on their way to the loop
        self.under_way: deque[int] = deque()
        self._failed: Exception | None = None  # the sampler, or sending: raised in its place

    @property
    def is_at_rest(self) -> bool:
        """True while no worker has anything to do for it."""
        try:
            self.desk.hear(waits=False)
        except LoaderError:  # told in its place, to whoever takes the next batch
            return True
        return all(self.desk.is_ready(number) for number in self.under_way)

    def __iter__(self) -> Pass:
        return self

    def __next__(self) -> Any:
        desk = self.desk
        check_process(desk.pool.process)
        if desk.pool.is_closed:
            raise self._cut()
        self.send()
        if not self.under_way:
            self._end()
        is_first = True
        try:
            while not desk.pool.is_closed:
                if desk.is_ready(self.under_way[0]):
                    batch = desk.take(self.under_way.popleft())
                    self.send()
                    return batch
                desk.hear(waits=not is_first)
                is_first = False
        except BaseException as error:
            if isinstance(error, Exception):
                self.leave()
            raise
        raise self._cut()

    def send(self) -> None:
        """Let as many batches be under way as are allowed."""
        while len(self.under_way) < self.desk.depth and self._inputs is not None:
            try:
                inputs = next(self._inputs, None)
                if inputs is None:
                    self._inputs = None
                    return
                keys = inputs if self._has_keys else None
                self.under_way.append(self.desk.begin(inputs, keys, self.begun))
            except Exception as error:  # noqa: BLE001 - after the batches that are under way
                self._failed, self._inputs = error, None
                return
            self.begun += 1

    def leave(self) -> None:
        """End the pass; what is under way for it is dropped as it comes."""
        self._inputs = None  # and with it whatever it reads from
        self._failed = None
        while self.under_way:
            self.desk.leave(self.under_way.popleft())

    def _cut(self) -> Exception:
        """The workers are ended: that is the end of a pass only where nothing was to come."""
        is_over = self._inputs is None and not self.under_way and self._failed is None
        is_cut, self.is_cut = self.is_cut or not is_over, False
        self.leave()
        if not is_cut:
            return StopIteration()
        return LoaderError(
            "the worker processes were ended before the last batch of this pass",
            looked_at="a pass that was asked for one more batch",
            run_next="call iter() anew; end workers, as by _shutdown_workers, after the loop",
        )

    def _end(self) -> NoReturn:
        error, self._failed = self._failed, None
        if error is not None:
            raise error
        raise StopIteration


def _key(keys: Any, row: int) -> str:
    """A sample of a batch, for people; empty where there is none."""
    if not isinstance(keys, list | tuple) or not 0 <= row < len(keys):
        return ""
    return f"{keys[row]!r:.80}"
