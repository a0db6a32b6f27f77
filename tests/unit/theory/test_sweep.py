"""Grids, crossovers and sensitivities against numbers that can be worked out."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.errors import InputError
from stoker.records.scenario import Resource, Scenario
from stoker.stats import Spread
from stoker.theory.pipeline import forecast, gain
from stoker.theory.sweep import (
    batch_crossover,
    batch_crossover_of,
    crossovers,
    grid,
    sensitivity,
    sweep,
)
from stoker.theory.whatif import workers
from tests.unit.theory.scenarios import starved


def at_batch(size: float) -> Scenario:
    """A step of 8 ms + 1 ms a sample; 3 ms of host a sample: B* = 8/(3 − 1) = 4, plateau 1/3."""
    before = starved()
    work = msgspec.structs.replace(
        before.workload, batch_size=int(size), device_s=Spread.exact(0.008 + 0.001 * size)
    )
    return msgspec.structs.replace(before, workload=work)


def test_the_crossover_of_batch_sizes_is_the_fixed_cost_over_the_difference() -> None:
    found = batch_crossover(fixed_s=0.008, device_s=0.001, host_s=0.003)
    assert found.batch == pytest.approx(4)
    assert found.plateau == pytest.approx(1 / 3)


def test_a_host_no_slower_than_the_device_never_stalls_it() -> None:
    assert batch_crossover(0.008, 0.001, 0.001).batch is None
    assert batch_crossover(0.008, 0.001, 0.0005).plateau == 1.0


def test_a_step_without_a_fixed_part_is_stalled_at_every_batch_size() -> None:
    assert batch_crossover(0.0, 0.001, 0.002).batch == 0.0


def test_the_crossover_is_read_from_scenarios_of_two_sizes() -> None:
    found = batch_crossover_of(at_batch, 1, 1024)
    assert found.batch == pytest.approx(4)
    assert found.plateau == pytest.approx(1 / 3)


@given(fixed=st.floats(1e-4, 0.1), device=st.floats(1e-5, 1e-2), times=st.floats(1.01, 20.0))
def test_at_the_crossover_both_sides_take_as_long(
    fixed: float, device: float, times: float
) -> None:
    found = batch_crossover(fixed, device, device * times)
    assert found.batch is not None
    assert fixed + device * found.batch == pytest.approx(device * times * found.batch)


def test_a_sweep_finds_the_first_value_at_which_the_limit_changes() -> None:
    points = sweep(at_batch, grid(1, 1024, points=20, whole=True))
    (turn,) = crossovers(at_batch, points, whole=True)
    assert (turn.before, turn.after) == (Resource.ACCELERATOR, Resource.CORES)
    assert turn.value == 5  # at 4 both sides take 12 ms
    assert forecast(at_batch(turn.value - 1)).limit is Resource.ACCELERATOR


def test_a_sweep_without_a_turn_has_no_crossover() -> None:
    points = sweep(at_batch, grid(64, 1024, points=8, whole=True))
    assert crossovers(at_batch, points, whole=True) == ()


def test_a_continuous_axis_is_solved_to_the_last_digit() -> None:
    def at_speed(factor: float) -> Scenario:
        before = starved()
        work = msgspec.structs.replace(before.workload, device_s=Spread.exact(0.01 * factor))
        return msgspec.structs.replace(before, workload=work)

    points = sweep(at_speed, grid(0.5, 8, points=5, whole=False))
    (turn,) = crossovers(at_speed, points, whole=False)
    assert turn.value == pytest.approx(3.0, rel=1e-8)


@pytest.mark.parametrize(
    ("low", "high", "points", "whole", "expected"),
    [
        (1, 4, 10, True, (1, 2, 3, 4)),
        (1, 16, 4, True, (1, 6, 11, 16)),
        (1, 1000, 4, False, (1, 10, 100, 1000)),
        (0, 1, 3, False, (0, 0.5, 1)),
    ],
)
def test_a_grid_is_even_or_geometric_as_its_span_asks(
    low: float, high: float, points: int, whole: bool, expected: tuple[float, ...]
) -> None:
    assert grid(low, high, points=points, whole=whole) == pytest.approx(expected)


@pytest.mark.parametrize(("low", "high"), [(5, 5), (7, 3), (-1, 3), (1, float("inf"))])
def test_an_empty_range_is_refused(low: float, high: float) -> None:
    with pytest.raises(InputError, match="is no range"):
        grid(low, high, points=10, whole=False)


def test_the_binding_resource_comes_first_and_others_save_nothing() -> None:
    first, *others = sensitivity(starved())
    assert first.what == "10% more cores and workers"
    assert first.saved.median == pytest.approx(1 - 1 / 1.1, rel=0.01)
    saved = {effect.what: effect.saved.median for effect in others}
    assert saved["a 10% faster accelerator"] == pytest.approx(0.0)
    assert saved["1 more worker"] == pytest.approx(0.0)
    assert saved["a 10% cheaper decode"] == pytest.approx(1 - (10 / 1.1 + 2) / 12)


def test_what_an_investment_saves_is_the_gain_of_the_closed_form() -> None:
    before = starved()
    for effect in sensitivity(before):
        assert 1 - 1 / gain(before, effect.after).median == pytest.approx(effect.saved.median)


def test_on_a_fed_accelerator_only_a_faster_one_helps() -> None:
    fed = workers(starved(), 4)
    fed = msgspec.structs.replace(
        fed, workload=msgspec.structs.replace(fed.workload, device_s=Spread.exact(1.0))
    )
    first, second, *_ = sensitivity(fed)
    assert first.what == "a 10% faster accelerator"
    assert second.saved.median == pytest.approx(0.0)
