"""Published rates, row by row: which model, device, stack and precision a row speaks of.

A row has the columns of benchmarks/data/training.csv. Its throughput is never read, nor is a share
of the peak that somebody worked out from it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

import msgspec

from stoker.errors import InputError
from stoker.records.zoo import (
    FLOPS_PER_MAC,
    TRAINING_FORWARDS,
    Accelerator,
    Kind,
    Layers,
    Model,
    Precision,
    Sourced,
    Stack,
)
from stoker.stats import Spread
from stoker.theory.cases import Case
from stoker.theory.constants import fitted
from stoker.theory.step import forecast_case
from stoker.zoo.load import Zoo

_LAYERS = {
    "conv": Layers.CONV,
    "grouped": Layers.GROUPED,
    "dwconv": Layers.DEPTHWISE,
    "attn": Layers.ATTENTION,
    "llm": Layers.LLM,
}
# Names of measured software, as the table writes them.
_NHWC_SOURCES = ("timm_nhwc", "ffcv", "dle")
_NCHW_SOURCES = ("timm_nchw", "lambda", "tinygrad", "mosaic")
# Frameworks that launch a step's kernels from a graph instead of one by one from Python.
_COMPILED = re.compile(r"xla|tensorflow|tf[12]|mxnet|jax|maxtext|popart|poplar|paddle", re.I)
# Language models with overlapped communication and kernels fused by hand, and those without fused
# attention, sharding or compilation.
_TUNED_TEXT = re.compile(r"megatron-bridge|nemo", re.I)
_EAGER_TEXT = re.compile(r"(?<!modded-)nanogpt|transformers|eager", re.I)
# Padding removed from BERT's pre-training sequences of up to 512 tokens leaves about half of them
# (Krell et al. 2021, arXiv 2107.02027), so a sequence costs what one of 256 does.
_UNPADDED = re.compile(r"padding removed|variable length", re.I)


class RowForecast(msgspec.Struct, frozen=True, kw_only=True):
    """What is forecast for one row; samples are the row's unit, low to high the 75 % band."""

    row_id: str
    samples_per_s: Spread | None
    basis: str
    reason: str = ""  # why there is no forecast


class ResolvedRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row understood: the case, and how many of the model's units make one of the row's."""

    case: Case
    units: float


class UnresolvedError(Exception):
    """A row that can't be forecast; the message says why."""


def _number(row: Mapping[str, str], key: str) -> float | None:
    text = (row.get(key) or "").strip()
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value > 0 else None


def infer_precision(row: Mapping[str, str], accelerator: Accelerator) -> Precision:
    """The number format of the matrix work, from the row's own words."""
    text = (row.get("precision") or "").lower()
    if "fp8" in text:
        return Precision.FP8
    for precision in (Precision.TF32, Precision.FP32, Precision.INT8):
        if precision.value in text:
            return precision
    # Both 16-bit formats run at one rate; some devices list only one of them.
    order = (Precision.BF16, Precision.FP16) if "bf16" in text else (Precision.FP16, Precision.BF16)
    return next((one for one in order if accelerator.peak(one) is not None), order[0])


def infer_stack(row: Mapping[str, str], layers: Layers) -> Stack:
    """The software stack, from `stack`, `layout`, `precision` and the kind of network."""
    named = (row.get("stack") or "").strip().lower()
    layout = (row.get("layout") or "").lower()
    text = (row.get("precision") or "").lower()
    if named in tuple(Stack):
        return Stack(named)
    if layers is Layers.LLM:
        return Stack.LLM
    if "tf32" in text:
        return Stack.TF32
    if "fp32" in text:
        return Stack.FP32
    if layers is Layers.ATTENTION:
        return Stack.FUSED if named.startswith("mlperf") else Stack.TRANSFORMER_AMP
    if "fused" in layout:
        return Stack.FUSED
    if named in _NCHW_SOURCES:
        return Stack.NCHW_AMP
    if named in _NHWC_SOURCES or "nhwc" in layout:
        return Stack.NHWC_AMP
    if "nchw" in layout:
        return Stack.NCHW_AMP
    return Stack.FUSED if named.startswith("mlperf") else Stack.NHWC_AMP


