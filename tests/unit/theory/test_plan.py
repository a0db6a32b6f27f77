"""Targets turned into resources, and back again by the closed form."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.errors import InputError
from stoker.records.scenario import Machine
from stoker.stats import Spread
from stoker.theory.pipeline import forecast
from stoker.theory.plan import (
    Added,
    fastest_step,
    idle_usd_a_day,
    lacks,
    most_added,
    needs,
    provisioned,
    step_for,
)
from tests.unit.theory.scenarios import exact, starved, waiting


def test_a_utilisation_and_a_rate_are_two_ways_to_say_a_step() -> None:
    assert step_for(starved(), au=0.5) == pytest.approx(0.02)
    assert step_for(starved(), samples_per_s=500) == pytest.approx(0.02)


def test_the_least_resources_are_demand_over_the_step() -> None:
    scenario = starved(stored_bytes=1e6, sample_bytes=2e6, cached_share=0.5, reads=1.0)
    found = needs(scenario, 0.02)
    assert found.cores == pytest.approx(0.12 / 0.02)
    assert found.workers == 6
    assert found.storage_bytes_per_s == pytest.approx(10 * 0.5 * 1e6 / 0.02)
    assert found.storage_reads_per_s == pytest.approx(10 * 0.5 / 0.02)
    assert found.link_bytes_per_s == pytest.approx(10 * 2e6 / 0.02)
    assert (found.au, found.samples_per_s) == (0.5, 500.0)


def test_a_slow_store_is_made_up_for_by_the_page_cache() -> None:
    scenario = starved(stored_bytes=1e6)
    slow = msgspec.structs.replace(
        scenario, machine=Machine(cores=4, storage_bytes_per_s=1e8, accelerators=2)
    )
    assert needs(slow, 0.02).cached_share == pytest.approx(1 - 0.5e8 * 0.02 / 1e7)


@given(
    cpu=st.floats(1e-4, 0.05),
    blocked=st.floats(0, 0.05),
    training=st.floats(0, 0.02),
    au=st.floats(0.1, 1.0),
    accelerators=st.integers(1, 8),
)
def test_a_machine_with_exactly_the_needs_reaches_the_target_and_less_does_not(
    cpu: float, blocked: float, training: float, au: float, accelerators: int
) -> None:
    scenario = starved(stored_bytes=1e6, training_cpu_s=Spread.exact(training))
    scenario = msgspec.structs.replace(
        scenario,
        machine=Machine(cores=1, accelerators=accelerators, storage_bytes_per_s=1.0),
        workload=msgspec.structs.replace(scenario.workload, stages=(exact(cpu), waiting(blocked))),
    )
    step_s = step_for(scenario, au=au)
    enough = provisioned(scenario, needs(scenario, step_s))
    assert forecast(enough).au.median >= au * (1 - 1e-9)
    smaller = msgspec.structs.replace(
        enough.machine,
        cores=enough.machine.cores * 0.9,
        storage_bytes_per_s=(enough.machine.storage_bytes_per_s or 0.0) * 0.9,
    )
    assert forecast(msgspec.structs.replace(enough, machine=smaller)).au.median < au


def test_a_target_beyond_the_step_itself_names_the_best_that_loading_can_give() -> None:
    slow_copy = starved(transfer_s=Spread.exact(0.01))
    assert fastest_step(slow_copy) == pytest.approx(0.02)
    with pytest.raises(InputError, match="is the shortest") as caught:
        step_for(slow_copy, au=0.9)
    assert "AU of 0.500" in caught.value.run_next


def test_the_largest_part_that_loading_leaves_is_named() -> None:
    small, large = Spread.exact(0.001), Spread.exact(0.002)
    assert most_added(starved()) is None
    assert most_added(starved(transfer_s=large, epoch_edge_s=small)) is Added.TRANSFER
    assert most_added(starved(transfer_s=small, epoch_edge_s=large)) is Added.EPOCHS
    assert most_added(starved(contention_s=large, epoch_edge_s=small)) is Added.CONTENTION


@pytest.mark.parametrize(
    "target",
    [
        {"au": 1.5},
        {"au": 0.0},
        {"samples_per_s": -5.0},
        {"samples_per_s": float("nan")},
        {},
        {"au": 0.5, "samples_per_s": 10.0},
    ],
)
def test_a_target_that_is_none_is_refused(target: dict[str, float]) -> None:
    with pytest.raises(InputError):
        step_for(starved(), **target)


def test_a_hosts_lack_is_told_for_one_accelerators_share() -> None:
    scenario = msgspec.structs.replace(
        starved(stored_bytes=1e6), machine=Machine(cores=16, accelerators=4)
    )
    rows = {row.what: row for row in lacks(scenario, needs(scenario, 0.02))}
    assert rows["cores"].has == pytest.approx(4)
    assert rows["cores"].is_short
    assert rows["storage"].has is None
    assert not rows["storage"].is_short


def test_idle_accelerators_cost_their_share_of_the_price() -> None:
    assert idle_usd_a_day(starved(), 30.0) == pytest.approx(30 * 24 * (1 - 1 / 3))
    with pytest.raises(InputError):
        idle_usd_a_day(starved(), 0.0)
