"""Simulated loaders and chains against what queueing theory and published runs say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.errors import InputError
from stoker.theory.queue import Station, chain, loader_run, loader_runs

MS = 1e-3


def heavy_tailed(mean_s: float, count: int = 4000) -> list[float]:
    costs = np.random.default_rng(1).lognormal(0.0, 1.2, count)
    return list(costs * mean_s / costs.mean())


@pytest.mark.parametrize(
    ("stage_ms", "step_ms", "au"), [(35, 30, 0.857), (35, 20, 0.571), (25, 30, 1.0)]
)
def test_a_constant_stage_and_a_constant_step_give_their_ratio(
    stage_ms: float, step_ms: float, au: float
) -> None:
    found = loader_run([stage_ms * MS] * 100, [step_ms * MS], workers=1)
    assert found.au == pytest.approx(au, abs=5e-4)
    assert found.step_s == pytest.approx(max(stage_ms, step_ms) * MS)


def test_two_workers_make_twice_the_batches_of_one() -> None:
    one = loader_run([80 * MS] * 200, [10 * MS], workers=1)
    two = loader_run([80 * MS] * 200, [10 * MS], workers=2)
    assert one.step_s == pytest.approx(2 * two.step_s)


def test_without_workers_making_and_using_take_turns() -> None:
    found = loader_run([35 * MS] * 50, [20 * MS], workers=0)
    assert found.step_s == pytest.approx(55 * MS)
    assert found.ready_share == 0.0


def test_a_gathering_stage_leaves_the_queue_before_it_empty_without_being_a_bottleneck() -> None:
    """SPDL's example: items of 6 ms by four for a step of 30 ms; the run there showed 57 %."""
    found = chain([Station(6 * MS), Station(0.0, group=4), Station(0.0), Station(30 * MS)])
    assert found.occupancy[0] == pytest.approx(0.6, abs=1e-9)
    assert found.utilisation == pytest.approx(1.0)


def test_gathering_six_items_of_6_ms_starves_a_step_of_30_ms() -> None:
    found = chain([Station(6 * MS), Station(0.0, group=6), Station(30 * MS)])
    assert found.period_s == pytest.approx(36 * MS)
    assert found.occupancy[0] == pytest.approx(0.0, abs=1e-9)


def test_the_slowest_station_sets_the_pace_and_empties_the_queues_behind_it() -> None:
    found = chain([Station(10 * MS), Station(25 * MS), Station(40 * MS), Station(30 * MS)])
    assert found.period_s == pytest.approx(40 * MS)
    assert found.occupancy == pytest.approx((1.0, 1.0, 0.0), abs=0.02)


def test_variance_stalls_a_loader_that_is_fast_enough_on_the_average() -> None:
    costs = heavy_tailed(50 * MS)
    found = loader_run(costs, [30 * MS], workers=2)
    constant = loader_run([50 * MS] * len(costs), [30 * MS], workers=2)
    assert constant.au == pytest.approx(1.0)
    assert found.au < 0.9


def test_depth_and_then_disorder_mend_the_stalls_of_variance() -> None:
    costs = heavy_tailed(50 * MS)
    shallow = loader_run(costs, [30 * MS], workers=2, prefetch_factor=1)
    deep = loader_run(costs, [30 * MS], workers=2, prefetch_factor=8)
    unordered = loader_run(costs, [30 * MS], workers=2, prefetch_factor=8, in_order=False)
    assert shallow.au + 0.1 < deep.au
    assert deep.au < unordered.au


def test_out_of_order_a_slow_batch_holds_up_its_own_worker_alone() -> None:
    """Two workers, a batch ahead each: one takes 100 ms, the other makes all the others in 10."""
    costs = [100 * MS] + [10 * MS] * 8
    loose = loader_runs(
        np.array([costs]),
        np.array([[10 * MS]]),
        workers=2,
        prefetch_factor=1,
        in_order=False,
        warm_up=0,
    )
    # The quick worker's eight are made while the ones before them are used; then the slow one.
    assert loose.step_s[0] * len(costs) == pytest.approx(110 * MS)
    strict = loader_runs(
        np.array([costs]), np.array([[10 * MS]]), workers=2, prefetch_factor=1, warm_up=0
    )
    # The slow one is waited for first, and then none.
    assert strict.step_s[0] * len(costs) == pytest.approx(190 * MS)


def test_out_of_order_no_worker_is_given_more_than_its_share_of_the_queue() -> None:
    """Two ahead each: what stands behind the slow batch waits for it, whoever is free."""
    costs = [300 * MS, 10 * MS, 10 * MS] + [10 * MS] * 17
    found = loader_runs(
        np.array([costs]),
        np.array([[10 * MS]]),
        workers=2,
        prefetch_factor=2,
        in_order=False,
        warm_up=0,
    )
    # 18 batches of the quick worker are over at 190 ms; the slow one and its follower come last.
    assert found.step_s[0] * len(costs) == pytest.approx(320 * MS)


@given(seed=st.integers(0, 1000), in_order=st.booleans())
def test_runs_side_by_side_are_each_what_they_are_alone(seed: int, in_order: bool) -> None:
    rng = np.random.default_rng(seed)
    costs, steps = rng.uniform(1e-3, 0.1, (3, 40)), rng.uniform(1e-3, 0.1, (3, 4))
    together = loader_runs(costs, steps, workers=3, in_order=in_order)
    for row in range(3):
        alone = loader_run(list(costs[row]), list(steps[row]), workers=3, in_order=in_order)
        assert [values[row] for values in together] == pytest.approx(list(alone))


def test_no_depth_mends_a_loader_that_is_too_slow_on_the_average() -> None:
    costs = heavy_tailed(90 * MS)
    deep = loader_run(costs, [30 * MS], workers=2, prefetch_factor=16)
    assert 44 * MS < deep.step_s < 52 * MS


def test_the_prefetched_start_is_not_counted() -> None:
    found = loader_run([100 * MS] * 60, [10 * MS], workers=4, prefetch_factor=4)
    assert found.step_s == pytest.approx(25 * MS, rel=0.02)


@given(
    costs=st.lists(st.floats(1e-3, 0.2), min_size=30, max_size=60),
    step=st.floats(1e-3, 0.2),
    workers=st.integers(1, 4),
    in_order=st.booleans(),
)
def test_a_run_is_never_faster_than_its_slower_side(
    costs: list[float], step: float, workers: int, in_order: bool
) -> None:
    found = loader_run(costs, [step], workers=workers, in_order=in_order)
    assert found.step_s >= step * (1 - 1e-9)
    assert 0 < found.au <= 1 + 1e-9
    assert found.step_s <= step + max(costs) + 1e-9


def test_too_few_batches_are_refused_because_they_only_fill_the_queue() -> None:
    with pytest.raises(InputError, match="only fill the queue"):
        loader_run([0.1] * 8, [0.1], workers=2)
    with pytest.raises(InputError, match="prefetch_factor is 0"):
        loader_run([0.1] * 80, [0.1], workers=2, prefetch_factor=0)
    with pytest.raises(InputError, match="no chain"):
        chain([Station(0.1)])
