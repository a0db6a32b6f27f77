"""The emulated device in real time, with real threads: ratios within one run, wide margins."""

from __future__ import annotations

import queue
import threading
import time

import pytest

from stoker import EmulatedAccelerator
from stoker.emulate.host import Host


def utilisation(*, step_s: float, stage_s: float, steps: int = 40, depth: int = 2) -> float:
    """Busy share of a device fed by one thread through a bounded queue, after the first batch."""
    batches: queue.Queue[int] = queue.Queue(maxsize=depth)

    def produce() -> None:
        deadline = time.perf_counter()
        for batch in range(steps):
            deadline = max(deadline, time.perf_counter()) + stage_s
            time.sleep(max(0.0, deadline - time.perf_counter()))
            batches.put(batch)

    device = EmulatedAccelerator(step_s, asynchronous=False)
    producer = threading.Thread(target=produce)
    producer.start()
    for _ in range(steps):
        device.step(batches.get())
    producer.join()
    return device.busy_s / (device.busy_s + device.idle_s)


def test_a_consumer_of_30_ms_behind_a_stage_of_35_ms_is_busy_857_permille() -> None:
    assert utilisation(step_s=0.030, stage_s=0.035) == pytest.approx(0.857, abs=0.03)


def test_a_device_of_20_ms_behind_a_cpu_of_35_ms_is_busy_57_percent() -> None:
    assert utilisation(step_s=0.020, stage_s=0.035) == pytest.approx(20 / 35, abs=0.03)


def test_a_stage_faster_than_the_device_is_no_bottleneck() -> None:
    assert utilisation(step_s=0.030, stage_s=0.024) > 0.97


@pytest.mark.parametrize("host", ["sleep", "spin", "gil"])
def test_lateness_does_not_add_up_over_many_steps(host: Host) -> None:
    device = EmulatedAccelerator(0.002, host=host)
    began = time.perf_counter()
    for _ in range(200):
        device.step(None)
    device.synchronize()
    assert time.perf_counter() - began == pytest.approx(0.4, rel=0.05)
    assert device.calibrate() >= 0.99


@pytest.mark.parametrize(("host", "least", "most"), [("sleep", 0.0, 0.3), ("spin", 0.5, 1.1)])
def test_a_sleeping_host_frees_its_core_and_a_spinning_one_does_not(
    host: Host, least: float, most: float
) -> None:
    device = EmulatedAccelerator(0.010, asynchronous=False, host=host)
    wall, cpu = time.perf_counter(), time.thread_time()
    for _ in range(20):
        device.step(None)
    share = (time.thread_time() - cpu) / (time.perf_counter() - wall)
    assert least <= share <= most


def test_a_launch_is_cpu_time_of_the_caller() -> None:
    device = EmulatedAccelerator(0.0, launch_s=0.01)
    cpu = time.thread_time()
    for _ in range(10):
        device.step(None).item()
    assert time.thread_time() - cpu == pytest.approx(0.1, rel=0.1)
