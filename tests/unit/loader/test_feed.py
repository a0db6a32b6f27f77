"""stoker.feed: the same batches in the same order, ahead of the loop, and a clean end to it."""

from __future__ import annotations

import gc
import threading
from collections import namedtuple
from collections.abc import Iterator

import numpy as np
import pytest
import torch

import stoker
from stoker.containers import leaves, mapped
from stoker.errors import InputError, LoaderError
from stoker.loader import feed as feeding
from stoker.loader.activity import IDLE, Activity
from stoker.loader.batch import Batch
from stoker.loader.feed import FeedIterator

PATIENCE_S = 5.0  # of a test that would hang else


def feeding_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "stoker-feed"]


def emulated() -> stoker.EmulatedAccelerator:
    return stoker.EmulatedAccelerator(0.0, link_bytes_per_s=1e9)


@pytest.fixture(params=["host", "emulated"])
def device(request: pytest.FixtureRequest) -> object:
    return None if request.param == "host" else emulated()


def test_the_batches_come_in_order_and_the_end_is_the_end(device: object) -> None:
    fed = stoker.feed([np.full(4, i) for i in range(20)], device)
    assert len(fed) == 20
    for _ in range(2):  # each pass begins anew
        passes = iter(fed)
        assert [int(batch[0]) for batch in passes] == list(range(20))
        with pytest.raises(StopIteration):
            next(passes)


def test_a_feed_shows_what_it_feeds() -> None:
    assert repr(stoker.feed([1, 2, 3], depth=4)) == "stoker.feed(list, depth=4)"


def test_an_exception_comes_where_its_batch_would_have_been(device: object) -> None:
    def batches() -> Iterator[np.ndarray]:
        yield np.zeros(1)
        yield np.ones(1)
        raise ZeroDivisionError("in the loader")

    seen = []
    with pytest.raises(ZeroDivisionError, match="in the loader"):
        seen.extend(float(batch[0]) for batch in stoker.feed(batches(), device, depth=5))
    assert seen == [0.0, 1.0]


def test_what_goes_wrong_at_the_start_is_raised_at_the_start(device: object) -> None:
    class Refusing:
        def __iter__(self) -> Iterator[int]:
            raise LookupError("no files")

    with pytest.raises(LookupError, match="no files"):
        iter(stoker.feed(Refusing(), device))


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_no_more_than_depth_batches_are_sent_ahead_of_the_loop(depth: int) -> None:
    made, sent = [], []
    one_made = threading.Semaphore(0)

    class Link:
        def send(self, batch: int) -> int:
            sent.append(batch)
            return batch

        def receive(self, batch: int) -> int:
            return batch

    def batches() -> Iterator[int]:
        for number in range(50):
            made.append(number)
            one_made.release()
            yield number

    passes = FeedIterator(batches(), Link(), depth)
    for _ in range(depth + 1):  # so many, and the next one lies ready on the host
        assert one_made.acquire(timeout=PATIENCE_S)
    assert not one_made.acquire(timeout=0.02)
    assert sent == list(range(depth)) and len(made) == depth + 1
    for number in range(20):
        assert next(passes) == number
        assert len(sent) - (number + 1) <= depth
    passes.close()


def test_a_loop_that_is_left_ends_the_thread() -> None:
    for number in stoker.feed(iter(range(1000))):
        if number == 3:
            break
    gc.collect()
    for thread in feeding_threads():
        thread.join(PATIENCE_S)
    assert feeding_threads() == []


def test_an_iterator_that_nobody_took_from_ends_its_thread() -> None:
    iterator = iter(stoker.feed(iter(range(1000))))
    del iterator
    gc.collect()
    for thread in feeding_threads():
        thread.join(PATIENCE_S)
    assert feeding_threads() == []


def test_a_generator_that_is_left_runs_its_last_lines() -> None:
    ended = threading.Event()

    def batches() -> Iterator[int]:
        try:
            yield from range(100)
        finally:
            ended.set()

    iterator = iter(stoker.feed(batches()))
    assert next(iterator) == 0
    iterator.close()
    assert ended.wait(PATIENCE_S)


