"""Copies begun early: only what the script copies, only as it is, and in the script's order."""

from __future__ import annotations

import contextlib
import gc
import threading
import weakref
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import pytest

from stoker.loader import device as lanes
from stoker.remedy import staging
from stoker.remedy.apply import plan
from stoker.remedy.delivery import Deliveries
from stoker.remedy.feed import Aside, Feed
from stoker.remedy.indices import Indices, Tap
from stoker.remedy.request import parse
from stoker.remedy.settings import Settings
from stoker.remedy.staging import Fed
from stoker.remedy.supply import Supply
from stoker.remedy.trial import Way
from tests.unit.loader import test_device as device_stand_ins
from tests.unit.remedy.subjects import subject_of

torch = pytest.importorskip("torch")


class Accelerator:
    """Stands for the emulated one: tells what was copied, and how."""

    def __init__(self) -> None:
        self.copied: list[tuple[int, bool]] = []

    def to_device(self, batch: Any, non_blocking: bool = False, pinned: bool = False) -> Any:
        if torch.is_tensor(batch) and not hasattr(batch, "on_device"):
            self.copied.append((int(batch.sum()), non_blocking and pinned))
            batch = batch.clone()
            batch.on_device = True
        return batch


@pytest.fixture
def deliveries() -> Iterator[Deliveries]:
    module = ModuleType("emulated")
    module.EmulatedAccelerator = Accelerator  # type: ignore[attr-defined]
    original = Accelerator.to_device
    found = Deliveries(pytest.fail)
    found.watch_emulated(module)
    yield found
    found.undo()
    assert Accelerator.to_device is original


def batch(number: int) -> tuple[Any, Any]:
    return torch.full((2,), number), torch.tensor(7)


def test_what_the_script_copied_once_is_copied_early_from_then_on(deliveries: Deliveries) -> None:
    accelerator = Accelerator()
    first, second = batch(1), batch(2)
    deliveries.begin(first)  # nothing is known yet
    deliveries.given(first)
    accelerator.to_device(first[0])
    deliveries.begin(second)
    assert accelerator.copied == [(2, False), (4, True)]  # the label stays on the host
    deliveries.given(second)
    placed = accelerator.to_device(second[0])
    assert placed.on_device
    assert placed.tolist() == [2, 2]
    assert len(accelerator.copied) == 2


def test_what_the_script_changes_first_is_copied_as_it_then_is(deliveries: Deliveries) -> None:
    accelerator = Accelerator()
    first, second = batch(1), batch(2)
    deliveries.given(first)
    accelerator.to_device(first[0])
    deliveries.begin(second)
    deliveries.given(second)
    second[0].add_(10)
    assert accelerator.to_device(second[0]).tolist() == [12, 12]


def test_another_device_gets_a_copy_of_its_own(deliveries: Deliveries) -> None:
    one, other = Accelerator(), Accelerator()
    first, second = batch(1), batch(2)
    deliveries.given(first)
    one.to_device(first[0])
    deliveries.begin(second)
    deliveries.given(second)
    other.to_device(second[0])
    assert other.copied == [(4, False)]


class Nothing:
    def begin(self, batch: Any) -> None: ...


def fed(inner: Iterator[Any], lead: int = 2) -> Fed:
    return Fed(inner, Indices(iter(range(100))), Nothing(), lead=lead)


def test_batches_come_in_order_and_the_thread_ends_with_them() -> None:
    assert list(fed(iter(range(20)))) == list(range(20))


def test_an_error_comes_behind_the_batches_before_it() -> None:
    def failing() -> Iterator[int]:
        yield 1
        raise ValueError("broken")

    batches = fed(failing())
    assert next(batches) == 1
    with pytest.raises(ValueError, match="broken"):
        next(batches)


def test_a_loop_that_is_left_leaves_no_thread() -> None:
    batches = fed(iter(range(10**9)))
    assert next(batches) == 0
    batches.close()
    assert "stoker-feed" not in [thread.name for thread in threading.enumerate()]


def test_the_sampler_is_read_on_the_scripts_thread() -> None:
    threads = []

    def sampler() -> Iterator[int]:
        for number in range(50):
            threads.append(threading.current_thread())
            yield number

    indices = Indices(sampler())

    def inner() -> Iterator[Any]:
        while not indices.is_over:
            yield indices.take()

    assert list(Fed(inner(), indices, Nothing(), lead=4)) == list(range(50))
    assert set(threads) == {threading.main_thread()}


def test_a_failed_iterable_is_let_go_with_its_workers() -> None:
    class Workers:
        pass

    workers = Workers()
    gone = weakref.ref(workers)

    def failing(held: Workers) -> Iterator[int]:
        yield 1
        raise ValueError(f"broken: {type(held).__name__}")

    batches = fed(failing(workers))
    del workers
    assert next(batches) == 1
    gc.disable()  # in no circle, which would keep worker processes until somebody collects it
    try:
        with contextlib.suppress(ValueError):
            next(batches)
        batches.close()
        assert gone() is None
    finally:
        gc.enable()


