"""Step times from the zoo: how they move with batch, stack, device and precision, and refusals."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from stoker.errors import InputError
from stoker.records.zoo import Layers, Precision, Stack
from stoker.theory.constants import fitted
from stoker.theory.step import Bound, StepForecast, default_stack, step_time
from stoker.zoo.load import PACKAGED, Zoo

ZOO = Zoo((PACKAGED,))


def step(
    model: str = "resnet50", on: str = "a100", batch: float = 256, **how: object
) -> StepForecast:
    return step_time(ZOO.model(model), ZOO.accelerator(on), batch=batch, **how)  # type: ignore[arg-type]


def test_the_software_stack_is_worth_a_factor_of_two() -> None:
    rates = [step(stack=stack).samples_per_s.median for stack in ("nchw-amp", "nhwc-amp", "fused")]
    assert rates == sorted(rates)
    assert 1.8 < rates[-1] / rates[0] < 2.8  # published: 1,582, 2,470, 2,897 to 3,575


@pytest.mark.parametrize(
    ("stack", "published"), [("nchw-amp", 1582), ("nhwc-amp", 2470), ("fused", 3410.5)]
)
def test_resnet_50_on_an_a100_is_what_was_published(stack: str, published: float) -> None:
    rate = step(stack=stack).samples_per_s
    assert rate.low < published < rate.high


def test_a_sum_of_parts() -> None:
    found = step()
    parts = found.compute_s + found.memory_s + found.optimizer_s + found.launch_s
    assert found.seconds.median == pytest.approx(parts)
    assert found.samples_per_s.median == pytest.approx(256 / found.seconds.median)
    assert found.samples_per_s.low == pytest.approx(256 / found.seconds.high)


@settings(max_examples=40, deadline=None)
@given(some.integers(min_value=1, max_value=4096), some.sampled_from(list(Stack)[:5]))
def test_a_larger_batch_takes_longer_but_less_for_each_sample(batch: int, stack: Stack) -> None:
    one, two = step(batch=batch, stack=stack), step(batch=2 * batch, stack=stack)
    assert two.seconds.median >= one.seconds.median
    assert two.samples_per_s.median >= one.samples_per_s.median * (1 - 1e-9)


def test_a_single_image_is_bound_by_launches_and_a_large_batch_is_not() -> None:
    assert step(batch=1).bound is Bound.LAUNCH
    assert step(batch=1).seconds.median > 5e-3
    assert step(batch=512).bound is not Bound.LAUNCH
    assert step(batch=512).launch_s < 0.1 * step(batch=512).seconds.median


def test_more_of_any_resource_never_makes_a_step_slower() -> None:
    device = ZOO.accelerator("a100")
    model = ZOO.model("resnet50")
    base = step_time(model, device, batch=256).seconds.median

    def faster(**changed: object) -> float:
        return step_time(
            model, msgspec.structs.replace(device, **changed), batch=256
        ).seconds.median

    wider = msgspec.structs.replace(
        device.memory_bytes_per_s, value=2 * device.memory_bytes_per_s.value
    )
    assert faster(memory_bytes_per_s=wider) < base
    double = {
        precision: msgspec.structs.replace(one, value=2 * one.value)
        for precision, one in device.peak_flops.items()
    }
    assert faster(peak_flops=double, matmul_flops=None, power_w=None) < base


def test_precisions_order_themselves() -> None:
    seconds = [step(stack="fp32").seconds.median, step(stack="tf32").seconds.median]
    seconds.append(step(stack="nchw-amp", precision="bf16").seconds.median)
    assert seconds == sorted(seconds, reverse=True)
    h100 = [
        step("llama2_7b", "h100", 8192, precision=precision).seconds.median
        for precision in ("bf16", "fp8")
    ]
    assert h100[1] < h100[0] < 2 * h100[1]


def test_inference_is_faster_and_its_band_wider() -> None:
    training, inference = step(), step(training=False)
    assert 2.5 < training.seconds.median / inference.seconds.median < 4
    assert inference.seconds.high / inference.seconds.median > (
        training.seconds.high / training.seconds.median
    )
    assert "inference" in inference.basis
    assert inference.optimizer_s == 0


def test_the_band_widens_for_what_no_rate_was_seen_of() -> None:
    def width(**how: object) -> float:
        found = step(**how).seconds  # type: ignore[arg-type]
        return found.high / found.median

    seen, new_device = width(), width(on="h200")
    assert seen < new_device <= width(on="trn2")
    assert "no published rate of h200" in step(on="h200").basis


def test_the_basis_names_training_stack_precision_and_source() -> None:
    basis = step().basis
    for word in ("training", "nhwc-amp", "bf16", "75 %", "benchmarks"):
        assert word in basis


def test_each_class_of_model_has_its_usual_stack() -> None:
    assert default_stack(ZOO.model("resnet50")) is Stack.NHWC_AMP
    assert default_stack(ZOO.model("vit-base")) is Stack.TRANSFORMER_AMP
    assert default_stack(ZOO.model("llama2_7b")) is Stack.LLM
    assert step("bert_large@512", batch=16).stack is Stack.TRANSFORMER_AMP


def test_memory_feasibility_counts_activations() -> None:
    assert step(batch=256).fits
    assert not step(batch=4096).fits
    assert step(batch=4096).memory_bytes > 80e9
    assert step(batch=4096, training=False).fits


def test_several_devices_share_the_state_of_a_large_model() -> None:
    alone = step("llama2_70b@4096", "h100", 4096)
    shared = step("llama2_70b@4096", "h100", 4096, accelerators=64)
    assert not alone.fits
    assert shared.fits
    assert alone.memory_bytes > 16 * 69e9 * 0.9


def test_intensity_stands_against_the_ridge() -> None:
    found = step()
    assert found.ridge == pytest.approx(312e12 / 2039e9)
    assert (found.intensity < found.ridge) == (found.bound is Bound.MEMORY)
    assert step("llama2_7b", batch=8192).bound is Bound.COMPUTE


def test_a_model_known_by_its_rates_alone_is_forecast_with_a_wider_band() -> None:
    found = step("rnnt_mlperf", "h100", 128, stack="fused")
    assert found.samples_per_s.low < 1734 < found.samples_per_s.high
    assert "not counted" in found.basis


@pytest.mark.parametrize("batch", [0, -1, math.nan, math.inf])
def test_a_batch_that_is_no_positive_number_is_refused(batch: float) -> None:
    with pytest.raises(InputError, match="batch"):
        step(batch=batch)


def test_unknown_stacks_and_precisions_are_refused_with_what_there_is() -> None:
    with pytest.raises(InputError, match="no stack 'magic'") as caught:
        step(stack="magic")
    assert "nhwc-amp" in caught.value.looked_at
    with pytest.raises(InputError, match="no precision 'fp4'"):
        step(precision="fp4")


def test_a_rate_that_the_device_lacks_is_refused() -> None:
    with pytest.raises(InputError, match="v100-sxm2-16 has no bf16 rate") as caught:
        step(on="v100", precision="bf16")
    assert "fp16" in caught.value.looked_at
    with pytest.raises(InputError, match="no tf32 rate"):
        step(on="t4", stack="tf32")


def test_a_language_model_runs_on_its_own_stack_only() -> None:
    with pytest.raises(InputError, match="does not run on the stack 'fused'"):
        step("llama2_7b", stack="fused")
    with pytest.raises(InputError, match="does not run on the stack 'llm'"):
        step(stack="llm")


def test_a_model_of_unknown_work_is_refused() -> None:
    unknown = [
        model
        for model in ZOO.models.values()
        if model.forward_macs is None and not fitted().knows_model(model.name.partition("@")[0])
    ]
    assert unknown, "the zoo has models that nobody published a usable rate of"
    with pytest.raises(InputError, match="how many FLOPs"):
        step_time(unknown[0], ZOO.accelerator("a100"), batch=1)


def test_every_complete_model_runs_on_every_device_that_has_16_bit_rates() -> None:
    devices = [d for d in ZOO.machines.values() if d.peak(Precision.BF16) or d.peak(Precision.FP16)]
    for model in ZOO.models.values():
        if model.forward_macs is None:
            continue
        for device in devices[::6]:
            seconds = step_time(model, device, batch=8).seconds
            assert 0 < seconds.low < seconds.median < seconds.high < math.inf


def test_vision_transformers_and_encoders_are_attention() -> None:
    assert ZOO.model("bert_base@384").layers is Layers.ATTENTION
