"""The protocol of the CUDA lane, on a stand-in for torch that writes down what it is asked."""

from __future__ import annotations

import contextlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import stoker
from stoker.errors import InputError
from stoker.loader import device, loader
from stoker.loader.activity import Activity
from stoker.loader.device import CudaLane, EmulatedLane, HostLane, bytes_beside, lane_to
from stoker.loader.sending import Sending
from stoker.pack import write_arrays


class Tensor:
    """A tensor that is somewhere."""

    def __init__(self, log: list[Any], where: str = "host") -> None:
        self.log, self.where = log, where

    @property
    def is_cuda(self) -> bool:
        return self.where == "cuda"

    def is_pinned(self) -> bool:
        return self.where == "pinned"

    def pin_memory(self) -> Tensor:
        self.log.append("pin")
        return Tensor(self.log, "pinned")

    def __getitem__(self, _: int) -> int:
        return 7

    def to(self, _: Any, *, non_blocking: bool) -> Tensor:
        if self.where == "cuda":
            return self
        self.log.append(("copy", self.where, non_blocking))
        return Tensor(self.log, "cuda")

    def record_stream(self, stream: Any) -> None:
        self.log.append(("record_stream", stream.name))


class Event:
    def __init__(self, log: list[Any]) -> None:
        self.log, self.is_over = log, False

    def record(self, stream: Any) -> None:
        self.log.append(("event on", stream.name))

    def query(self) -> bool:
        return self.is_over


class Standin:
    """What of torch the lane uses."""

    def __init__(self) -> None:
        self.log: list[Any] = []
        self.events: list[Event] = []
        self.is_short = False  # of memory that could be pinned
        self.Tensor = Tensor
        self.device = lambda name: name
        model = SimpleNamespace(name="model", wait_event=lambda e: self.log.append("model waits"))
        self.cuda = SimpleNamespace(
            Stream=lambda _: SimpleNamespace(name="copies"),
            stream=self._on,
            Event=self._event,
            current_stream=lambda _: model,
        )

    uint8 = "uint8"

    def empty(self, size: int, *, dtype: str, pin_memory: bool) -> Any:
        assert dtype == "uint8" and pin_memory
        self.log.append(("pinned", size))
        if self.is_short:
            raise RuntimeError("no more")
        block = bytearray(size)
        return SimpleNamespace(numpy=lambda: np.frombuffer(block, np.uint8))

    def _event(self) -> Event:
        self.events.append(Event(self.log))
        return self.events[-1]

    @contextlib.contextmanager
    def _on(self, stream: Any) -> Any:
        self.log.append(("begin", stream.name))
        yield
        self.log.append(("end", stream.name))


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Standin:
    standin = Standin()
    monkeypatch.setattr(device, "importlib", SimpleNamespace(import_module=lambda _: standin))
    return standin


def test_copies_are_staged_launched_on_their_own_stream_and_waited_for_on_the_device(
    torch: Standin,
) -> None:
    lane = CudaLane("cuda")
    sent = lane.send({"image": Tensor(torch.log), "name": "text"})
    assert torch.log == [
        "pin",
        ("begin", "copies"),
        ("copy", "pinned", True),
        ("event on", "copies"),
        ("end", "copies"),
    ]
    torch.log.clear()
    batch = lane.receive(sent)
    assert torch.log == ["model waits", ("record_stream", "model")]
    assert batch["image"].is_cuda and batch["name"] == "text"


class Packed(tuple):  # type: ignore[type-arg]
    """As torch's PackedSequence: its lengths have to stay on the host."""

    def pin_memory(self) -> Packed:
        return Packed((self[0].pin_memory(), self[1]))

    def to(self, where: Any, *, non_blocking: bool) -> Packed:
        return Packed((self[0].to(where, non_blocking=non_blocking), self[1]))


class Graph:
    """As some libraries' batches: it changes itself, and keeps its tensors further below."""

    def __init__(self, edges: Tensor) -> None:
        self.store = SimpleNamespace(held={"edges": edges})

    def to(self, where: Any) -> None:
        self.store.held["edges"] = self.store.held["edges"].to(where, non_blocking=False)


class Quantity:
    """Its `to` is no way to a device."""

    def to(self, unit: str) -> Quantity:
        raise AssertionError(f"{unit} is no unit")


def test_an_object_with_a_way_of_its_own_is_moved_by_it(torch: Standin) -> None:
    lane = CudaLane("cuda")
    lengths = Tensor(torch.log)
    length, graph = Quantity(), Graph(Tensor(torch.log))
    sent = lane.send({"text": Packed((Tensor(torch.log), lengths)), "graph": graph, "far": length})
    assert torch.log[:4] == ["pin", ("begin", "copies"), ("copy", "pinned", True), *COPIED_AT_ONCE]
    torch.log.clear()
    batch = lane.receive(sent)
    assert type(batch["text"]) is Packed and batch["text"][0].is_cuda
    assert batch["text"][1] is lengths and lengths.where == "host"
    assert batch["graph"] is graph and graph.store.held["edges"].is_cuda
    assert batch["far"] is length
    assert torch.log == ["model waits", *[("record_stream", "model")] * 2]


COPIED_AT_ONCE = [("copy", "host", False)]


def test_a_host_batch_is_held_until_its_copy_is_over(torch: Standin) -> None:
    lane = CudaLane("cuda")
    for _ in range(3):
        lane.send([Tensor(torch.log)])
    assert len(lane._under_way) == 3
    torch.events[0].is_over = torch.events[1].is_over = True
    lane.send([Tensor(torch.log)])
    assert len(lane._under_way) == 2  # the third copy, and the one just begun


