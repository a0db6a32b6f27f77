"""A CUDA device watched through two events a step, and NVML; both made by hand."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from stoker.probe.device_reading import read_device
from stoker.probe.hooks import torch as torch_hooks
from stoker.probe.hooks import watch as watch_hook
from stoker.probe.hooks.cuda import CudaWatch, Nvml
from stoker.probe.hooks.torch import TorchHooks, TorchView


class FakeEvent:
    """Passed by the device when its clock has come to the time it was recorded at."""

    def __init__(self, device: FakeCuda) -> None:
        self._device = device
        self.at = float("inf")

    def record(self, stream: object) -> None:
        assert stream == "stream of cuda:0"
        self.at = max(self._device.host_s, self._device.busy_until)

    def query(self) -> bool:
        return self._device.host_s >= self.at

    def elapsed_time(self, later: FakeEvent) -> float:
        assert later.query(), "read before the device had passed it"
        return (later.at - self.at) * 1000


class FakeCuda(ModuleType):
    """torch.cuda with a host clock and work that ends some time."""

    def __init__(self) -> None:
        super().__init__("torch.cuda")
        self.host_s = 0.0
        self.busy_until = 0.0
        self.events = 0

    def Event(self, *, enable_timing: bool) -> FakeEvent:  # noqa: N802 - torch's name
        assert enable_timing
        self.events += 1
        return FakeEvent(self)

    def current_stream(self, device: str) -> str:
        return f"stream of {device}"

    def get_device_properties(self, device: str) -> SimpleNamespace:
        return SimpleNamespace(uuid="aaaa-bbbb")

    def launch(self, seconds: float) -> None:
        self.busy_until = max(self.host_s, self.busy_until) + seconds


class Records(list[dict[str, Any]]):
    """What was written."""

    def write(self, kind: str, **fields: Any) -> None:
        self.append({"kind": kind, **fields})


def train(watch: CudaWatch, cuda: FakeCuda, *, leg: str, steps: int, load_s: float) -> None:
    """Steps of 10 ms on the device, launched in 1 ms, after `load_s` of waiting for the batch."""
    for _ in range(steps):
        cuda.host_s += load_s
        watch.batch_given(leg)
        cuda.launch(0.010)
        cuda.host_s += 0.001
        watch.step_ended()


def test_a_device_that_waits_for_batches_is_idle_for_what_they_take_beyond_its_work() -> None:
    cuda, written = FakeCuda(), Records()
    watch = CudaWatch(cuda, "cuda:0", written.write)
    train(watch, cuda, leg="R", steps=20, load_s=0.030)
    watch.tell()
    (line,) = written
    assert line["leg"] == "R"
    assert line["idle"] == pytest.approx([0.021] * 19)  # 30 ms of waiting + 1 of launching - 10


def test_a_host_that_is_ahead_leaves_no_idle_time() -> None:
    cuda, written = FakeCuda(), Records()
    watch = CudaWatch(cuda, "cuda:0", written.write)
    train(watch, cuda, leg="R", steps=20, load_s=0.002)
    cuda.host_s = cuda.busy_until
    watch.tell()
    assert written[0]["idle"] == pytest.approx([0.0] * 19)


def test_events_that_the_device_has_not_passed_are_not_waited_for() -> None:
    cuda, written = FakeCuda(), Records()
    watch = CudaWatch(cuda, "cuda:0", written.write)
    train(watch, cuda, leg="R", steps=5, load_s=0.0)
    cuda.host_s = cuda.busy_until - 0.025  # two of the pairs still lie before the device
    watch.tell()
    assert len(written[0]["idle"]) == 2


def test_what_lies_between_two_legs_is_nobodys_idle_time() -> None:
    cuda, written = FakeCuda(), Records()
    watch = CudaWatch(cuda, "cuda:0", written.write)
    train(watch, cuda, leg="R", steps=4, load_s=0.030)
    cuda.host_s += 5.0  # a drain
    train(watch, cuda, leg="D", steps=4, load_s=0.0)
    cuda.host_s += 5.0
    train(watch, cuda, leg="L", steps=4, load_s=0.0)
    watch.tell()
    assert [line["leg"] for line in written] == ["R", "D"]
    assert max(written[0]["idle"] + written[1]["idle"]) < 0.1


def behind(device_s: float, launch_s: float, *, reads_back: bool = False) -> float:
    """Mean seconds by which the device is behind at the end of the launches of leg D's steps."""
    cuda, written = FakeCuda(), Records()
    watch = CudaWatch(cuda, "cuda:0", written.write, clock=lambda: cuda.host_s)
    for _ in range(5):
        watch.batch_given("D")
        cuda.launch(device_s)
        cuda.host_s += launch_s
        watch.step_ended()
        if reads_back:
            cuda.host_s = max(cuda.host_s, cuda.busy_until)
    cuda.host_s = cuda.busy_until
    watch.tell()
    facts = read_device(written)
    assert facts is not None
    assert facts.behind_s is not None
    return facts.behind_s.median


