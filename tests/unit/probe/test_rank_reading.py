"""Each rank's own numbers, from the lines that its process wrote."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.probe.rank_reading import loader_cores, read_ranks
from stoker.probe.trainer_lines import Trainer

Line = dict[str, Any]


def window(leg: str, *, wait: float, compute: float) -> Line:
    return {
        "kind": "window",
        "leg": leg,
        "wait": [wait] * 12,
        "compute": [compute] * 12,
        "per_step": [2, 2],
        "background": False,
        "round": 1,
    }


def drain(workers: int, period: float, cpu: float = 0.0) -> Line:
    return {
        "kind": "drain",
        "what": "L",
        "workers": workers,
        "periods": [period] * 10,
        "cpu_s": 10 * cpu,
        "main_cpu_s": 0.0,
    }


def trainer(rank: int, *more: Line, world: int = 2, wait: float = 0.01) -> Trainer:
    facts = {"kind": "training-loader", "workers": 2, "rank": rank, "world": world}
    steps = window("R", wait=wait, compute=0.02), window("D", wait=0.0, compute=0.015)
    return Trainer([facts, *steps, *more])


def test_a_rank_is_told_in_seconds_of_a_step() -> None:
    (facts,) = read_ranks([trainer(3, drain(2, 0.01))])
    assert facts.rank == 3
    # Two batches make a step.
    assert facts.real_s == pytest.approx(0.06)
    assert facts.device_s == pytest.approx(0.03)
    assert facts.loader_s == pytest.approx(0.02)
    assert facts.wait_s == pytest.approx(0.02)


def test_other_worker_counts_say_nothing_of_the_loader_as_it_is() -> None:
    (facts,) = read_ranks([trainer(0, drain(2, 0.01), drain(0, 0.5), drain(4, 0.002))])
    assert facts.loader_s == pytest.approx(0.02)


def test_a_rank_seen_twice_counts_once() -> None:
    facts = read_ranks([trainer(0), trainer(1, wait=0.03), trainer(1, wait=0.0)])
    assert [rank.rank for rank in facts] == [0, 1]
    assert facts[1].wait_s == pytest.approx(0.06)


def test_processes_that_train_on_their_own_are_no_ranks() -> None:
    assert read_ranks([trainer(0, world=1), trainer(0, world=1)]) == ()


def test_a_rank_that_ended_before_any_step_is_left_out() -> None:
    facts = {"kind": "training-loader", "workers": 0, "rank": 1, "world": 2}
    assert [rank.rank for rank in read_ranks([trainer(0), Trainer([facts])])] == [0]


def test_a_ranks_loader_keeps_cores_busy_that_are_not_foreign() -> None:
    assert loader_cores(trainer(1, drain(2, 0.01, cpu=0.015))) == pytest.approx(1.5)
    assert loader_cores(trainer(1)) == 0.0
