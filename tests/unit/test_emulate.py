"""The emulated device keeps its timeline: a fake host, exact times, no waiting."""

from __future__ import annotations

import dataclasses
import gc
from collections import UserDict
from typing import NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from stoker import emulate
from stoker.emulate import EmulatedAccelerator, accelerator, live, mark_resident, synchronize_all
from stoker.emulate.device import Device
from stoker.emulate.host import Host
from stoker.errors import InputError, StokerError


class FakeHost:
    """Time that passes only when somebody waits or computes."""

    def __init__(self) -> None:
        self.time = 0.0
        self.cpu = 0.0

    def now(self) -> float:
        return self.time

    def wait_until(self, deadline: float) -> None:
        self.time = max(self.time, deadline)

    def spend(self, seconds: float) -> None:
        self.time += seconds
        self.cpu += seconds


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> FakeHost:
    fake = FakeHost()
    monkeypatch.setattr(accelerator, "RealHost", lambda _: fake)
    monkeypatch.setattr(accelerator, "_calibrate_once", lambda *_: 1.0)
    return fake


def test_a_read_back_every_step_adds_launch_and_device_time(host: FakeHost) -> None:
    device = EmulatedAccelerator(0.040, launch_s=0.015)
    for _ in range(10):
        device.step(None).item()
    assert host.time == pytest.approx(10 * 0.055)
    assert host.cpu == pytest.approx(10 * 0.015)


def test_without_read_backs_the_launch_hides_behind_the_device(host: FakeHost) -> None:
    device = EmulatedAccelerator(0.040, launch_s=0.015)
    for _ in range(100):
        device.step(None)
    device.synchronize()
    assert host.time == pytest.approx(0.015 + 100 * 0.040)
    assert device.idle_s == 0.0


def test_a_launch_longer_than_the_step_leaves_the_device_idle(host: FakeHost) -> None:
    device = EmulatedAccelerator(0.002, launch_s=0.038)
    for _ in range(50):
        device.step(None)
    assert host.time == pytest.approx(50 * 0.038)
    assert device.idle_s == pytest.approx(49 * 0.036)


def test_a_host_that_never_waits_is_held_back_two_steps_ahead(host: FakeHost) -> None:
    device = EmulatedAccelerator(1.0)
    returned = []
    for _ in range(5):
        device.step(None)
        returned.append(host.time)
    assert returned == [0.0, 0.0, 1.0, 2.0, 3.0]


def test_a_synchronous_step_returns_when_it_is_over(host: FakeHost) -> None:
    device = EmulatedAccelerator(0.030, asynchronous=False)
    device.step(None)
    assert host.time == pytest.approx(0.030)


def test_the_step_time_may_depend_on_the_number_and_the_batch(host: FakeHost) -> None:
    device = EmulatedAccelerator(lambda step, batch: 0.1 * step + 0.001 * len(batch))
    device.step([1, 2, 3]).item()
    assert host.time == pytest.approx(0.003)
    device.step([1]).item()
    assert host.time == pytest.approx(0.003 + 0.101)


def test_jitter_scatters_steps_around_their_mean_the_same_way_each_time(host: FakeHost) -> None:
    first, second = (EmulatedAccelerator(0.010, jitter=0.1) for _ in range(2))
    for _ in range(1000):
        first.step(None)
        second.step(None)
    assert first.busy_s == second.busy_s
    assert first.busy_s != 10.0
    assert first.busy_s == pytest.approx(10.0, rel=0.02)


def test_the_loss_falls_with_the_steps(host: FakeHost) -> None:
    device = EmulatedAccelerator(0.001)
    losses = [device.step(None).item() for _ in range(20)]
    assert losses == sorted(losses, reverse=True)
    assert isinstance(losses[0], float)


# -- copies to the device -------------------------------------------------------------------------


@pytest.mark.parametrize(("non_blocking", "pinned"), [(False, False), (True, False), (False, True)])
def test_a_copy_blocks_unless_it_is_pinned_and_non_blocking(
    host: FakeHost, non_blocking: bool, pinned: bool
) -> None:
    device = EmulatedAccelerator(0.030, link_bytes_per_s=1e6, asynchronous=False)
    batch = device.to_device(torch.zeros(2500), non_blocking=non_blocking, pinned=pinned)
    assert host.time == pytest.approx(0.010)
    device.step(batch)
    assert host.time == pytest.approx(0.040)


def test_a_step_waits_for_the_rest_of_its_own_copy(host: FakeHost) -> None:
    device = EmulatedAccelerator(0.030, link_bytes_per_s=1e6)
    batch = device.to_device(torch.zeros(2500), non_blocking=True, pinned=True)
    assert host.time == 0.0
    device.step(batch).item()
    assert host.time == pytest.approx(0.040)


