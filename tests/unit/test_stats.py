from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.stats import (
    Spread,
    block_means,
    bootstrap,
    change_point,
    difference,
    median_spread,
    outliers,
    ratio,
    warmup_end,
)

POSITIVE = st.floats(1e-6, 1e3, allow_nan=False)


@given(st.lists(POSITIVE, min_size=2, max_size=60))
def test_the_bootstrap_of_a_mean_contains_the_mean(values: list[float]) -> None:
    spread = bootstrap(values)
    assert spread.low <= spread.median + 1e-12
    assert spread.high >= spread.median - 1e-12
    assert spread.median == pytest.approx(float(np.mean(values)))


@given(st.lists(POSITIVE, min_size=2, max_size=40))
def test_the_same_values_give_the_same_interval(values: list[float]) -> None:
    assert bootstrap(values) == bootstrap(values)


def test_nineteen_in_twenty_intervals_contain_the_truth() -> None:
    rng = np.random.default_rng(1)
    hits = sum(
        spread.low <= 1.0 <= spread.high
        for spread in (bootstrap(rng.normal(1.0, 0.2, 20).tolist()) for _ in range(400))
    )
    # 95 % of 400 is 380; six standard deviations of a binomial below that is 354
    assert hits >= 354


def test_one_value_promises_nothing() -> None:
    spread = bootstrap([0.1])
    assert spread.low == -math.inf
    assert not spread.is_promise


def test_no_values_are_refused() -> None:
    with pytest.raises(ValueError, match="no values"):
        bootstrap([])


def test_rounds_of_workers_are_resampled_whole() -> None:
    bursts = [0.001, 0.199] * 20  # two workers: every other batch is there at once
    assert bootstrap(bursts, block=2).half_width_share < 1e-9
    assert bootstrap(bursts).half_width_share > 0.2


def test_an_incomplete_round_is_left_out() -> None:
    assert block_means([1.0, 3.0, 1.0, 3.0, 9.0], 2).tolist() == [2.0, 2.0]


@given(POSITIVE, POSITIVE)
def test_exact_numbers_differ_exactly(a: float, b: float) -> None:
    spread = difference(Spread.exact(a), Spread.exact(b))
    assert (spread.low, spread.median, spread.high) == (a - b, a - b, a - b)


def test_a_ratio_of_nothing_is_no_number() -> None:
    assert math.isnan(ratio(Spread.exact(1.0), Spread.exact(0.0)).median)


def test_half_widths_add_in_quadrature() -> None:
    spread = difference(Spread(10, 7, 13), Spread(5, 1, 9))
    assert (spread.low, spread.high) == (0.0, 10.0)


def test_a_wide_interval_is_no_promise() -> None:
    assert Spread(2.0, 1.8, 2.2).is_promise
    assert not Spread(2.0, 1.5, 2.2).is_promise


def test_the_one_slow_value_is_an_outlier() -> None:
    assert outliers([1.0, 1.1, 0.9, 1.0, 1.05, 9.0]) == [5]


def test_a_level_series_has_no_change() -> None:
    rng = np.random.default_rng(2)
    assert change_point((1 + 0.05 * rng.standard_normal(60)).tolist()) is None


@pytest.mark.parametrize("before", [0.3, 3.0])
def test_warm_up_ends_where_the_level_changes(before: float) -> None:
    rng = np.random.default_rng(3)
    noise = 1 + 0.03 * rng.standard_normal(60)
    series = np.concatenate((np.full(20, before), np.full(40, 1.0))) * noise
    assert warmup_end(series.tolist()) == 20


def test_bursts_of_two_workers_are_no_warm_up() -> None:
    assert warmup_end([0.086, 0.458] * 20, block=2) == 0


def test_a_change_of_five_percent_is_left_alone() -> None:
    assert warmup_end([1.0] * 30 + [1.05] * 30) == 0


def test_a_disturbance_near_the_end_is_not_the_end_of_warm_up() -> None:
    steady = np.random.default_rng(3).normal(0.175, 0.003, 60).tolist()
    assert warmup_end([*steady, 0.176, 0.58, 0.96, 0.44]) == 0


def test_warm_up_before_such_a_disturbance_is_still_found() -> None:
    rng = np.random.default_rng(3)
    warming, steady = rng.normal(0.25, 0.003, 12), rng.normal(0.175, 0.003, 60)
    assert warmup_end([*warming, *steady, 0.58, 0.96, 0.44]) == 12


def test_the_median_is_told_with_its_interval() -> None:
    spread = median_spread([1.0, 2.0, 3.0, 4.0, 100.0])
    assert spread.median == 3.0
    assert spread.low >= 1.0 - 1.0