def test_a_device_that_has_done_all_when_a_step_is_launched_waits_for_launches() -> None:
    assert behind(0.001, 0.038) == pytest.approx(0.0)


def test_a_device_with_work_left_when_a_step_is_launched_is_behind() -> None:
    assert behind(0.040, 0.015, reads_back=True) == pytest.approx(0.025)
    assert behind(0.040, 0.015) > 0.040  # and further with each step


def test_events_are_used_again() -> None:
    cuda, written = FakeCuda(), Records()
    watch = CudaWatch(cuda, "cuda:0", written.write)
    train(watch, cuda, leg="R", steps=500, load_s=0.030)
    assert cuda.events < 10


def test_a_step_of_two_optimizers_ends_with_the_second() -> None:
    cuda, written = FakeCuda(), Records()
    watch = CudaWatch(cuda, "cuda:0", written.write)
    for _ in range(4):
        watch.batch_given("R")
        cuda.launch(0.010)
        watch.step_ended()
        cuda.launch(0.010)
        watch.step_ended()
        cuda.host_s += 0.025
    watch.tell()
    assert written[0]["idle"] == pytest.approx([0.005] * 3)


class FakeNvml(ModuleType):
    """nvidia-ml-py with one device."""

    NVML_CLOCK_SM = 1

    class NVMLError(Exception):
        pass

    def __init__(self, *, reasons: int = 0, fails: bool = False) -> None:
        super().__init__("pynvml")
        self._reasons = reasons
        self.fails = fails

    def nvmlInit(self) -> None:  # noqa: N802 - NVML's names, here and below
        if self.fails:
            raise self.NVMLError

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:  # noqa: N802
        return uuid

    def nvmlDeviceGetUtilizationRates(self, handle: str) -> SimpleNamespace:  # noqa: N802
        assert handle == "GPU-aaaa-bbbb"
        if self.fails:
            raise self.NVMLError
        return SimpleNamespace(gpu=97)

    def nvmlDeviceGetClockInfo(self, handle: str, clock: int) -> int:  # noqa: N802
        return 1200

    def nvmlDeviceGetMaxClockInfo(self, handle: str, clock: int) -> int:  # noqa: N802
        return 1600

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: str) -> int:  # noqa: N802
        return self._reasons


def test_nvml_is_asked_once_a_second_in_the_legs_that_tell(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(reasons=0x04 | 0x01))
    cuda, written = FakeCuda(), Records()
    nvml = Nvml.open(cuda, "cuda:0")
    watch = CudaWatch(cuda, "cuda:0", written.write, nvml=nvml, clock=lambda: cuda.host_s)
    train(watch, cuda, leg="R", steps=100, load_s=0.030)
    watch.tell()
    states = written[0]["states"]
    assert 2 <= len(states) <= 3  # of 3.1 s
    assert states[0] == {
        "busy": 0.97,
        "sm_mhz": 1200,
        "sm_most_mhz": 1600,
        "slowed_by": ["power cap"],  # that it is idle holds nothing down
    }


def test_without_nvml_there_is_nobody_to_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)  # as if it were not installed
    assert Nvml.open(FakeCuda(), "cuda:0") is None
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(fails=True))
    assert Nvml.open(FakeCuda(), "cuda:0") is None


def test_a_device_that_nvml_loses_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    library = FakeNvml()
    monkeypatch.setitem(sys.modules, "pynvml", library)
    nvml = Nvml.open(FakeCuda(), "cuda:0")
    assert nvml is not None
    library.fails = True
    assert nvml.read() is None