def test_early_copies_hide_behind_the_steps(host: FakeHost) -> None:
    device = EmulatedAccelerator(0.030, link_bytes_per_s=1e6)
    coming = device.to_device(torch.zeros(2500), non_blocking=True, pinned=True)
    for _ in range(20):
        here, coming = (
            coming,
            device.to_device(torch.zeros(2500), non_blocking=True, pinned=True),
        )
        device.step(here)
    device.synchronize()
    assert host.time == pytest.approx(0.010 + 20 * 0.030)


def test_two_copies_take_turns_on_the_link(host: FakeHost) -> None:
    device = EmulatedAccelerator(0.0, link_bytes_per_s=1e6)
    for _ in range(2):
        device.to_device(bytes(10_000), non_blocking=True, pinned=True)
    device.synchronize()
    assert host.time == pytest.approx(0.020)


def test_a_host_batch_sent_twice_is_paid_for_twice(host: FakeHost) -> None:
    device = EmulatedAccelerator(0.0, link_bytes_per_s=1e6)
    batch = torch.zeros(250)
    for _ in range(2):
        device.to_device(batch)
    assert host.time == pytest.approx(0.002)


def test_what_came_back_from_the_device_call_is_free_the_next_time(host: FakeHost) -> None:
    device = EmulatedAccelerator(0.0, link_bytes_per_s=1e6)
    batch = {"x": torch.zeros(250), "y": [np.zeros(125)]}
    placed = device.to_device(batch)
    before = host.time
    again = device.to_device(placed)
    assert host.time == before == pytest.approx(0.002)
    assert again["x"] is placed["x"]


def test_a_batch_marked_as_resident_is_free_on_every_accelerator(host: FakeHost) -> None:
    devices = [EmulatedAccelerator(0.0, link_bytes_per_s=1e6) for _ in range(2)]
    batch = (torch.zeros(1000), np.zeros(1000))
    mark_resident(batch)
    for device in devices:
        device.to_device(batch)
    assert host.time == 0.0


def test_a_marked_buffer_of_bytes_is_free_once_a_mark(host: FakeHost) -> None:
    device = EmulatedAccelerator(0.0, link_bytes_per_s=1e6)
    batch = [bytes(1000)]
    for _ in range(3):
        mark_resident(batch)
        device.to_device(batch)
    assert host.time == 0.0
    device.to_device(batch)
    assert host.time == pytest.approx(0.001)


def test_a_dead_batch_is_forgotten_and_its_place_taken_by_another(host: FakeHost) -> None:
    device = EmulatedAccelerator(0.0, link_bytes_per_s=1e6)
    for _ in range(50):
        mark_resident(torch.zeros(10))
    gc.collect()
    device.to_device([torch.zeros(10) for _ in range(50)])
    assert host.time == pytest.approx(50 * 40e-6)


class Pair(NamedTuple):
    left: torch.Tensor
    right: torch.Tensor


@dataclasses.dataclass(frozen=True)
class Record:
    pixels: np.ndarray[tuple[int, ...], np.dtype[np.float64]]
    name: str


class Plain:
    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor
        self.kind = "plain"


class Slotted:
    __slots__ = ("array",)

    def __init__(self) -> None:
        self.array = np.zeros(100, np.uint8)


def test_containers_of_all_kinds_are_sized_and_keep_their_kind(host: FakeHost) -> None:
    device = EmulatedAccelerator(0.0, link_bytes_per_s=1e6)
    batch = UserDict(
        pair=Pair(torch.zeros(25), torch.zeros(25)),
        record=Record(np.zeros(25), "a"),
        plain=Plain(torch.zeros(25)),
        slotted=Slotted(),
        raw=[bytes(100), bytearray(100), memoryview(bytes(100))],
        rest=(None, 3, "text", 2.5, int, len),
    )
    placed = device.to_device(batch)
    assert host.time == pytest.approx((200 + 200 + 100 + 100 + 300) / 1e6)
    assert type(placed) is UserDict
    assert type(placed["pair"]) is Pair
    assert placed["record"].name == "a"
    assert placed["plain"].kind == "plain"
    assert placed["rest"] == batch["rest"]
    assert torch.equal(placed["pair"].left, batch["pair"].left)
    before = host.time
    device.to_device({key: placed[key] for key in ("pair", "record", "plain", "slotted")})
    assert host.time == before


def test_without_a_link_copies_are_free_and_the_batch_is_passed_on(host: FakeHost) -> None:
    device = EmulatedAccelerator(0.0)
    batch = [torch.zeros(1000)]
    assert device.to_device(batch) is batch
    assert host.time == 0.0


