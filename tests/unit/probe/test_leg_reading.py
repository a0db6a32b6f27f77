"""Steps at two batch sizes, put together from the windows of leg F."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.probe.leg_reading import Steps, read_sizes
from stoker.probe.trainer_lines import Trainer

Line = dict[str, Any]


def steps(*windows: Line) -> Steps:
    """Of a loader without workers."""
    return Steps(Trainer([{"kind": "training-loader", "workers": 0}, *windows]))


def window(leg: str, seconds: float, *, variant: str = "", count: int = 8, each: int = 1) -> Line:
    line = {"kind": "window", "leg": leg, "variant": variant, "background": False, "round": 1}
    return line | {
        "wait": [0.0] * count,
        "compute": [seconds] * count,
        "per_step": [each] * 10,
        "main_cores": None,
    }


def turns(*, each: int = 1) -> list[Line]:
    sides = [
        window("F", 0.04, variant="whole", each=each),
        window("F", 0.03, variant="half", each=each),
    ]
    return [window("R", 0.05, each=each), *sides, *sides]


def test_steps_on_whole_batches_and_on_halves_are_told_apart() -> None:
    found = read_sizes(steps(*turns()), 9)
    assert found is not None
    assert (found.samples, found.half_samples) == (9, 4)
    assert found.whole.median == pytest.approx(0.04)
    assert found.half.median == pytest.approx(0.03)
    assert found.half.count == 16


def test_a_step_of_two_batches_takes_two_of_each_size() -> None:
    found = read_sizes(steps(*turns(each=2)), 9)
    assert found is not None
    assert (found.samples, found.half_samples) == (18, 8)
    assert found.half.median == pytest.approx(0.06)


@pytest.mark.parametrize("more", [[], [window("F", 0.03, variant="half", count=3)]])
def test_a_size_that_was_hardly_seen_tells_nothing(more: list[Line]) -> None:
    seen = [window("R", 0.05), window("F", 0.04, variant="whole")]
    assert read_sizes(steps(*seen, *more), 9) is None
