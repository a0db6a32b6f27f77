"""Loops over batches with an emulated accelerator: it is a clock, all else is real.

Needs Python alone: it also runs in the environments of peers.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any

from stoker.emulate import EmulatedAccelerator

# Of a PCIe 4.0 link with sixteen lanes, as copies reach it.
LINK_BYTES_PER_S = 24e9
# However short a measurement is to be.
LEAST_STEPS = 8
# Steps that fill queues and warm caches before any is timed.
_WARMING = 6


def endless(loader: Iterable[Any]) -> Iterator[Any]:
    """Epoch after epoch."""
    while True:
        yield from loader


def limit_s(batches: Iterator[Any], seconds: float) -> float:
    """Seconds of a batch when nothing but loading goes on."""
    for _ in range(_WARMING):
        next(batches)
    count, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        next(batches)
        count += 1
    return (time.perf_counter() - began) / count


def step_s(batches: Iterator[Any], accelerator: EmulatedAccelerator, steps: int) -> float:
    """Mean seconds of a step of a loop over the batches.

    What is not on the device goes there while the step before runs, as a pinned copy does.
    """
    for _ in range(_WARMING):
        _step(next(batches), accelerator)
    accelerator.synchronize()
    began = time.perf_counter()
    for _ in range(steps):
        _step(next(batches), accelerator)
    accelerator.synchronize()
    return (time.perf_counter() - began) / steps


def _step(batch: Any, accelerator: EmulatedAccelerator) -> None:
    accelerator.step(accelerator.to_device(batch, non_blocking=True, pinned=True))