def test_the_lines_of_a_device_become_its_facts() -> None:
    state = {"busy": 0.4, "sm_mhz": 1200, "sm_most_mhz": 1600, "slowed_by": ["power cap"]}
    slower = state | {"busy": 1.0, "sm_mhz": 800}
    lines = [
        {"leg": "R", "each": "step", "idle": [0.02] * 40, "behind": [], "states": [state]},
        {"leg": "D", "each": "step", "idle": [0.01] * 40, "behind": [0.03], "states": [slower]},
    ]
    facts = read_device(lines, per_step=4)
    assert facts is not None
    assert facts.idle_s is not None
    assert facts.idle_s.median == pytest.approx(0.02)
    assert facts.idle_alone_s is not None
    assert facts.idle_alone_s.median == pytest.approx(0.01)
    assert facts.behind_s is not None
    assert facts.behind_s.median == pytest.approx(0.03)
    assert facts.busy_reported == pytest.approx(0.4)
    assert facts.clock_share == pytest.approx(0.625)
    assert facts.slowed_by == ("power cap",)
    assert read_device([]) is None


def view_of(device: Any, cuda: ModuleType, written: Records) -> tuple[TorchView, Any]:
    """The probe's view of torch, and an optimizer whose parameters live on `device`."""
    session: Any = SimpleNamespace(write=written.write)
    view = TorchView(session)
    view._torch = SimpleNamespace(cuda=cuda)
    parameter = SimpleNamespace(device=device)
    return view, SimpleNamespace(param_groups=[{"params": [parameter]}])


def test_a_model_on_the_host_is_watched_by_nobody() -> None:
    cuda, written = FakeCuda(), Records()
    view, optimizer = view_of(SimpleNamespace(type="cpu"), cuda, written)
    for _ in range(5):
        view.gave_batch("R")
        view.saw_optimizer(optimizer)
    view.finish()
    assert cuda.events == 0
    assert written == []


def test_a_model_on_a_cuda_device_is_watched_from_its_first_step_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    cuda, written = FakeCuda(), Records()
    monkeypatch.setattr(cuda, "current_stream", lambda device: "stream of cuda:0")
    view, optimizer = view_of(SimpleNamespace(type="cuda"), cuda, written)
    for _ in range(6):
        cuda.host_s += 0.030
        view.gave_batch("R")
        cuda.launch(0.010)
        view.saw_optimizer(optimizer)
    view.finish()
    (line,) = written
    assert line["kind"] == "device"
    assert line["idle"] == pytest.approx([0.020] * 4)


class InLegR:
    """A conductor of a loop that gets its own batches."""

    is_inert = False
    leg = "R"

    def on_epoch(self, track: Any, began: float) -> None: ...

    def on_next(self, track: Any, iterator: Any, fetch: Callable[[], Any]) -> Any:
        return fetch()

    def looking_away(self) -> AbstractContextManager[None]:
        return nullcontext()


def test_a_loop_under_stoker_watch_has_its_device_watched_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cuda, written = FakeCuda(), Records()
    session: Any = SimpleNamespace(write=written.write, options={"budget_s": 1.0})
    hooks: Any = TorchHooks(session, torch.utils.data.dataloader)
    hooks._conductor = InLegR()
    device = hooks._view._device_watch = CudaWatch(cuda, "cuda:0", written.write)
    monkeypatch.setattr(torch_hooks, "_installed", hooks)
    module: Any = SimpleNamespace()
    watch_hook.install(session, module)

    for name in ("train", "val"):
        for _ in module.observer(range(6), name):
            cuda.launch(0.010)
            device.step_ended()
            cuda.host_s += 0.030
    hooks._view.finish()

    (line,) = written
    assert line["idle"] == pytest.approx([0.020] * 5)


class Place:
    """A torch.device."""

    type = "cuda"

    def __str__(self) -> str:
        return "cuda:0"


def test_the_device_is_told_with_its_drivers_name_where_it_has_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cuda = FakeCuda()
    view, _ = view_of(Place(), cuda, Records())
    view._parameter_device = Place()
    assert view.device() == "cuda:0"  # this torch can't name it: the script goes on all the same
    monkeypatch.setattr(cuda, "get_device_name", lambda _: "NVIDIA L4", raising=False)
    assert view.device() == "cuda:0 NVIDIA L4"
