"""Rows of published tables: what each is taken for, and that its throughput is never looked at."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.records.zoo import Layers, Precision, Stack
from stoker.theory.validate import (
    UnresolvedError,
    forecast_row,
    infer_stack,
    resolve,
)
from stoker.zoo.load import PACKAGED, Zoo

ZOO = Zoo((PACKAGED,))
TABLE = Path(__file__).parents[3] / "benchmarks" / "data" / "training.csv"
ROW = {
    "row_id": "184",
    "model_id": "resnet50@224",
    "model": "resnet50",
    "family": "conv",
    "accel_id": "A100-SXM4-80",
    "n_accel": "1",
    "precision": "AMP",
    "framework": "PyTorch 21.03",
    "stack": "dle",
    "layout": "NHWC (AMP) / NCHW (fp32)",
    "input": "224 px",
    "batch_per_accel": "256",
    "unit": "img/s",
    "train_gflop_per_unit": "24.66",
    "macts_m_per_unit": "11.11",
}


class Watched(dict[str, str]):
    """A row that notes which of its columns were read."""

    def __init__(self, row: dict[str, str]) -> None:
        super().__init__(row)
        self.read: set[str] = set()

    def get(self, key: str, default: str | None = None) -> str | None:  # type: ignore[override]
        self.read.add(key)
        return super().get(key, default)

    def __getitem__(self, key: str) -> str:
        self.read.add(key)
        return super().__getitem__(key)


def rows() -> Iterator[dict[str, str]]:
    with TABLE.open(newline="") as file:
        yield from csv.DictReader(file)


def test_throughput_and_shares_of_the_peak_are_never_read() -> None:
    for row in rows():
        watched = Watched(row)
        forecast_row(watched, ZOO)
        assert not {name for name in watched.read if "throughput" in name or "mfu" in name}


def test_a_forecast_does_not_change_with_the_throughput() -> None:
    one = forecast_row(ROW | {"throughput_per_accel": "1"}, ZOO)
    two = forecast_row({k: v for k, v in ROW.items() if k != "throughput_per_accel"}, ZOO)
    assert one == two
    assert one.samples_per_s is not None
    assert one.samples_per_s.low < 2470 < one.samples_per_s.high


@pytest.mark.parametrize(
    ("changed", "layers", "stack"),
    [
        ({}, Layers.CONV, Stack.NHWC_AMP),
        ({"precision": "TF32"}, Layers.CONV, Stack.TF32),
        ({"precision": "FP32"}, Layers.CONV, Stack.FP32),
        ({"stack": "mlperf", "layout": "NHWC fused"}, Layers.CONV, Stack.FUSED),
        ({"stack": "lambda", "layout": "NCHW"}, Layers.CONV, Stack.NCHW_AMP),
        ({"stack": "timm_nhwc", "layout": "NHWC"}, Layers.CONV, Stack.NHWC_AMP),
        ({"stack": "timm_nchw", "layout": "NCHW"}, Layers.ATTENTION, Stack.TRANSFORMER_AMP),
        ({"stack": "mlperf", "layout": ""}, Layers.ATTENTION, Stack.FUSED),
        ({"stack": "anything"}, Layers.LLM, Stack.LLM),
        ({"stack": "nchw-amp"}, Layers.CONV, Stack.NCHW_AMP),
        ({"stack": "my-own", "layout": "channels NCHW"}, Layers.CONV, Stack.NCHW_AMP),
    ],
)
def test_the_stack_is_told_from_the_rows_own_words(
    changed: dict[str, str], layers: Layers, stack: Stack
) -> None:
    assert infer_stack(ROW | changed, layers) is stack


@pytest.mark.parametrize(
    ("text", "accelerator", "precision"),
    [
        ("AMP fp16", "A100-SXM4-80", Precision.FP16),
        ("amp_bf16", "A100-SXM4-80", Precision.BF16),
        ("fp16 mixed", "TPUv4", Precision.BF16),
        ("bf16", "V100-SXM2-16", Precision.FP16),
        ("fp8/bf16 mixed", "H100-SXM5-80", Precision.FP8),
        ("TF32?", "A100-SXM4-80", Precision.TF32),
    ],
)
def test_the_number_format_is_one_that_the_device_has(
    text: str, accelerator: str, precision: Precision
) -> None:
    row = ROW | {"precision": text, "accel_id": accelerator, "model_id": "llama2_7b@4096"}
    assert resolve(row | {"model": "", "unit": "tok/s"}, ZOO).case.precision is precision


def test_a_model_that_the_zoo_lacks_is_taken_from_the_row() -> None:
    row = ROW | {"model_id": "mynet@96", "model": "mynet"}
    found = resolve(row, ZOO).case.model
    assert found.training_flops == pytest.approx(24.66e9)
    assert found.activations is not None
    assert found.activations.value == pytest.approx(11.11e6)
    forecast = forecast_row(row, ZOO)
    assert forecast.samples_per_s is not None
    assert "not counted" in forecast.basis


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"accel_id": "B9000"}, "no machine 'B9000'"),
        ({"accel_id": "GAUDI1"}, "rate of gaudi1 is unknown"),
        ({"model_id": "mynet", "model": "", "train_gflop_per_unit": ""}, "FLOPs of mynet"),
        ({"model_id": "", "model": "", "train_gflop_per_unit": "nan"}, "FLOPs of ?"),
    ],
)
def test_a_row_that_cannot_be_forecast_says_why(changed: dict[str, str], why: str) -> None:
    found = forecast_row(ROW | changed, ZOO)
    assert found.samples_per_s is None
    assert why in found.reason
    with pytest.raises(UnresolvedError):
        resolve(ROW | changed, ZOO)


def test_an_empty_row_gives_a_reason_and_no_error() -> None:
    assert forecast_row({}, ZOO).reason


def test_sequences_without_padding_count_half_their_tokens() -> None:
    row = ROW | {
        "model_id": "bert_large@512",
        "family": "attn",
        "input": "seq<=512, variable length, padding removed",
        "train_gflop_per_unit": "",
    }
    assert resolve(row, ZOO).case.model.name == "bert_large@256"
    padded = resolve(row | {"input": "seq 512"}, ZOO).case.model.name
    assert padded == "bert_large@512"


def test_samples_of_a_language_model_are_sequences_and_adapters_are_cheaper() -> None:
    row = ROW | {"model_id": "llama2_70b@8192", "family": "llm", "precision": "fp8/bf16 mixed"}
    row |= {"accel_id": "H100-SXM5-80", "n_accel": "8"}
    lora = resolve(row | {"stack": "mlperf", "unit": "samples/s"}, ZOO)
    tokens = resolve(row | {"stack": "llm", "unit": "tok/s"}, ZOO)
    assert (lora.units, tokens.units) == (8192, 1)
    assert lora.case.model.family.endswith("lora")
    rates = [
        forecast_row(row | how, ZOO).samples_per_s
        for how in ({"stack": "mlperf", "unit": "samples/s"}, {"stack": "llm", "unit": "tok/s"})
    ]
    assert rates[0] is not None
    assert rates[1] is not None
    assert rates[0].median * 8192 > 1.3 * rates[1].median


def test_nearly_every_published_row_is_forecast() -> None:
    found = [forecast_row(row, ZOO) for row in rows()]
    missing = [one for one in found if one.samples_per_s is None]
    assert len(missing) <= 0.03 * len(found)
    assert all(one.reason for one in missing)
    assert all(one.basis for one in found if one.samples_per_s is not None)


def test_a_language_model_that_the_zoo_lacks_is_taken_from_its_flops() -> None:
    known = {"model_id": "llama2_7b@4096", "family": "llm", "unit": "tok/s", "input": "seq 4096"}
    row = ROW | known | {"precision": "bf16", "stack": "llm", "n_accel": "128"}
    row |= {"train_gflop_per_unit": "46.87294", "macts_m_per_unit": "1.3107"}
    zoo = forecast_row(row, ZOO).samples_per_s
    unknown = row | {"model_id": "ours_7b@4096", "model": "ours"}
    found = forecast_row(unknown, ZOO).samples_per_s
    bare = forecast_row(unknown | {"macts_m_per_unit": ""}, ZOO).samples_per_s
    assert zoo is not None
    assert found is not None
    assert bare is not None
    assert found.median == pytest.approx(zoo.median, rel=0.1)
    assert bare.median == pytest.approx(zoo.median, rel=0.15)
    assert found.high / found.low > zoo.high / zoo.low