def test_a_change_works_on_the_device_behind_the_copy_and_before_the_event(
    torch: Standin,
) -> None:
    def augment(batch: Any) -> Any:
        torch.log.append(("augment", batch.image.where, batch.index.where))
        return {**batch, "image": Tensor(torch.log, "cuda")}

    activity = Activity()
    sending = Sending(CudaLane("cuda"), augment, activity)
    sent = sending.send({"image": Tensor(torch.log), "index": Tensor(torch.log)})
    assert torch.log == [
        *("pin", "pin"),
        ("begin", "copies"),
        *[("copy", "pinned", True)] * 2,
        ("augment", "cuda", "pinned"),  # reading the index waits for nothing
        ("copy", "pinned", True),
        ("event on", "copies"),
        ("end", "copies"),
    ]
    torch.log.clear()
    batch = sending.receive(sent)
    assert torch.log == ["model waits", *[("record_stream", "model")] * 2]
    assert batch["image"].is_cuda and batch["index"].is_cuda
    assert set(activity.stage_s) == {"copy", "augment"}


def test_an_emulated_device_is_sent_what_is_made_of_the_batch() -> None:
    accelerator = stoker.EmulatedAccelerator(0.0, link_bytes_per_s=1e9)
    lane = EmulatedLane(accelerator)
    sent = lane.receive(lane.send(np.zeros(4), lambda placed, on_host: placed + 1))
    assert sent.tolist() == [1, 1, 1, 1]
    assert accelerator.to_device(sent) is sent  # it is there already


def test_what_is_pinned_is_not_staged_again(torch: Standin) -> None:
    CudaLane("cuda").send((Tensor(torch.log, "pinned"),))
    assert "pin" not in torch.log


def test_staged_batches_and_those_on_the_device_take_memory_too(torch: Standin) -> None:
    assert bytes_beside(HostLane(), [100, 8], 2) == {}
    emulated = EmulatedLane(stoker.EmulatedAccelerator(0.0))
    assert bytes_beside(emulated, [100, 8], 2) == {"on the device": 216}
    # Two are staged at once, each array in a power of two of bytes.
    staged = {"on the device": 216, "in pinned memory": 2 * (128 + 8)}
    assert bytes_beside(CudaLane("cuda"), [100, 8, 0], 2) == staged


@pytest.fixture
def cuda_pack(tmp_path: Path, torch: Standin, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pack, and a Loader that is given the lane of a CUDA device."""
    monkeypatch.setattr(loader, "lane_to", lambda device: CudaLane(device))
    columns = {"image": np.zeros((64, 10, 10, 3), np.uint8)}
    return write_arrays(tmp_path / "pack", columns).path


def test_the_budget_of_a_loader_covers_them(cuda_pack: Path) -> None:
    # A batch: 1,200 and 32 bytes. Three of them on the host, in whole lines of 64 bytes 1,280 and
    # pinned 2,048; two on the device; two staged, in 2,048 and 32 bytes.
    least = 3 * 2048 + 2 * 1232 + 2 * 2080
    stoker.Loader(cuda_pack, 4, device="cuda", memory_bytes=least)
    with pytest.raises(InputError, match=rf"(?s)too little.*pinned memory.*memory_bytes={least} "):
        stoker.Loader(cuda_pack, 4, device="cuda", memory_bytes=least - 1)


def test_batches_for_a_cuda_device_are_filled_in_pinned_memory(
    cuda_pack: Path, torch: Standin
) -> None:
    slots: Any = stoker.Loader(cuda_pack, 4, device="cuda")._take_slots()
    slot = slots.acquire(4)
    assert torch.log == [("pinned", 1280)]
    slot.fields["image"][:] = 7
    lent = slots.lend(slot, 4)
    assert lent["image"].sum() == 7 * lent["image"].size  # the same block
    del lent, slot
    assert slots.acquire(4) is not None
    assert torch.log == [("pinned", 1280)], "it came back"


def test_where_no_memory_can_be_pinned_batches_are_staged_and_it_is_said_once(
    cuda_pack: Path, torch: Standin, caplog: pytest.LogCaptureFixture
) -> None:
    torch.is_short = True
    slots: Any = stoker.Loader(cuda_pack, 4, device="cuda")._take_slots()
    for _ in range(3):
        assert slots.acquire(4).fields["image"].shape == (4, 10, 10, 3)
    assert torch.log == [("pinned", 1280)]
    (told,) = caplog.records
    assert "batches are staged" in told.getMessage() and "no more" in told.getMessage()


def test_worker_processes_that_augment_give_batches_from_memory_of_their_own(
    cuda_pack: Path, torch: Standin
) -> None:
    made = stoker.Loader(cuda_pack, 4, device="cuda", augment=augmented_nowhere, workers=1)
    slots: Any = made._take_slots()
    slots.acquire(4)
    assert torch.log == []


def augmented_nowhere(batch: Any, *, seed: int, epoch: int) -> Any:
    raise AssertionError("no batch is made")


def test_arrays_of_numpy_are_refused_where_batches_go_to_a_cuda_device(cuda_pack: Path) -> None:
    with pytest.raises(InputError, match="array='numpy'"):
        stoker.Loader(cuda_pack, 4, array="numpy", device="cuda")


def test_each_kind_of_device_has_its_lane() -> None:
    assert isinstance(lane_to(None), HostLane) and isinstance(lane_to("cpu"), HostLane)
    assert isinstance(lane_to(stoker.EmulatedAccelerator(0.0)), EmulatedLane)