def _model(row: Mapping[str, str], zoo: Zoo, *, work_may_be_unknown: bool) -> Model:
    """The zoo's model, with what the row itself states where the zoo knows nothing."""
    known: Model | None = None
    for key in ("model_id", "model"):
        name = (row.get(key) or "").strip()
        if name and known is None:
            try:
                known = zoo.model(name)
            except InputError:
                continue
    words = f"{row.get('input') or ''} {row.get('inferred') or ''}"
    if known is not None and known.unit == "sequence" and _UNPADDED.search(words):
        known = zoo.model(f"{known.name.partition('@')[0]}@256")
    if known is not None and known.forward_macs is not None:
        return known
    flops = _number(row, "train_gflop_per_unit")
    activations = _number(row, "macts_m_per_unit")
    stated = known is not None and (
        work_may_be_unknown or fitted().knows_model(known.name.partition("@")[0])
    )
    if flops is None and not stated:
        name = (row.get("model_id") or row.get("model") or "?").strip()
        raise UnresolvedError(
            f"the FLOPs of {name} are unknown: neither the zoo nor the row has them"
        )
    source = "the row itself"

    def number(value: float | None, scale: float) -> Sourced | None:
        return None if value is None else Sourced(value * scale, Kind.PUBLISHED, source, "")

    macs = number(flops, 1e9 / (TRAINING_FORWARDS * FLOPS_PER_MAC))
    if known is not None:
        return msgspec.structs.replace(
            known, forward_macs=macs, activations=number(activations, 1e6)
        )
    family = (row.get("family") or "").strip()
    name = (row.get("model_id") or row.get("model") or "unnamed").strip()
    return Model(
        name=name,
        title=(row.get("model") or name).strip(),
        family=family,
        layers=_LAYERS.get(family, Layers.OTHER),
        unit="token" if family == "llm" else "sample",
        input=(row.get("input") or "").strip(),
        tokens=_tokens(row) if family == "llm" else None,
        forward_macs=macs,
        activations=number(activations, 1e6),
    )


def _framework(text: str, layers: Layers) -> str:
    """Software that is far from the usual speed of its stack, by name."""
    if "tinygrad" in text.lower():
        return "tinygrad"
    if layers is not Layers.LLM:
        return "usual"
    if _TUNED_TEXT.search(text):
        return "megatron"
    return "eager" if _EAGER_TEXT.search(text) else "usual"


def _tokens(row: Mapping[str, str]) -> int | None:
    """The length of a sequence, from `input` or the model's name."""
    stated = re.search(r"seq\s*(\d+)", row.get("input") or "")
    named = re.search(r"@(\d+)$", row.get("model_id") or "")
    found = stated or named
    return None if found is None else int(found.group(1))


def resolve(row: Mapping[str, str], zoo: Zoo, *, work_may_be_unknown: bool = False) -> ResolvedRow:
    """The case that a row describes. Raises UnresolvedError with the reason where it can't be told.

    `work_may_be_unknown`: for the fit, which finds out what such a model costs.
    """
    try:
        accelerator = zoo.accelerator((row.get("accel_id") or row.get("accelerator") or "").strip())
    except InputError as error:
        raise UnresolvedError(error.happened) from error
    model = _model(row, zoo, work_may_be_unknown=work_may_be_unknown)
    precision = infer_precision(row, accelerator)
    if accelerator.peak(precision) is None:
        raise UnresolvedError(f"the {precision} rate of {accelerator.name} is unknown")
    stack = infer_stack(row, model.layers)
    framework = row.get("framework") or ""
    layout = "nhwc" if "nhwc" in (row.get("layout") or "").lower() else ""
    unit = (row.get("unit") or "").lower()
    units = 1.0
    if model.unit == "token" and not unit.startswith("tok"):
        units = float(model.tokens or 1)
        # Language models counted in samples are MLPerf's, fine-tuned by low-rank adapters.
        if (row.get("stack") or "").startswith("mlperf"):
            model = msgspec.structs.replace(model, family=f"{model.family} lora")
            framework = f"NeMo; {framework}"
    batch = _number(row, "batch_per_accel")
    if batch is None and (given := (row.get("batch_per_accel") or "").strip()):
        raise UnresolvedError(f"the batch is {given!r}, not a number above 0")
    template = fitted().templates.get(model.layers)
    case = Case(
        model=model,
        accelerator=accelerator,
        stack=stack,
        precision=precision,
        batch=batch or float(template.batch if template else 1),
        layout=layout if stack in (Stack.TRANSFORMER_AMP, Stack.FUSED, Stack.NHWC_AMP) else "",
        is_compiled=bool(_COMPILED.search(framework)) or accelerator.vendor == "Google",
        framework=_framework(framework, model.layers),
        accelerators=int(_number(row, "n_accel") or 1),
    )
    return ResolvedRow(case=case, units=units)


def forecast_row(row: Mapping[str, str], zoo: Zoo) -> RowForecast:
    """Samples a second for a row, with the 75 % band; never raises for what a row contains."""
    identity = (row.get("row_id") or "").strip()
    try:
        found = resolve(row, zoo)
    except UnresolvedError as problem:
        return RowForecast(row_id=identity, samples_per_s=None, basis="", reason=str(problem))
    step = forecast_case(found.case)
    rate = step.samples_per_s.scaled(1 / found.units)
    return RowForecast(row_id=identity, samples_per_s=rate, basis=step.basis)
