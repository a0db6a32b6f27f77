"""The step-time equations, with constants that make each term easy to reckon by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from stoker.records.zoo import Work
from stoker.theory.roofline import (
    Array,
    Devices,
    Networks,
    Texts,
    attainable_bandwidth,
    attainable_flops,
    network_seconds,
    text_seconds,
)


class Ones:
    """Every constant is one, but for those given."""

    def __init__(self, **given: float) -> None:
        self._given = {name.replace("__", "."): value for name, value in given.items()}

    def __call__(self, name: str, labels: Sequence[str] | None = None) -> Array:
        default = 0.0 if name.startswith(("exponent.", "ramp.", "host.", "update.")) else 1.0
        if name == "issue.bytes" or name == "issue.turned":
            default = 1e30
        if labels is None:
            return np.array([self._given.get(name, default)])
        return np.array(
            [self._given.get(f"{name}.{one}", self._given.get(name, default)) for one in labels]
        )


def devices(**changed: float) -> Devices:
    numbers = {
        "peak": 100.0,
        "full": 100.0,
        "product": np.nan,
        "sustained": np.inf,
        "bandwidth": 10.0,
        "issue": np.inf,
        **changed,
    }
    arrays = {name: np.array([value]) for name, value in numbers.items()}
    return Devices(names=["toy"], architectures=["toys"], **arrays)


def networks(**changed: object) -> Networks:
    fields: dict[str, object] = {
        "names": ["net"],
        "stacks": ["amp"],
        "layouts": ["nhwc"],
        "frameworks": ["usual"],
        "norms": ["half"],
        "macs": {Work.CONV: np.array([0.0])},
        "moved": {Work.CONV: np.array([0.0])},
        "calls": np.array([1.0]),
        "parameters": np.array([0.0]),
        "width": np.array([2.0]),
        "batch": np.array([4.0]),
        "is_compiled": [False],
        "compute_share": np.array([1.0]),
        "memory_share": np.array([1.0]),
        "update": np.array([1.0]),
        **changed,
    }
    return Networks(**fields)  # type: ignore[arg-type]


def test_compute_is_six_flops_for_each_mac_over_the_rate_of_its_kind() -> None:
    net = networks(macs={Work.CONV: np.array([50.0])})
    terms = network_seconds(devices(), net, Ones(flops__conv=2.0))
    # 6 x 50 FLOPs cost twice their time at 100 FLOP/s: 6 s, above the peak's 3 s.
    assert terms.compute[0] == pytest.approx(6.0, rel=0.01)
    assert terms.total[0] == pytest.approx(terms.compute[0])


def test_compute_is_never_faster_than_the_peak() -> None:
    net = networks(macs={Work.CONV: np.array([50.0])})
    terms = network_seconds(devices(full=400.0), net, Ones(flops__conv=0.5))
    assert terms.compute[0] == pytest.approx(3.0, rel=0.01)


def test_a_halved_accumulation_binds_where_the_units_could_do_more() -> None:
    net = networks(macs={Work.CONV: np.array([50.0])})
    halved = network_seconds(devices(full=200.0), net, Ones(flops__conv=1.25))
    whole = network_seconds(devices(), net, Ones(flops__conv=1.25))
    assert halved.compute[0] < whole.compute[0]
    assert halved.compute[0] >= 3.0


def test_memory_is_passes_over_the_elements_of_each_kind() -> None:
    net = networks(
        macs={},
        moved={Work.BATCH_NORM: np.array([30.0]), Work.COPY: np.array([5.0])},
    )
    terms = network_seconds(devices(), net, Ones(**{"passes__batch-norm": 4.0, "passes__copy": 2}))
    assert terms.memory[0] == pytest.approx((4 * 30 + 2 * 5) * 2 / 10)


def test_fusion_spares_passes_of_normalisation_but_not_of_convolutions() -> None:
    moved = {Work.BATCH_NORM: np.array([30.0]), Work.CONV: np.array([5.0])}
    plain = network_seconds(devices(), networks(macs={}, moved=moved), Ones())
    fused = network_seconds(
        devices(), networks(macs={}, moved=moved, stacks=["fused"]), Ones(fused__passes=0.5)
    )
    assert plain.memory[0] - fused.memory[0] == pytest.approx(0.5 * 30 * 2 / 10)


def test_nchw_convolutions_are_limited_by_turning_images_over() -> None:
    moved = {Work.CONV: np.array([5.0])}
    device = devices(issue=1.0)
    ones = Ones(issue__turned=1.0)
    nhwc = network_seconds(device, networks(macs={}, moved=moved), ones)
    nchw = network_seconds(device, networks(macs={}, moved=moved, layouts=["nchw"]), ones)
    assert nhwc.memory[0] == pytest.approx(1.0)
    assert nchw.memory[0] > 9.0


def test_an_update_is_shared_by_the_batch() -> None:
    net = networks(macs={}, moved={}, parameters=np.array([100.0]))
    terms = network_seconds(devices(), net, Ones(update__bytes=20.0))
    assert terms.update[0] == pytest.approx(20 * 100 / 10 / 4)


def test_a_host_that_launches_slowly_hides_behind_a_busy_device_until_it_is_later() -> None:
    net = networks(macs={Work.CONV: np.array([50.0])}, calls=np.array([4.0]))
    quick = network_seconds(devices(), net, Ones(host__seconds=0.1))
    slow = network_seconds(devices(), net, Ones(host__seconds=100.0))
    assert quick.launch[0] == pytest.approx(0.0, abs=1e-6)
    assert slow.total[0] == pytest.approx(100.0, rel=1e-3)


def test_inference_does_a_third_of_the_compute_and_no_update() -> None:
    whole = networks(macs={Work.CONV: np.array([50.0])}, parameters=np.array([9.0]))
    forward = networks(
        macs={Work.CONV: np.array([50.0])},
        parameters=np.array([9.0]),
        compute_share=np.array([1 / 3]),
        memory_share=np.array([0.3]),
        update=np.array([0.0]),
    )
    ones = Ones(update__bytes=1.0)
    assert network_seconds(devices(), forward, ones).compute[0] == pytest.approx(
        network_seconds(devices(), whole, ones).compute[0] / 3
    )
    assert network_seconds(devices(), forward, ones).update[0] == 0


def test_a_measured_product_takes_the_place_of_peak_and_power() -> None:
    assert attainable_flops(devices(product=87.0, sustained=1.0))[0] == pytest.approx(100.0)


def test_power_limits_the_rate_softly() -> None:
    free = attainable_flops(devices())[0]
    tight = attainable_flops(devices(sustained=50.0))[0]
    assert free == 100
    assert 40 < tight < 50


def test_bandwidth_is_what_the_multiprocessors_keep_in_flight_at_most() -> None:
    device = devices(issue=2.0, bandwidth=1000.0)
    assert attainable_bandwidth(device, np.array([10.0]))[0] == pytest.approx(20.0, rel=0.01)


def test_effects_multiply_everything() -> None:
    net = networks(macs={Work.CONV: np.array([50.0])}, moved={Work.COPY: np.array([5.0])})
    one = network_seconds(devices(), net, Ones())
    two = network_seconds(devices(), net, Ones(effect__accelerator__toy=2.0))
    assert two.total[0] == pytest.approx(2 * one.total[0])


def texts(**changed: object) -> Texts:
    fields: dict[str, object] = {
        "names": ["words"],
        "frameworks": ["usual"],
        "weight_flops": np.array([600.0]),
        "attention_flops": np.array([50.0]),
        "activations": np.array([5.0]),
        "is_fp8": np.array([False]),
        "is_recomputed": np.array([False]),
        "memory_share": np.array([1.0]),
        "update_s": np.array([0.0]),
        **changed,
    }
    return Texts(**fields)  # type: ignore[arg-type]


def test_a_token_is_weights_attention_and_activations() -> None:
    terms = text_seconds(devices(), texts(), Ones(language__attention=3.0))
    assert terms.compute[0] == pytest.approx(600 / 100 + 3 * 50 / 100)
    assert terms.memory[0] == pytest.approx(2 * 5 / 10)


def test_8_bit_products_speed_up_weights_only() -> None:
    ones = Ones(language__fp8=1.5)
    slow, fast = (text_seconds(devices(), texts(is_fp8=np.array([b])), ones) for b in (False, True))
    assert slow.compute[0] - fast.compute[0] == pytest.approx(6 - 4)


def test_recomputation_repeats_compute() -> None:
    ones = Ones(language__recompute=1.2)
    again = text_seconds(devices(), texts(is_recomputed=np.array([True])), ones)
    assert again.compute[0] == pytest.approx(1.2 * 6.5)
