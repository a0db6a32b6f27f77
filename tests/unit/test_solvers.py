"""The tutorial's solvers: its reference values under its assumptions, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import pytest

import stoker
from stoker.errors import InputError
from stoker.solvers import DataModel, SingleNodeModel, TransformationModel
from stoker.units import Q_

RESNET = stoker.Models.Vision.ResNet50
A100 = stoker.Hardware.Cloud.A100


def by_textbook(**settings: Any) -> Any:
    return SingleNodeModel().solve(RESNET, A100, precision="fp16", efficiency=0.5, **settings)


@pytest.mark.parametrize(
    ("batch", "training", "milliseconds", "rate"),
    [
        (1, False, 0.5675641, 1761.9155),
        (256, False, 13.97141, 18323.13),
        (256, True, 41.884231, 6112.086),
    ],
)
def test_with_the_textbooks_assumptions_the_textbooks_numbers_come_out(
    batch: int, training: bool, milliseconds: float, rate: float
) -> None:
    found = by_textbook(batch_size=batch, training=training)
    assert found.latency.to("ms").magnitude == pytest.approx(milliseconds, rel=1e-6)
    assert found.throughput.to("1/s").magnitude == pytest.approx(rate, rel=1e-6)
    assert found.bottleneck == "Compute"
    assert found.low is None
    assert "0.5 of 312 TFLOP/s" in found.basis


def test_by_default_a_training_step_on_a_named_stack_is_forecast_with_a_band() -> None:
    found = SingleNodeModel().solve(RESNET, A100, batch_size=256)
    assert found.is_training
    assert found.stack == "nhwc-amp"
    assert "training" in found.basis
    assert found.low < found.latency < found.high
    # Published for PyTorch and XLA with mixed precision: 2,470 images a second.
    assert found.throughput.to("1/s").magnitude == pytest.approx(2470, rel=0.25)


def test_the_stack_is_worth_more_than_a_factor_of_1_5() -> None:
    fused, eager = (
        SingleNodeModel().solve(RESNET, A100, batch_size=256, stack=stack)
        for stack in ("fused", "nchw-amp")
    )
    assert eager.latency / fused.latency > 1.5


def test_a_stack_of_its_own_precision_runs_in_it() -> None:
    assert "fp32" in SingleNodeModel().solve(RESNET, A100, batch_size=64, stack="fp32").basis


def test_the_engine_is_the_single_node_model() -> None:
    one = stoker.Engine.solve(RESNET, A100, batch_size=64)
    assert one == SingleNodeModel().solve(RESNET, A100, batch_size=64)


def test_a_transformation_of_64_ms_leaves_22_percent_of_a_14_ms_step() -> None:
    step = by_textbook(batch_size=256, training=False).latency
    found = TransformationModel().solve(256, Q_("500 KB"), Q_("2 GB/s"), step)
    assert found.transform_time.to("ms").magnitude == pytest.approx(64, rel=1e-6)
    assert found.accelerator_utilization == pytest.approx(0.2183033, rel=1e-6)
    assert found.slowdown_factor == pytest.approx(4.5807831, rel=1e-6)
    assert found.is_bottleneck


@pytest.mark.parametrize(
    ("workers", "utilisation"), [(8, 0.21427985), (16, 0.42855970), (32, 0.85711939)]
)
def test_twice_the_workers_give_twice_the_utilisation_while_the_cpu_is_the_limit(
    workers: int, utilisation: float
) -> None:
    step = by_textbook(batch_size=512, training=False).latency
    found = TransformationModel().solve(512, Q_("500 KB"), Q_(f"{workers * 250} MB/s"), step)
    assert found.accelerator_utilization == pytest.approx(utilisation, rel=1e-6)


def test_20_ms_of_step_and_35_ms_of_cpu_are_57_percent() -> None:
    found = TransformationModel().solve(1, "35 MB", "1 GB/s", "20 ms")
    assert found.accelerator_utilization == pytest.approx(20 / 35, rel=1e-9)
    assert f"{found.accelerator_utilization:.0%}" == "57%"


def test_in_turns_the_times_add_up_and_overlapped_the_longer_counts() -> None:
    solve = TransformationModel().solve
    overlapped = solve(1, "250 MB", "1 GB/s", "200 ms")
    in_turns = solve(1, "250 MB", "1 GB/s", "200 ms", overlapped=False)
    assert overlapped.stall_share == pytest.approx(0.20)
    assert in_turns.step_time.to("ms").magnitude == pytest.approx(450)
    assert in_turns.stall_share == pytest.approx(0.5556, abs=1e-4)


def test_a_bare_accelerator_is_held_against_its_link_and_says_that_storage_is_unknown() -> None:
    found = DataModel().solve(Q_("9 GB/s"), A100)
    assert found.supply_bw.to("GB/s").magnitude == pytest.approx(31.5)
    assert (found.bottleneck, found.is_stalled) == ("Interconnect", False)
    assert found.utilization == pytest.approx(9 / 31.5)
    assert found.margin.to("GB/s").magnitude == pytest.approx(22.5)
    assert "storage unknown" in found.basis
    assert A100.storage is None
    assert DataModel().solve(Q_("40 GB/s"), A100).is_stalled


def test_with_storage_the_narrower_of_the_two_supplies() -> None:
    found = DataModel().solve("1 GB/s", A100.with_storage("gp3"))
    assert (found.bottleneck, found.is_stalled) == ("Storage", True)
    assert found.supply_bw.to("MB/s").magnitude == pytest.approx(131.072)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: DataModel().solve(Q_("850 img/s"), A100), "data rate has the wrong dimension"),
        (lambda: DataModel().solve(Q_("0 GB/s"), A100), "data rate is zero"),
        (lambda: DataModel().solve(Q_("-1 GB/s"), A100), "data rate is negative"),
        (
            lambda: TransformationModel().solve(8, Q_("1 MB"), Q_("850 img/s"), Q_("1 ms")),
            "CPU's throughput has the wrong dimension",
        ),
        (
            lambda: TransformationModel().solve(8, Q_("1 MB/s"), Q_("1 GB/s"), Q_("1 ms")),
            "sample's size has the wrong dimension",
        ),
        (
            lambda: TransformationModel().solve(8, -5.0, Q_("1 GB/s"), Q_("1 ms")),
            "sample's size is negative",
        ),
        (
            lambda: TransformationModel().solve(8, 5.0, Q_("1 GB/s"), Q_(math.nan, "ms")),
            "step time is not a number",
        ),
        (
            lambda: TransformationModel().solve(8, 5.0, Q_(math.inf, "GB/s"), Q_("1 ms")),
            "throughput is infinite",
        ),
        (
            lambda: TransformationModel().solve(0, 5.0, Q_("1 GB/s"), Q_("1 ms")),
            "batch size is 0",
        ),
        (lambda: by_textbook(batch_size=-1), "batch size is -1"),
        (lambda: by_textbook(batch_size=2.5), "batch size is 2.5"),
        (lambda: by_textbook(batch_size=8, stack="fused"), "efficiency .* and a stack"),
        (
            lambda: SingleNodeModel().solve(RESNET, A100, efficiency=1.5),
            "efficiency is 1.5",
        ),
        (
            lambda: SingleNodeModel().solve(RESNET, A100, precision="fp12", efficiency=0.5),
            "no precision 'fp12'",
        ),
        (lambda: A100.with_storage("floppy"), "no storage 'floppy'"),
    ],
)
def test_nonsense_is_refused_by_the_name_of_the_quantity(call: Any, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        call()
    assert caught.value.run_next


def test_every_name_of_the_catalogue_is_an_entry_of_the_zoo() -> None:
    for group in (stoker.Models.Vision, stoker.Models.Language, stoker.Hardware.Cloud):
        for name in dir(group):
            assert getattr(group, name).name


def test_a_name_of_the_zoo_works_too_and_an_unknown_one_offers_the_nearest() -> None:
    assert stoker.Models.Vision["resnet101"].entry.name.startswith("resnet101")
    with pytest.raises(AttributeError, match=r"ResNet50|resnet50"):
        stoker.Models.Vision.ResNet5  # noqa: B018


def test_a_machine_shows_its_numbers_as_quantities() -> None:
    assert A100.compute.peak_flops.to("TFLOP/s").magnitude == pytest.approx(312)
    assert A100.memory.bandwidth.to("GB/s").magnitude == pytest.approx(2039)
    assert A100.memory.capacity.to("GB").magnitude == pytest.approx(80)


def test_the_roofline_says_which_wall_a_step_stands_at() -> None:
    """At batch 1 of a language model the weights pass by for a single token: the memory wall."""
    llama = stoker.Models.Language.Llama2_7B
    one = SingleNodeModel().solve(llama, A100, batch_size=1, efficiency=0.5, training=False)
    assert one.bottleneck == "Memory"
    assert one.arithmetic_intensity < one.ridge_point
    many = SingleNodeModel().solve(llama, A100, batch_size=4096, efficiency=0.5, training=False)
    assert many.bottleneck == "Compute"
