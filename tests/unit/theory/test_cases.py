"""From zoo entries to arrays: widths, layouts, halved rates, templates, and language models."""

from __future__ import annotations

import math

import msgspec
import pytest

from stoker.records.zoo import Layers, Model, Precision, Stack, Work
from stoker.theory.cases import Case, devices, networks, operations_of, stem_of, texts
from stoker.theory.constants import fitted
from stoker.zoo.load import PACKAGED, Zoo

ZOO = Zoo((PACKAGED,))
FIT = fitted()


def case(model: str = "resnet50", on: str = "a100", **changed: object) -> Case:
    plain = Case(
        model=ZOO.model(model),
        accelerator=ZOO.accelerator(on),
        stack=Stack.NHWC_AMP,
        precision=Precision.BF16,
        batch=64,
    )
    return msgspec.structs.replace(plain, **changed)


def of_model(model: Model) -> Case:
    return msgspec.structs.replace(case(stack=Stack.LLM), model=model)


def test_geforce_units_do_twice_what_their_accumulation_allows() -> None:
    found = devices([case(on="rtx3090"), case(on="rtxa6000")], FIT.architectures)
    assert found.peak[0] == 71e12
    assert found.full[0] == pytest.approx(142.4e12, rel=0.01)
    assert found.full[1] == pytest.approx(found.peak[1], rel=0.01)


def test_issue_is_multiprocessors_times_clock() -> None:
    found = devices([case()], FIT.architectures)
    assert found.issue[0] == pytest.approx(108 * 1.41e9, rel=0.01)  # the A100's own


def test_a_family_without_facts_has_no_limits() -> None:
    found = devices([case(on="tpuv4")], FIT.architectures)
    assert math.isinf(found.issue[0])
    assert math.isinf(found.sustained[0])


def test_a_measured_product_goes_with_the_precision() -> None:
    found = devices([case(), case(precision=Precision.TF32)], FIT.architectures)
    assert found.product[0] == pytest.approx(271.2e12)
    assert found.product[1] == pytest.approx(271.2e12 / 2)
    plain = devices([case(precision=Precision.FP32)], FIT.architectures)
    assert math.isnan(plain.product[0])


def test_8_bit_language_models_are_counted_at_the_16_bit_rate() -> None:
    words = case("llama2_7b", "h100", stack=Stack.LLM, precision=Precision.FP8)
    assert devices([words], FIT.architectures).peak[0] == 989e12
    assert texts([words]).is_fp8[0]


def test_stacks_decide_layout_and_width() -> None:
    many = [
        case(stack=Stack.FUSED),
        case(stack=Stack.NCHW_AMP),
        case(stack=Stack.TF32, precision=Precision.TF32),
        case(stack=Stack.NCHW_AMP, layout="nhwc"),
    ]
    found = networks(many, FIT.templates)
    assert list(found.layouts) == ["nhwc", "nchw", "nchw", "nhwc"]
    assert list(found.stacks) == ["fused", "amp", "tf32", "amp"]
    assert list(found.width) == [2, 2, 4, 2]
    assert list(found.is_compiled) == [True, False, False, False]


def test_an_uncounted_model_has_the_usual_mix_of_its_class_at_its_own_size() -> None:
    model = msgspec.structs.replace(ZOO.model("resnet50"), operations={})
    made, counted = operations_of(model, FIT.templates)
    assert not counted
    assert model.forward_macs is not None
    assert sum(one.macs for one in made.values()) == pytest.approx(
        model.forward_macs.value, rel=1e-3
    )
    real = ZOO.model("resnet50").operations
    norm = made[Work.BATCH_NORM].read / real[Work.BATCH_NORM].read
    assert 0.7 < norm < 1.6
    assert operations_of(ZOO.model("resnet50"), FIT.templates)[1]


def test_an_unknown_class_gets_the_mean_of_all() -> None:
    model = msgspec.structs.replace(ZOO.model("resnet50"), operations={}, layers=Layers.OTHER)
    assert operations_of(model, FIT.templates)[0]


def test_a_tokens_work_is_its_weights_and_its_attention() -> None:
    model = ZOO.model("llama2_7b")
    found = texts([case("llama2_7b", stack=Stack.LLM)])
    assert model.training_flops is not None
    total = found.weight_flops[0] + found.attention_flops[0]
    assert total == pytest.approx(model.training_flops, rel=0.02)


def test_an_adapter_spares_a_third_of_the_weights_work() -> None:
    model = ZOO.model("llama2_70b@8192")
    lora = msgspec.structs.replace(model, family=f"{model.family} lora")
    plain = texts([of_model(model)])
    adapted = texts([of_model(lora)])
    assert adapted.weight_flops[0] == pytest.approx(plain.weight_flops[0] * 2 / 3)
    assert adapted.attention_flops[0] == plain.attention_flops[0]


def test_activations_are_computed_again_where_they_do_not_fit() -> None:
    few = case("llama2_7b", stack=Stack.LLM, accelerators=64, batch=2048)
    many = msgspec.structs.replace(few, batch=200_000)
    alone = msgspec.structs.replace(few, accelerators=1)
    assert [bool(x) for x in texts([few, many, alone]).is_recomputed] == [False, True, True]


def test_a_stem_is_the_name_without_its_size() -> None:
    assert stem_of("resnet50@224") == "resnet50"
    assert stem_of("mine") == "mine"