def test_a_pass_that_is_displaced_does_not_wait_for_a_stuck_worker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(staging, "_LEAVE_S", 0.05)
    indices, goes_on = Indices(iter(range(6))), threading.Event()
    tap = Tap(6)
    tap.connect(indices)

    def stuck() -> Iterator[Any]:
        taking = iter(tap)
        yield next(taking)
        goes_on.wait(60)
        yield from taking

    ended: list[str] = []
    first = Fed(stuck(), indices, Nothing(), lead=2)
    made = SimpleNamespace(
        begin=lambda *_: first, end=lambda: ended.append("kept workers"), settings=None
    )
    course = Mock(way=Way.REMEDIED)
    course.supply.return_value = made
    course.asked.return_value = False
    older = Feed(course, indices, 6, base=None, waits=False)
    assert next(older) == 0
    thread = first._batches._thread
    older.hand_over(
        Aside(cast("Supply", SimpleNamespace(begin=lambda given, _: Taken(given), settings=None)))
    )
    assert thread.is_alive()
    assert ended == ["kept workers"]
    goes_on.set()
    thread.join()
    assert list(older) == [1, 2, 3, 4, 5]


class Taken(Iterator[Any]):
    """Batches that are their own indices."""

    def __init__(self, indices: Indices) -> None:
        self._indices = indices

    def __next__(self) -> Any:
        return self._indices.take()


@pytest.mark.parametrize(
    ("remedies", "workers", "is_fed", "copies"),
    [
        ("overlap=2", 0, True, False),
        ("workers=4", 2, False, False),
        ("pinned-async", 2, True, True),
        ("overlap=2,pinned-async", 0, True, True),
    ],
)
def test_overlap_and_pinned_async_take_batches_through_feed(
    remedies: str, workers: int, is_fed: bool, copies: bool
) -> None:
    subject = subject_of(Settings(workers=workers), [0] * 8, has_device=True)
    settings = plan(subject, parse(remedies)).settings
    assert (settings.is_fed, settings.delivers_early) == (is_fed, copies)


def test_what_is_fed_comes_from_a_feed_and_ahead() -> None:
    data = torch.utils.data.TensorDataset(torch.arange(12.0))
    loader = torch.utils.data.DataLoader(data, batch_size=2, num_workers=0)
    supply = Supply(
        loader, Settings(workers=0, is_fed=True), type(loader).__iter__, early=Nothing()
    )
    batches = supply.begin(Indices(iter(loader._index_sampler)), None)
    assert isinstance(batches, Fed)
    assert "stoker-feed" in [thread.name for thread in threading.enumerate()]
    assert [batch[0].tolist() for batch in batches] == [
        *([0, 1], [2, 3], [4, 5], [6, 7], [8, 9], [10, 11])
    ]
    batches.close()


class CudaTensor(device_stand_ins.Tensor):
    """What of torch's tensors the deliveries look at, besides."""

    _version = 0
    dtype = None

    def pin_memory(self) -> CudaTensor:
        self.log.append("pin")
        return CudaTensor(self.log, "pinned")

    def to(self, _: Any, *, non_blocking: bool = False) -> CudaTensor:
        self.log.append(("copy", self.where, non_blocking))
        return CudaTensor(self.log, "cuda")

    def cuda(self, device: Any = None) -> CudaTensor:
        return self.to(device)


def test_on_cuda_an_early_copy_goes_the_way_of_feed_and_is_made_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    standin: Any = device_stand_ins.Standin()
    place = SimpleNamespace(type="cuda", index=0)
    standin.Tensor = CudaTensor
    standin.device = lambda *_: place
    standin.cuda.current_device = lambda: 0
    standin._C = SimpleNamespace(
        _nn=SimpleNamespace(
            _parse_to=lambda device, non_blocking=False: (device, None, False, None)
        )
    )
    monkeypatch.setattr(lanes.importlib, "import_module", lambda _: standin)
    own = CudaTensor.to, CudaTensor.cuda
    deliveries = Deliveries(pytest.fail)
    deliveries.watch_cuda(standin)
    first, second = CudaTensor(standin.log), CudaTensor(standin.log)
    deliveries.given([first])
    assert first.to(place).where == "cuda"  # the script's own copy, which waits
    deliveries.begin([second])
    assert standin.log[1:] == [
        "pin",
        ("begin", "copies"),
        ("copy", "pinned", True),
        ("event on", "copies"),
        ("end", "copies"),
    ]
    deliveries.given([second])
    standin.log.clear()
    assert second.cuda().where == "cuda"
    assert standin.log == ["model waits", ("record_stream", "model")]  # and no second copy
    deliveries.undo()
    assert (CudaTensor.to, CudaTensor.cuda) == own
