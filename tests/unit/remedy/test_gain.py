"""How sure a gain is: told by rounds of workers, in bounded memory, open where it may be none."""

from __future__ import annotations

import random
from itertools import cycle, islice

import pytest

from stoker.remedy.gain import Gain, Mean, Stretches, gain

BURST = (0.01, 0.01, 0.01, 0.37)  # as four workers deliver: 100 ms a step


def mean(*steps: float, round_steps: int = 1) -> Mean:
    found = Stretches(steps).mean(round_steps)
    assert found is not None
    return found


def of(own: Mean, remedied: Mean) -> Gain:
    found = gain(own, remedied)
    assert found is not None
    return found


def test_steps_that_are_all_alike_leave_no_doubt() -> None:
    found = of(mean(*[0.2] * 24), mean(*[0.1] * 300))
    assert (found.median, found.low, found.high) == pytest.approx((2.0, 2.0, 2.0))
    assert found.count == 24
    assert not found.is_open
    assert found.text == "2.00x, 2.00–2.00"


def test_a_gain_that_may_be_none_is_open_and_one_that_is_lost_is_not() -> None:
    uneven = [0.05, 0.15, 0.1, 0.14, 0.06] * 5
    assert of(mean(*uneven), mean(*(0.97 * one for one in uneven))).is_open
    assert not of(mean(*uneven), mean(*(0.3 * one for one in uneven))).is_open
    slower = of(mean(*[0.1] * 24), mean(*[0.2] * 24))
    assert slower.high is not None and slower.high < 1 and not slower.is_open


def test_what_comes_in_rounds_is_told_by_whole_rounds() -> None:
    steps = list(islice(cycle(BURST), 96))
    by_rounds, by_steps = mean(*steps, round_steps=4), mean(*steps)
    assert by_rounds.half_s == pytest.approx(0.0, abs=1e-9)
    assert by_steps.half_s is not None and by_steps.half_s > 0.02
    assert by_rounds.seconds == by_steps.seconds == pytest.approx(0.1)


def test_steps_of_one_round_alone_have_no_interval() -> None:
    few = mean(*BURST, *BURST[:3], round_steps=4)
    assert few.half_s is None
    found = of(mean(*[0.2] * 24), few)
    assert (found.low, found.high, found.count) == (None, None, 7)
    assert not found.is_open
    assert found.text.endswith("x, too few steps for an interval")


def test_a_long_run_needs_no_more_memory_and_loses_no_step() -> None:
    stretches = Stretches(0.1 + 0.001 * (step % 7) for step in range(10_003))
    assert len(stretches._sums) < 128
    found = stretches.mean(8)
    assert found is not None and found.half_s is not None
    assert (found.count, found.seconds) == (10_003, pytest.approx(0.103, rel=1e-3))
    assert found.half_s < 1e-4


def test_no_step_has_no_mean_and_no_time_no_gain() -> None:
    assert Stretches().mean() is None
    assert gain(mean(0.1, 0.1), mean(0.0, 0.0)) is None


def test_nineteen_of_twenty_intervals_hold_the_gain() -> None:
    draw = random.Random(3)
    held = 0
    for _ in range(200):
        own = mean(*(draw.gauss(0.2, 0.04) for _ in range(24)))
        found = of(own, mean(*(draw.gauss(0.1, 0.02) for _ in range(60))))
        assert found.low is not None and found.high is not None
        held += found.low <= 2.0 <= found.high
    assert 180 <= held < 200
