"""Variance beyond the closed form."""

from __future__ import annotations

import msgspec
import pytest

from stoker.errors import InputError
from stoker.records.scenario import Scenario
from stoker.stats import Spread
from stoker.theory.pipeline import forecast
from stoker.theory.stalls import DEPTHS, stalls
from tests.unit.theory.scenarios import starved


def just_fed(batch: int = 1) -> Scenario:
    """Four workers that make a batch in 90 % of the step."""
    before = starved()
    work = msgspec.structs.replace(
        before.workload,
        batch_size=batch,
        device_s=Spread.exact(batch * 0.012 / 4 / 0.9),
    )
    return msgspec.structs.replace(before, workload=work)


def test_without_variation_the_simulation_is_the_closed_form() -> None:
    for scenario in (starved(), just_fed()):
        expected = forecast(scenario).au.median
        assert [one.au for one in stalls(scenario, 0.0)] == pytest.approx(
            [expected] * (len(DEPTHS) + 1), rel=0.01
        )


def test_variance_starves_a_fed_accelerator_and_a_deeper_queue_helps() -> None:
    by_depth = {one.prefetch_factor: one.au for one in stalls(just_fed(), 1.5) if one.in_order}
    assert by_depth[2] < 0.95
    assert by_depth[2] < by_depth[4] < by_depth[8]


def test_delivery_out_of_order_helps_at_the_same_depth() -> None:
    in_order, *_, out_of_order = stalls(just_fed(), 1.5)
    assert (in_order.prefetch_factor, out_of_order.in_order) == (2, False)
    assert out_of_order.au > in_order.au


def test_many_samples_a_batch_even_the_variance_out() -> None:
    single, large = (stalls(just_fed(batch), 1.5)[0].au for batch in (1, 256))
    assert large > single + 0.02


def test_a_queue_and_a_variation_are_needed() -> None:
    serial = msgspec.structs.replace(
        starved(), loader=msgspec.structs.replace(starved().loader, workers=0)
    )
    with pytest.raises(InputError, match="nothing is queued"):
        stalls(serial, 1.0)
    for nonsense in (-1.0, float("nan"), float("inf")):
        with pytest.raises(InputError, match="the variation is"):
            stalls(starved(), nonsense)
