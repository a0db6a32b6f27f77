"""Cores at the pace of other accelerators: which ones, how much faster, from where."""

from __future__ import annotations

from itertools import pairwise

import pytest

from stoker.records.zoo import Precision
from stoker.stats import Spread
from stoker.theory.calibrate import scenario_from
from stoker.theory.capacity import PRESENT, cores_at, faster_than, if_faster, known_as
from stoker.theory.pipeline import cores_needed
from stoker.zoo.load import PACKAGED, Zoo
from tests.unit.theory.test_calibrate import profile

ZOO = Zoo((PACKAGED,))


@pytest.mark.parametrize(
    ("driver", "entry"),
    [
        ("NVIDIA A100-SXM4-80GB", "a100-sxm4-80"),
        ("NVIDIA H100 80GB HBM3", "h100-sxm5-80"),
        ("Tesla V100-SXM2-16GB", "v100-sxm2-16"),
        ("Tesla T4", "t4"),
        ("NVIDIA GeForce RTX 3090", "rtx3090"),
        ("NVIDIA H200", "h200-sxm-141"),
    ],
)
def test_what_drivers_call_their_devices_is_found_in_the_zoo(driver: str, entry: str) -> None:
    found = known_as(driver, ZOO.machines)
    assert found is not None and found.name == entry


def test_a_device_that_nobody_knows_is_none() -> None:
    assert known_as("Voodoo 3 3000", ZOO.machines) is None


@pytest.mark.parametrize("name", ["v100-sxm2-16", "a100-sxm4-80", "h100-sxm5-80", "mi250x"])
def test_the_next_accelerators_are_faster_whatever_the_model_does(name: str) -> None:
    now = ZOO.machines[name]
    paces = faster_than(now, ZOO.machines.values())
    assert paces
    for pace in paces:
        other = ZOO.machines[pace.name]
        assert other.vendor == now.vendor
        moving = other.memory_bytes_per_s.value / now.memory_bytes_per_s.value
        computing = other.peak(Precision.FP16) / now.peak(Precision.FP16)  # type: ignore[operator]
        assert sorted((moving, computing)) == pytest.approx([pace.times.low, pace.times.high])
        assert now.name in pace.source
        assert 1.0 <= pace.times.low <= pace.times.median <= pace.times.high
    assert all(b.times.median >= 1.5 * a.times.median for a, b in pairwise(paces))


def test_the_fastest_of_a_maker_has_none_next_to_it() -> None:
    assert faster_than(ZOO.machines["b200-sxm-180"], ZOO.machines.values()) == ()


def test_published_rates_of_one_model_lie_within_the_band() -> None:
    # ResNet-50 in the same round of MLPerf: the band has to hold what was really run.
    rates: dict[str, list[float]] = {}
    for rate in ZOO.rates:
        if rate.model.startswith("resnet50") and rate.stack == "fused":
            rates.setdefault(rate.accelerator, []).append(rate.per_accelerator.value)
    checked = 0
    for name in ("v100-sxm2-16", "a100-sxm4-80"):
        for pace in faster_than(ZOO.machines[name], ZOO.machines.values()):
            if name in rates and pace.name in rates:
                measured = max(rates[pace.name]) / max(rates[name])
                assert 0.8 * pace.times.low <= measured <= 1.25 * pace.times.high, pace
                checked += 1
    assert checked


def test_an_accelerator_of_twice_the_pace_wants_twice_the_cores() -> None:
    scenario = scenario_from(profile(2))
    now = cores_at(scenario, PRESENT)
    assert now.median == pytest.approx(cores_needed(scenario))
    assert now.low < now.median < now.high
    twice = if_faster()[0]
    assert twice.times == Spread.exact(2.0)
    assert cores_at(scenario, twice).median == pytest.approx(2 * now.median)


def test_a_band_of_paces_widens_the_interval() -> None:
    scenario = scenario_from(profile(2))
    band = PRESENT._replace(times=Spread(2.0, 1.0, 4.0))
    now, later = cores_at(scenario, PRESENT), cores_at(scenario, band)
    assert later.low == pytest.approx(now.low)
    assert later.high == pytest.approx(4 * now.high)
