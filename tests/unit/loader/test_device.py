"""The protocol of the CUDA lane, on a stand-in for torch that writes down what it is asked."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import Any

import pytest

import stoker
from stoker.loader import device
from stoker.loader.device import CudaLane, EmulatedLane, HostLane, lane_to


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

    def to(self, _: Any, *, non_blocking: bool) -> Tensor:
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
        self.Tensor = Tensor
        self.device = lambda name: name
        model = SimpleNamespace(name="model", wait_event=lambda e: self.log.append("model waits"))
        self.cuda = SimpleNamespace(
            Stream=lambda _: SimpleNamespace(name="copies"),
            stream=self._on,
            Event=self._event,
            current_stream=lambda _: model,
        )

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
    monkeypatch.setattr(device.importlib, "import_module", lambda _: standin)
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


def test_a_host_batch_is_held_until_its_copy_is_over(torch: Standin) -> None:
    lane = CudaLane("cuda")
    for _ in range(3):
        lane.send([Tensor(torch.log)])
    assert len(lane._under_way) == 3
    torch.events[0].is_over = torch.events[1].is_over = True
    lane.send([Tensor(torch.log)])
    assert len(lane._under_way) == 2  # the third copy, and the one just begun


def test_what_is_pinned_is_not_staged_again(torch: Standin) -> None:
    CudaLane("cuda").send((Tensor(torch.log, "pinned"),))
    assert "pin" not in torch.log


def test_each_kind_of_device_has_its_lane() -> None:
    assert isinstance(lane_to(None), HostLane) and isinstance(lane_to("cpu"), HostLane)
    assert isinstance(lane_to(stoker.EmulatedAccelerator(0.0)), EmulatedLane)
