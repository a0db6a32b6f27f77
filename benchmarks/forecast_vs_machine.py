"""Claim: forecasts of real DataLoader runs: median error at most 10 %, 90th percentile 20 %.

Loaders of stages whose CPU and waiting are known, with 0, 1, 2 and 4 workers, in front of a step
that sleeps. The costs of a sample and of taking a finished batch are measured by themselves; the
forecast sees them and the number of cores, and nothing of the run that it is compared with.
Measurements begin when the machine is quiet, and the quickest of several windows counts: what else
runs can only add.

    python -m benchmarks.forecast_vs_machine
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
from torch.utils.data import DataLoader, Dataset

from benchmarks import record
from stoker.records.scenario import (
    LoaderSettings,
    Machine,
    Resource,
    Scenario,
    StageCost,
    Workload,
)
from stoker.stats import Spread
from stoker.theory.pipeline import forecast

CLAIM = "Forecast steps of real DataLoader runs: median error at most 10 %, p90 at most 20 %."
MEDIAN_ALLOWED, P90_ALLOWED = 0.10, 0.20
WORKERS = (0, 1, 2, 4)
# Long enough that a slice of the scheduler (a few milliseconds) is a small part of a window.
WINDOW_S = 0.8
WINDOWS = 4
LONE_SAMPLES = 64
# Others may use this share of the machine; after so many seconds of more it is measured anyway.
QUIET_SHARE = 0.05
PATIENCE_S = 4.0


class Stage(NamedTuple):
    """What loading one sample does, and the step that it feeds."""

    name: str
    cpu_s: float
    blocked_s: float
    step_s: float
    batch: int


STAGES = (
    Stage("decoding, slower than the step", 0.004, 0.0, 0.010, 8),
    Stage("decoding, as fast as two workers", 0.002, 0.0, 0.008, 8),
    Stage("decoding, faster than the step", 0.001, 0.0, 0.020, 8),
    Stage("reading, slower than the step", 0.0002, 0.006, 0.012, 8),
    Stage("reading and decoding", 0.001, 0.003, 0.012, 8),
    Stage("next to nothing", 0.0001, 0.0, 0.005, 8),
)


class Samples(Dataset[torch.Tensor]):
    """Samples that use a core for a while and wait for a while."""

    def __init__(self, stage: Stage, length: int) -> None:
        self._stage = stage
        self._length = length

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> torch.Tensor:
        if self._stage.blocked_s:
            time.sleep(self._stage.blocked_s)
        until = time.thread_time() + self._stage.cpu_s
        while time.thread_time() < until:
            pass
        return torch.zeros(16)


def _busy_s() -> tuple[float, float]:
    """CPU-seconds that the whole machine worked, and that it had, since it started."""
    fields = [int(text) for text in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    idle = fields[3] + fields[4]
    return float(sum(fields) - idle), float(sum(fields))


def wait_until_quiet() -> None:
    """Return when nearly nothing else runs, or when patience ends."""
    give_up = time.perf_counter() + PATIENCE_S
    while time.perf_counter() < give_up:
        before = _busy_s()
        time.sleep(0.3)
        busy, had = (after - was for after, was in zip(_busy_s(), before, strict=True))
        if busy <= QUIET_SHARE * had:
            return


def lone_costs(stage: Stage) -> tuple[float, float]:
    """CPU-seconds and blocked seconds of one sample without a loader, collating included."""
    samples = Samples(stage, LONE_SAMPLES)
    cpu, blocked = [], []
    for first in range(0, LONE_SAMPLES, stage.batch):
        wall_start, cpu_start = time.perf_counter(), time.thread_time()
        torch.stack([samples[index] for index in range(first, first + stage.batch)])
        used = time.thread_time() - cpu_start
        cpu.append(used / stage.batch)
        blocked.append((time.perf_counter() - wall_start - used) / stage.batch)
    return statistics.median(cpu), min(blocked) if stage.blocked_s else 0.0


def lone_step(stage: Stage) -> float:
    """Seconds of the sleeping step by itself: sleeps overshoot."""
    return min(_timed(lambda: time.sleep(stage.step_s)) for _ in range(20))


def lone_receive(stage: Stage) -> float:
    """Seconds in which a batch that is ready is taken from a worker."""
    empty = Stage("empty", 0.0, 0.0, stage.step_s, stage.batch)
    batches = iter(DataLoader(Samples(empty, stage.batch * 40), stage.batch, num_workers=1))
    taken = []
    for _ in range(30):
        time.sleep(stage.step_s)
        taken.append(_timed(lambda: next(batches)))
    return statistics.median(taken)


def _timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def measured_step(stage: Stage, workers: int, expected_s: float) -> float:
    """Mean seconds of a step, once the batches that were made beforehand are used up."""
    warm_up = max(4, 5 * 2 * workers)
    # Whole rounds of the workers, whose batches arrive together.
    steps = max(8, round(WINDOW_S / expected_s / 4) * 4)
    length = stage.batch * (warm_up + WINDOWS * steps + 4 * workers)
    loader = DataLoader(Samples(stage, length), batch_size=stage.batch, num_workers=workers)
    batches = iter(loader)

    def train(count: int) -> None:
        for _ in range(count):
            next(batches)
            time.sleep(stage.step_s)

    train(warm_up)
    return min(_timed(lambda: train(steps)) for _ in range(WINDOWS)) / steps


def scenario(stage: Stage, workers: int) -> Scenario:
    """What the forecast is told."""
    cpu_s, blocked_s = lone_costs(stage)
    stages = [
        StageCost(stage=name, resource=resource, per_sample=Spread.exact(seconds))
        for name, resource, seconds in (
            ("compute", Resource.CORES, cpu_s),
            ("wait", Resource.STORAGE, blocked_s),
        )
        if seconds > 0
    ]
    return Scenario(
        machine=Machine(cores=float(len(os.sched_getaffinity(0)))),
        workload=Workload(
            batch_size=stage.batch,
            stages=tuple(stages),
            device_s=Spread.exact(lone_step(stage)),
        ),
        loader=LoaderSettings(workers=workers, receive_s=Spread.exact(lone_receive(stage))),
    )


def percentile_90(values: list[float]) -> float:
    """The value below which nine in ten lie."""
    return statistics.quantiles(values, n=10, method="inclusive")[-1]


def main() -> int:
    """Every stage with every worker count."""
    argparse.ArgumentParser(description=CLAIM).parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", "This DataLoader will create")  # more workers than cores
    rows, numbers = {}, {}
    errors: list[float] = []
    for stage in STAGES:
        cells = []
        for workers in WORKERS:
            wait_until_quiet()
            told = forecast(scenario(stage, workers)).step_s.median
            seen = measured_step(stage, workers, told)
            errors.append(abs(told / seen - 1))
            cells.append(f"{1000 * told:.1f} / {1000 * seen:.1f} ms")
            numbers[f"{stage.name}, {workers}"] = {"forecast_s": told, "measured_s": seen}
        rows[stage.name] = [stage.name, *cells]
    median, p90 = statistics.median(errors), percentile_90(errors)
    holds = median <= MEDIAN_ALLOWED and p90 <= P90_ALLOWED
    rows["zz"] = ["error of all", f"median {median:.1%}", f"p90 {p90:.1%}", "", ""]
    held = record.write(
        "forecast_vs_machine",
        claim=CLAIM,
        columns=["loader", *(f"workers {count}: forecast / measured" for count in WORKERS)],
        rows=rows,
        numbers={
            name: {f"{count} workers": numbers.get(f"{name}, {count}", {}) for count in WORKERS}
            for name in rows
        },
        passed=dict.fromkeys(rows, holds),
    )
    return 0 if held else 1


if __name__ == "__main__":
    raise SystemExit(main())