def test_after_close_there_is_nothing() -> None:
    iterator = iter(stoker.feed([1, 2, 3]))
    iterator.close()
    iterator.close()
    with pytest.raises(StopIteration):
        next(iterator)


def test_an_iterator_in_a_cycle_is_collected_too() -> None:
    iterator = iter(stoker.feed(iter(range(1000))))
    holder = {"iterator": iterator}
    holder["self"] = holder
    del iterator, holder
    gc.collect()
    for thread in feeding_threads():
        thread.join(PATIENCE_S)
    assert feeding_threads() == []


def test_batches_of_any_structure_reach_an_emulated_device_and_keep_their_kind() -> None:
    Pair = namedtuple("Pair", "x y")
    batches = [
        {"image": np.zeros(8), "name": ["a", "b"]},
        Pair(torch.zeros(2), 3),
        [torch.ones(1), (np.ones(2), None)],
        Batch(image=np.zeros(3)),
    ]
    kinds = [type(batch) for batch in stoker.feed(batches, emulated())]
    assert kinds == [dict, Pair, list, Batch]


def test_the_step_waits_for_the_bytes_and_the_loop_does_not() -> None:
    # A link of 10 MB/s: 1 MB is there after 100 ms, while handing it over takes no time.
    slow = stoker.EmulatedAccelerator(0.001, link_bytes_per_s=10e6)
    batch = next(iter(stoker.feed([np.zeros(1_000_000, np.uint8)], slow)))
    handle = slow.step(batch)
    handle.item()
    assert slow.busy_s == pytest.approx(0.001)
    slow.step(batch).item()  # it is there: no second copy
    assert slow.idle_s < 0.05


def test_a_device_that_is_not_there_is_refused() -> None:
    with pytest.raises(InputError, match="tpu"):
        stoker.feed([1], "tpu:0")
    if not torch.cuda.is_available():
        with pytest.raises(InputError, match="sees 0 CUDA devices"):
            stoker.feed([1], "cuda")
    for depth in (0, 1.5, "2"):
        with pytest.raises(InputError, match=f"depth={depth!r}"):
            stoker.feed([1], depth=depth)  # type: ignore[arg-type]


def test_a_torch_dataloader_with_workers_gives_the_same_numbers_through_feed() -> None:
    data = torch.utils.data.TensorDataset(torch.arange(64.0))
    loader = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True, num_workers=1)
    torch.manual_seed(1)
    plain = [batch[0].tolist() for batch in loader]
    torch.manual_seed(1)
    assert [batch[0].tolist() for batch in stoker.feed(loader)] == plain


def test_a_tensor_in_a_nest_is_found_and_changed_once() -> None:
    nest = {"a": [torch.ones(2), {"b": (torch.ones(1), "text")}]}
    assert len(list(leaves(nest))) == 3
    doubled = mapped(nest, lambda leaf: leaf * 2)
    assert doubled["a"][1]["b"][0].item() == 2 and doubled["a"][1]["b"][1] == "texttext"
    assert nest["a"][0].tolist() == [1, 1]


class Busy:
    """A lane that says what it is at, and goes on when it is told."""

    def __init__(self, go_on: threading.Semaphore, *, patience_s: float = PATIENCE_S) -> None:
        self.activity = Activity()
        self._go_on = go_on
        self._patience_s = patience_s

    def send(self, batch: int) -> int:
        for part in range(4):
            self.activity.enter("augment", 10 * batch + part)
            self.hang_here()
        self.activity.enter(IDLE)
        return batch

    def hang_here(self) -> None:
        self._go_on.acquire(timeout=self._patience_s)

    def receive(self, batch: int) -> int:
        return batch