# -- as the probe sees it -------------------------------------------------------------------------


def test_living_accelerators_are_known_and_dead_ones_are_not(host: FakeHost) -> None:
    device = EmulatedAccelerator(0.0)
    assert device in live()
    del device
    gc.collect()
    assert live() == []


def test_all_can_be_waited_for(host: FakeHost) -> None:
    devices = [EmulatedAccelerator(seconds) for seconds in (0.1, 0.3)]
    for device in devices:
        device.step(None)
    assert host.time == 0.0
    synchronize_all()
    assert host.time == pytest.approx(0.3)


def test_the_package_gives_it_by_its_short_name() -> None:
    import stoker

    assert stoker.EmulatedAccelerator is emulate.EmulatedAccelerator


@pytest.mark.parametrize(
    "wrong",
    [
        {"step_s": -1.0},
        {"launch_s": -0.1},
        {"link_bytes_per_s": 0.0},
        {"jitter": -0.1},
        {"host": "hover"},
    ],
)
def test_numbers_that_cannot_be_are_named(host: FakeHost, wrong: dict[str, float]) -> None:
    with pytest.raises(InputError, match=next(iter(wrong))):
        EmulatedAccelerator(**{"step_s": 0.1, **wrong})  # type: ignore[arg-type]


def test_a_machine_that_wakes_late_is_refused_with_the_loss(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class LateHost(FakeHost):
        def wait_until(self, deadline: float) -> None:
            self.time = max(self.time, deadline) + 0.001

    late = LateHost()
    monkeypatch.setattr(accelerator, "RealHost", lambda _: late)
    with pytest.raises(StokerError, match=r"idle 16\.7% of the time"):
        accelerator._calibrate("sleep", 0.005)


def test_one_quiet_window_is_enough_on_a_busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    class BusyAtFirst(FakeHost):
        waits = 0

        def wait_until(self, deadline: float) -> None:
            self.waits += 1
            self.time = max(self.time, deadline) + (0.003 if self.waits < 14 else 0.0)

    busy = BusyAtFirst()
    monkeypatch.setattr(accelerator, "RealHost", lambda _: busy)
    assert accelerator._calibrate("sleep", 0.005) == pytest.approx(1.0)


# -- truths about queues --------------------------------------------------------------------------


def utilisation(host: FakeHost, *, step_s: float, stage_s: float, steps: int = 400) -> float:
    """Busy share of a device behind a stage that works beside it, one batch after the other."""
    device = EmulatedAccelerator(step_s)
    for batch in range(1, steps + 1):
        host.wait_until(batch * stage_s)
        device.step(None)
    device.synchronize()
    return device.busy_s / host.time


def test_a_device_of_20_ms_behind_a_cpu_of_35_ms_is_busy_57_percent(host: FakeHost) -> None:
    assert utilisation(host, step_s=0.020, stage_s=0.035) == pytest.approx(20 / 35, rel=0.01)


def test_a_consumer_of_30_ms_behind_a_stage_of_35_ms_is_busy_857_permille(host: FakeHost) -> None:
    assert utilisation(host, step_s=0.030, stage_s=0.035) == pytest.approx(0.857, rel=0.01)


def test_four_items_of_6_ms_before_30_ms_are_no_bottleneck(host: FakeHost) -> None:
    assert utilisation(host, step_s=0.030, stage_s=4 * 0.006) > 0.98


@given(
    st.lists(
        st.tuples(st.floats(0, 0.1), st.floats(0, 0.1), st.floats(0, 0.1)), min_size=1, max_size=50
    )
)
def test_busy_and_idle_time_fill_the_timeline_and_steps_never_overlap(
    launches: list[tuple[float, float, float]],
) -> None:
    device, now, last = Device(), 0.0, None
    first_begin = None
    for gap, seconds, delay in launches:
        now += gap
        booked = device.launch(now, seconds, ready_at=now + delay)
        begins_at = booked.ends_at - seconds
        first_begin = begins_at if first_begin is None else first_begin
        assert last is None or begins_at >= last - 1e-9
        assert begins_at >= now + delay - 1e-9
        assert booked.room_at <= booked.ends_at
        last = booked.ends_at
    assert last is not None
    assert first_begin is not None
    assert device.busy_s + device.idle_s == pytest.approx(last - first_begin, abs=1e-6)


@pytest.mark.parametrize("kind", ["sleep", "spin", "gil"])
def test_a_deadline_that_has_passed_returns_at_once(kind: Host) -> None:
    from stoker.emulate.host import RealHost

    host = RealHost(kind)
    host.wait_until(host.now() - 1.0)
