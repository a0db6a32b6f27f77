"""What only a CUDA device can show; skipped, and said so, where there is none."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
import torch

from stoker.probe.hooks.cuda import CudaWatch
from stoker.probe.snapshot import Snapshot

pytestmark = pytest.mark.gpu


def told_of(wait_s: float, launch_s: float = 0.0, steps: int = 30) -> dict[str, Any]:
    """The line of steps of some milliseconds on the device, after waiting for each batch."""
    written: list[dict[str, Any]] = []

    def write(kind: str, **fields: Any) -> None:
        written.append({"kind": kind, **fields})

    device = torch.device("cuda", torch.cuda.current_device())
    watch = CudaWatch(torch.cuda, device, write)
    work = multiplications(device)
    work()
    torch.cuda.synchronize()
    for _ in range(steps):
        time.sleep(wait_s)
        watch.batch_given("R")
        work()
        time.sleep(launch_s)
        watch.step_ended()
    torch.cuda.synchronize()
    watch.tell()
    return written[0]


def multiplications(device: torch.device) -> Callable[[], None]:
    matrix = torch.rand(2048, 2048, device=device)

    def work() -> None:
        for _ in range(20):
            matrix @ matrix

    return work


def test_a_device_that_waits_is_idle_and_one_that_does_not_is_not() -> None:
    starved, fed = told_of(0.050)["idle"], told_of(0.0)["idle"]
    assert len(starved) == 29
    assert sum(starved) > 10 * sum(fed)


def test_a_device_is_behind_launches_that_are_quicker_than_its_work() -> None:
    slow, quick = told_of(0.0, launch_s=0.100)["behind"], told_of(0.0)["behind"]
    assert max(slow) < 0.005
    assert quick[-1] > 0.005


def test_kept_batches_stay_pinned_on_the_host_and_move_to_the_device() -> None:
    batch = {"image": torch.rand(8, 3, 32, 32).pin_memory()}
    on_host = Snapshot(batch)
    on_device = Snapshot(on_host.source, lambda leaf: leaf.to("cuda"))
    assert on_host.hand_out()["image"].is_pinned()
    assert on_device.hand_out()["image"].device.type == "cuda"