def test_what_hangs_while_a_batch_is_sent_is_named_with_its_line() -> None:
    go_on = threading.Semaphore(6)
    lane = Busy(go_on)
    passes = FeedIterator(iter(range(9)), lane, 2, activity=lane.activity, watchdog_s=0.5)
    assert next(passes) == 0
    with pytest.raises(LoaderError, match=r"for 0\.5 s: stage 'augment', sample 12 has") as stuck:
        next(passes)
    assert "hang_here" in stuck.value.looked_at
    with pytest.raises(StopIteration):
        next(passes)
    go_on.release(2)
    passes.close()


def test_slow_steps_of_sending_are_no_standstill() -> None:
    lane = Busy(threading.Semaphore(0), patience_s=0.2)  # together longer than the watchdog's time
    passes = FeedIterator(iter(range(2)), lane, 2, activity=lane.activity, watchdog_s=0.6)
    assert list(passes) == [0, 1]


def test_an_iterable_that_takes_its_time_is_no_standstill() -> None:
    go_on = threading.Event()

    def batches() -> Iterator[int]:
        go_on.wait(PATIENCE_S)
        yield 1

    lane = Busy(threading.Semaphore(4))
    passes = FeedIterator(batches(), lane, 1, activity=lane.activity, watchdog_s=0.2)
    later = threading.Timer(0.5, go_on.set)
    later.start()
    assert next(passes) == 1
    later.join()


class Shared:
    """As loaders with workers that are kept: each `iter()` begins the one iterator anew."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.place = 0
        self.is_asked = False
        self.asked, self.go_on = threading.Event(), threading.Event()

    def __iter__(self) -> Iterator[int]:
        assert not self.is_asked, "begun anew while a batch is being made"
        self.place = 0
        return self

    def __next__(self) -> int:
        self.is_asked = True
        if self.place == 1:
            self.asked.set()
            self.go_on.wait(PATIENCE_S)
        self.place += 1
        self.is_asked = False
        if self.place > self.count:
            raise StopIteration
        return self.place


def test_a_loop_begins_when_nobody_takes_for_the_one_that_was_left() -> None:
    batches = Shared(4)
    fed = stoker.feed(batches)
    for _ in fed:
        assert batches.asked.wait(PATIENCE_S)
        break
    later = threading.Timer(0.1, batches.go_on.set)
    later.start()
    assert list(fed) == [1, 2, 3, 4]
    later.join()


def test_a_generator_goes_on_where_the_loop_that_was_left_had_come_to() -> None:
    asked, go_on = threading.Event(), threading.Event()

    def batches() -> Iterator[int]:
        yield 0
        asked.set()
        go_on.wait(PATIENCE_S)
        yield from range(1, 6)

    fed = stoker.feed(batches())
    for _ in fed:
        assert asked.wait(PATIENCE_S)
        break
    later = threading.Timer(0.1, go_on.set)
    later.start()
    assert list(fed) == [2, 3, 4, 5]  # the batch that was being made is lost
    later.join()


def test_two_loops_at_once_over_what_can_be_gone_through_once_are_refused() -> None:
    fed = stoker.feed(iter(range(50)))
    first = iter(fed)
    with pytest.raises(InputError, match="two loops at once over this feed of a range_iterator"):
        iter(fed)
    assert next(first) == 0
    first.close()
    assert next(iter(fed)) > 0
    twice = stoker.feed(list(range(50)))
    assert [one == other for one, other in zip(twice, twice, strict=True)] == [True] * 50


def test_a_batch_that_never_comes_does_not_hold_the_next_loop_without_a_word(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(feeding, "_PATIENCE_S", 0.05)
    batches = Shared(4)
    fed = stoker.feed(batches)
    for _ in fed:
        assert batches.asked.wait(PATIENCE_S)
        break
    with pytest.raises(LoaderError, match=r"not there after 0\.05 s") as stuck:
        iter(fed)
    assert "self.go_on.wait" in stuck.value.looked_at
    batches.go_on.set()
    monkeypatch.setattr(feeding, "_PATIENCE_S", PATIENCE_S)
    assert list(fed) == [1, 2, 3, 4]
