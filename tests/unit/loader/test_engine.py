"""The engine: batches in order and whole, failures in their place, no thread left, no hang."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator
from itertools import chain

import numpy as np
import pytest

from stoker.errors import CorruptShardError, LoaderError
from stoker.loader.activity import Activity
from stoker.loader.engine import Engine, Fill
from stoker.loader.order import Indices
from stoker.loader.pace import Limits, Pace
from stoker.loader.slots import LENT, Field, Fields, Slots

PATIENCE_S = 5.0
LAYOUT = (Field.of("index", (), np.int64),)


def copy_index(samples: Indices, out: Fields, activity: Activity) -> None:
    activity.enter("read", int(samples[0]))
    out["index"][:] = samples


def plan(count: int, size: int) -> Iterator[Indices]:
    return iter([np.arange(start, min(start + size, count)) for start in range(0, count, size)])


Make = Callable[..., Engine]


@pytest.fixture
def make() -> Iterator[Make]:
    engines = []

    def made(
        fill: Fill = copy_index,
        *,
        count: int = 40,
        size: int = 8,
        threads: int = 2,
        depth: int = 3,
        chunk: int = 3,
        watchdog_s: float = PATIENCE_S,
    ) -> Engine:
        engines.append(
            Engine(
                plan(count, size),
                fill,
                Slots(LAYOUT, size, limit=depth + LENT),
                pace=Pace(Limits(threads, threads, depth, depth)),
                chunk=chunk,
                watchdog_s=watchdog_s,
            )
        )
        return engines[-1]

    yield made
    for engine in engines:
        engine.close()


def taken(engine: Engine) -> list[list[int]]:
    batches = []
    while True:
        try:
            batches.append(next(engine).fields["index"].tolist())
        except StopIteration:
            return batches


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("chunk", [1, 3, 100])
def test_batches_come_whole_and_in_order(make: Make, threads: int, chunk: int) -> None:
    batches = taken(make(count=44, size=8, threads=threads, chunk=chunk))
    assert [len(batch) for batch in batches] == [8, 8, 8, 8, 8, 4]
    assert list(chain(*batches)) == list(range(44))


def test_no_batches_are_an_end_at_once(make: Make) -> None:
    assert taken(make(count=0)) == []


def test_a_batch_of_no_rows_is_delivered_in_its_place(make: Make) -> None:
    empty = np.empty(0, np.int64)
    engine = Engine(
        iter([empty, np.arange(4), empty]),
        lambda samples, out, activity: None,
        Slots(LAYOUT, 4, limit=5),
        pace=Pace(Limits(2, 2, 3, 3)),
        chunk=2,
        watchdog_s=PATIENCE_S,
        complete=lambda fields, activity: len(fields["index"]),
    )
    assert [filled.made for filled in engine] == [0, 4, 0]
    engine.close()
    assert engine.hand_back() is not None


def test_a_slow_sample_holds_its_chunk_and_no_other(make: Make) -> None:
    others, go_on = threading.Semaphore(0), threading.Event()

    def fill(samples: Indices, out: Fields, activity: Activity) -> None:
        if 0 in samples:
            assert go_on.wait(PATIENCE_S)
        out["index"][:] = samples
        others.release()

    engine = make(fill, count=24, size=8, chunk=2, depth=3)
    for _ in range(11):  # all twelve chunks of three batches but the slow one
        assert others.acquire(timeout=PATIENCE_S)
    go_on.set()
    assert list(chain(*taken(engine))) == list(range(24))


def test_threads_are_at_rest_when_all_that_may_be_made_ahead_is_made(make: Make) -> None:
    go_on = threading.Event()

    def fill(samples: Indices, out: Fields, activity: Activity) -> None:
        go_on.wait(PATIENCE_S)
        copy_index(samples, out, activity)

    def comes_to_rest() -> bool:
        end = time.monotonic() + PATIENCE_S
        while not engine.is_at_rest and time.monotonic() < end:
            time.sleep(0.001)
        return engine.is_at_rest

    engine = make(fill, count=40, size=8, depth=3)
    assert not engine.is_at_rest
    go_on.set()
    assert comes_to_rest()
    go_on.clear()
    next(engine)
    assert not engine.is_at_rest, "there is room for one more"
    go_on.set()
    assert comes_to_rest()
    ids = {thread.native_id for thread in threading.enumerate()}
    assert len(engine.thread_ids) == 2 and set(engine.thread_ids) <= ids
    assert len(taken(engine)) == 4
    assert engine.is_at_rest


def test_a_failure_comes_after_the_batches_before_it_and_names_stage_sample_and_file(
    make: Make,
) -> None:
    def fill(samples: Indices, out: Fields, activity: Activity) -> None:
        for row, sample in enumerate(samples.tolist()):
            activity.enter("decode", sample, f"{sample}.jpg")
            if sample == 19:
                raise ValueError("not a JPEG")
            out["index"][row] = sample

    engine = make(fill, count=40, size=8)
    assert [next(engine).samples[0] for _ in range(2)] == [0, 8]
    with pytest.raises(
        LoaderError, match=r"'decode', sample 19 \(19\.jpg\) failed: ValueError"
    ) as e:
        next(engine)
    assert isinstance(e.value.__cause__, ValueError)
    assert "stage 'decode', sample 19 (19.jpg)" in e.value.__notes__
    with pytest.raises(StopIteration):
        next(engine)


def test_a_plan_that_fails_is_raised_after_the_batches_before_it() -> None:
    def failing() -> Iterator[Indices]:
        yield np.arange(4)
        raise IndexError("a sampler's own mistake")

    engine = Engine(
        failing(),
        copy_index,
        Slots(LAYOUT, 4, limit=4),
        pace=Pace(Limits(2, 2, 3, 3)),
        chunk=2,
        watchdog_s=PATIENCE_S,
    )
    assert next(engine).samples.tolist() == [0, 1, 2, 3]
    with pytest.raises(IndexError, match="own mistake"):
        next(engine)
    engine.close()
    assert engine.hand_back() is not None


def test_an_error_of_the_pack_stays_what_it_is(make: Make) -> None:
    def fill(samples: Indices, out: Fields, activity: Activity) -> None:
        activity.enter("read", int(samples[0]))
        raise CorruptShardError("shard 3, block 7")

    with pytest.raises(CorruptShardError, match="shard 3, block 7"):
        next(make(fill))


def test_a_loop_that_stops_leaves_depth_batches_made_and_no_more(make: Make) -> None:
    filled = threading.Semaphore(0)

    def fill(samples: Indices, out: Fields, activity: Activity) -> None:
        out["index"][:] = samples
        filled.release()

    engine = make(fill, count=800, size=8, chunk=8, depth=3)
    for _ in range(3):
        assert filled.acquire(timeout=PATIENCE_S)
    assert not filled.acquire(timeout=0.02)
    next(engine)
    assert filled.acquire(timeout=PATIENCE_S)
    assert not filled.acquire(timeout=0.02)


def test_a_stuck_sample_is_named_with_the_line_that_it_hangs_in(make: Make) -> None:
    release = threading.Event()

    def fill(samples: Indices, out: Fields, activity: Activity) -> None:
        activity.enter("read", int(samples[0]), "stalled/file.jpg")
        hang_here(release)

    def hang_here(event: threading.Event) -> None:
        event.wait(PATIENCE_S)

    engine = make(fill, watchdog_s=0.05)
    with pytest.raises(LoaderError) as stuck:
        next(engine)
    release.set()
    assert "sample 0 (stalled/file.jpg)" in str(stuck.value)
    assert "hang_here" in str(stuck.value)


def test_a_plan_that_hangs_is_named_and_holds_neither_the_loop_nor_the_end() -> None:
    goes_on = threading.Event()

    def hanging() -> Iterator[Indices]:
        yield np.arange(4)
        goes_on.wait(PATIENCE_S)
        yield np.arange(4, 8)

    engine = Engine(
        hanging(),
        copy_index,
        Slots(LAYOUT, 4, limit=4),
        pace=Pace(Limits(2, 2, 3, 3)),
        chunk=2,
        watchdog_s=0.05,
    )
    assert next(engine).samples.tolist() == [0, 1, 2, 3]
    assert not engine.is_at_rest
    with pytest.raises(LoaderError, match=r"for 0\.05 s: stage 'sampler' has taken") as stuck:
        next(engine)
    assert "goes_on.wait" in stuck.value.looked_at
    with pytest.raises(StopIteration):
        next(engine)
    goes_on.set()
    engine.close()
    assert engine.hand_back() is not None


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_a_plan_is_asked_by_one_thread_at_a_time_and_no_more_than_there_is_room_for(
    threads: int,
) -> None:
    asked, is_busy = [0], threading.Lock()

    def counted() -> Iterator[Indices]:
        for start in range(0, 400, 4):
            assert is_busy.acquire(blocking=False)
            asked[0] += 1
            is_busy.release()
            yield np.arange(start, start + 4)

    engine = Engine(
        counted(),
        copy_index,
        Slots(LAYOUT, 4, limit=3 + LENT),
        pace=Pace(Limits(threads, threads, 3, 3)),
        chunk=2,
        watchdog_s=PATIENCE_S,
    )
    for number in range(100):
        assert next(engine).samples.tolist() == list(range(4 * number, 4 * number + 4))
        assert asked[0] <= number + 4
    assert taken(engine) == []
    engine.close()


def test_slow_progress_is_not_taken_for_a_standstill(make: Make) -> None:
    step = threading.Semaphore(0)

    def fill(samples: Indices, out: Fields, activity: Activity) -> None:
        for row, sample in enumerate(samples.tolist()):
            activity.enter("read", sample)
            step.acquire(timeout=0.03)  # together longer than the watchdog's time
            out["index"][row] = sample

    assert len(taken(make(fill, count=8, size=8, threads=1, chunk=8, watchdog_s=0.1))) == 1


def test_close_ends_the_threads_also_in_the_middle(make: Make) -> None:
    engine = make(count=8000)
    next(engine)
    engine.close()
    gc.collect()
    assert not [t for t in threading.enumerate() if t.name.startswith("stoker-loader")]
    with pytest.raises(StopIteration):
        next(engine)


def test_batches_that_the_caller_keeps_stay_as_they_were(make: Make) -> None:
    engine = make(count=800, size=8, depth=2)
    kept = [next(engine) for _ in range(100)]
    for batch in kept:
        assert np.array_equal(batch.fields["index"], batch.samples)


def test_what_was_done_is_counted(make: Make) -> None:
    engine = make(count=40, size=8)
    taken(engine)
    assert (engine.tally.batches, engine.tally.samples) == (5, 40)
    assert 0 <= engine.tally.ready_share <= 1
    assert engine.stages()["read"] > 0


class TakenBack(Pace):
    """Two threads until some batches were taken, then one."""

    def __init__(self, after: int) -> None:
        super().__init__(Limits(2, 2, 1, 1))
        self._left = after

    def observe(self, samples: int, *, period_s: float, waited_s: float, blocked_s: float) -> bool:
        self._left -= 1
        self.threads = 2 if self._left > 0 else 1
        return self._left == 0


# Which of the two waits in front is chance, and changes from batch to batch.
@pytest.mark.parametrize("after", [1, 2] * 4)
def test_a_thread_that_is_taken_back_passes_its_wake_up_on(after: int) -> None:
    slots = Slots(LAYOUT, 8, limit=1 + LENT)
    engine = Engine(plan(80, 8), copy_index, slots, pace=TakenBack(after), chunk=8, watchdog_s=1.0)
    batches = []
    for _ in range(10):
        end = time.monotonic() + PATIENCE_S
        while len(engine._room._waiters) < engine.threads and time.monotonic() < end:  # type: ignore[attr-defined]
            time.sleep(0.001)
        batches.append(next(engine).fields["index"].tolist())
    assert list(chain(*batches)) == list(range(80))
    engine.close()


def test_a_batch_that_fails_gives_its_block_back() -> None:
    slots = Slots(LAYOUT, 8, limit=1 + LENT)

    def fill(samples: Indices, out: Fields, activity: Activity) -> None:
        raise ValueError("no picture")

    for _ in range(2 * LENT):
        engine = Engine(
            plan(80, 8),
            fill,
            slots,
            pace=Pace(Limits(2, 2, 1, 1)),
            chunk=3,
            watchdog_s=1.0,
        )
        with pytest.raises(LoaderError, match="no picture"):
            next(engine)
        engine.close()
        assert engine.hand_back() is slots
    free = [slots.acquire(8) for _ in range(1 + LENT)]
    assert None not in free and slots.acquire(8) is None
