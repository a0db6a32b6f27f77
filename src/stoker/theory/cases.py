"""From zoo entries and choices to the arrays that the step-time equations take."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import msgspec
import numpy as np

from stoker.records.zoo import (
    FLOPS_PER_MAC,
    TRAINING_FORWARDS,
    Accelerator,
    Layers,
    Model,
    Operations,
    Precision,
    Sourced,
    Stack,
    Work,
)
from stoker.theory.constants import Architecture, Template
from stoker.theory.roofline import MATRIX, Array, Devices, Networks, Texts

# Bytes of an activation. With 8-bit products the activations between them stay in 16 bits.
WIDTH: Mapping[Precision, float] = {
    Precision.FP32: 4.0,
    Precision.TF32: 4.0,
    Precision.BF16: 2.0,
    Precision.FP16: 2.0,
    Precision.FP8: 2.0,
    Precision.INT8: 2.0,
}
NHWC_STACKS = (Stack.FUSED, Stack.NHWC_AMP)
# What inference does of the work of training. Compute: the forward pass of three. Memory: of the
# passes over the elements, convolutions and products keep one of three, normalisation with frozen
# statistics two of eight, activations two of five: about three in ten.
INFERENCE_COMPUTE = 1 / TRAINING_FORWARDS
INFERENCE_MEMORY = 0.3


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One step to be forecast or fitted."""

    model: Model
    accelerator: Accelerator
    stack: Stack
    precision: Precision
    batch: float
    layout: str = ""  # of the convolutions: nhwc | nchw; the stack's own when empty
    training: bool = True
    is_compiled: bool = False
    framework: str = "usual"  # usual | tinygrad; of language models usual | megatron | eager
    accelerators: int = 1  # that share weights and optimizer state


def stem_of(model: str) -> str:
    """A model's name without its input size."""
    return model.partition("@")[0]


def _peak16(accelerator: Accelerator) -> float:
    rates = (accelerator.peak(Precision.FP16), accelerator.peak(Precision.BF16))
    return max((rate for rate in rates if rate is not None), default=math.nan)


def devices(cases: Sequence[Case], architectures: Mapping[str, Architecture]) -> Devices:
    """The accelerators of the cases, each at its precision's rates."""
    rows = [_device(case, architectures.get(case.accelerator.architecture)) for case in cases]

    def column(key: str) -> Array:
        return np.array([row[key] for row in rows], dtype=np.float64)

    return Devices(
        names=[case.accelerator.name for case in cases],
        architectures=[case.accelerator.architecture for case in cases],
        peak=column("peak"),
        full=column("full"),
        product=column("product"),
        sustained=column("sustained"),
        bandwidth=column("bandwidth"),
        issue=column("issue"),
    )


def _device(case: Case, architecture: Architecture | None) -> dict[str, float]:
    accelerator = case.accelerator
    precision = case.precision
    if precision is Precision.FP8 and case.model.layers is Layers.LLM:
        # Only the products with weights are in 8 bits; the equations double their rate.
        precision = Precision.BF16
    peak = accelerator.peak(precision) or math.nan
    full, product, sustained, issue = peak, math.nan, math.inf, math.inf
    fp32 = accelerator.peak(Precision.FP32)
    peak16 = _peak16(accelerator)
    is_matrix = precision is not Precision.FP32 and peak16 > 0
    if is_matrix and accelerator.matmul_flops is not None:
        product = accelerator.matmul_flops.value * peak / peak16
    if architecture is not None and fp32 is not None:
        issue = fp32 / (FLOPS_PER_MAC * architecture.lanes)
        if is_matrix:
            full = max(peak16, architecture.full_rate * fp32) * peak / peak16
            if accelerator.power_w is not None:
                watts = accelerator.power_w.value
                sustained = architecture.flops_per_joule * watts * peak / peak16
    return {
        "peak": peak,
        "full": full,
        "product": product,
        "sustained": sustained,
        "bandwidth": accelerator.memory_bytes_per_s.value,
        "issue": issue,
    }


# Of a model whose FLOPs nobody knows but whose published rates were fitted: any amount will do, for
# its own effect scales it.
_NOMINAL_MACS = 1e9


def operations_of(
    model: Model, templates: Mapping[Layers, Template]
) -> tuple[dict[Work, Operations], bool]:
    """A model's operations, and whether they were counted rather than taken from its class.

    A template is scaled to the model's own multiply-accumulates and activations, as far as known.
    """
    if model.operations:
        return dict(model.operations), True
    template = templates.get(model.layers) or templates[Layers.CONV]
    macs = _value(model.forward_macs, _NOMINAL_MACS)
    elements = _value(model.activations, macs * template.activations_per_mac)
    made: dict[Work, Operations] = {}
    for work in Work:
        share, moved = template.macs.get(work, 0.0), template.moved.get(work, 0.0)
        if share or moved:
            half = moved * elements / 2
            made[work] = Operations(share * macs, half, half, 0.0)
    if model.forward_macs is not None:  # nothing is known of the calls of unknown work
        other = made.get(Work.OTHER, Operations(0.0, 0.0, 0.0, 0.0))
        made[Work.OTHER] = Operations(other.macs, other.read, other.written, template.calls)
    return made, False


def networks(cases: Sequence[Case], templates: Mapping[Layers, Template]) -> Networks:
    """The networks of the cases."""
    works = [operations_of(case.model, templates)[0] for case in cases]
    present = [work for work in Work if any(work in one for one in works)]

    def counts(work: Work, measure: Callable[[Operations], float]) -> Array:
        return np.array([measure(one[work]) if work in one else 0.0 for one in works])

    training = np.array([case.training for case in cases])
    return Networks(
        names=[stem_of(case.model.name) for case in cases],
        stacks=[_share_of(case.stack) for case in cases],
        layouts=[_layout(case) for case in cases],
        frameworks=[case.framework for case in cases],
        norms=["half" if case.model.unit == "sequence" else "autocast" for case in cases],
        macs={w: counts(w, lambda one: one.macs) for w in present if w in MATRIX},
        moved={w: counts(w, lambda one: one.read + one.written) for w in present},
        calls=np.array([math.fsum(one.calls for one in work.values()) for work in works]),
        parameters=np.array([_parameters(case.model) for case in cases]),
        width=np.array([WIDTH[case.precision] for case in cases]),
        batch=np.array([float(case.batch) for case in cases]),
        is_compiled=[case.is_compiled or case.stack is Stack.FUSED for case in cases],
        compute_share=np.where(training, 1.0, INFERENCE_COMPUTE),
        memory_share=np.where(training, 1.0, INFERENCE_MEMORY),
        update=np.where(training, 1.0, 0.0),
    )


def _share_of(stack: Stack) -> str:
    return stack.value if stack in (Stack.FUSED, Stack.FP32, Stack.TF32) else "amp"


def _layout(case: Case) -> str:
    return case.layout or ("nhwc" if case.stack in NHWC_STACKS else "nchw")


def _parameters(model: Model) -> float:
    return _value(model.parameters, 0.0)


def _value(number: Sourced | None, missing: float) -> float:
    return missing if number is None else number.value


# Where weights, gradients and optimizer state take more than this share of device memory, what is
# left holds no useful batch of activations: they are computed again in the backward pass.
_STATE_SHARE = 0.45
# Weights and gradients in 16 bits, a 32-bit copy and two moments of Adam (Rajbhandari et al., ZeRO,
# SC 2020).
STATE_BYTES = 16.0
# With fused attention 34 bytes for each layer, token and channel are kept (Korthikanti et al. 2022,
# eq. 2 without the term of the scores): 3.4 for each activation element.
TEXT_BYTES = 3.4


def _text_elements(model: Model) -> float:
    """Activation elements of a token; from the usual shapes where nobody says.

    GPT-3's family has one layer for each 128 channels and 12·L·d² parameters (Brown et al. 2020).
    """
    parameters = _value(model.parameters, _value(model.forward_macs, math.nan))
    width = (parameters * 128 / 12) ** (1 / 3)
    return _value(model.activations, 10 * width * width / 128)


def _text_parameters(model: Model, attention: float) -> float:
    """Parameters that a token meets; what attention leaves of the work where nobody says."""
    rest = _value(model.forward_macs, math.nan) - attention / FLOPS_PER_MAC
    return _value(model.parameters, rest)


def texts(cases: Sequence[Case]) -> Texts:
    """The language models of the cases.

    A token's FLOPs in the source's convention: 2 for each parameter, and 4·L·d·s for attention
    without the causal half (llm-foundry). L·d is told from the activations, which are 10·L·d.
    """
    activations = np.array([_text_elements(case.model) for case in cases])
    lengths = np.array([float(case.model.tokens or 2048) for case in cases])
    attention = 4 * (activations / 10) * lengths
    parameters = np.array(
        [_text_parameters(c.model, a) for c, a in zip(cases, attention, strict=True)]
    )
    weights = FLOPS_PER_MAC * parameters
    training = np.array([case.training for case in cases])
    share = np.where(training, TRAINING_FORWARDS, 1.0)
    # A low-rank adapter has no gradients of the frozen weights: two passes of three.
    lora = np.array([case.model.family.endswith("lora") for case in cases])
    weights_share = np.where(training & lora, 2.0, share)
    memory = np.array([case.accelerator.memory_bytes.value for case in cases])
    # Of frozen weights there is nothing but a 16-bit copy.
    kept = np.where(lora, 2.0, STATE_BYTES)
    state = kept * parameters / np.array([float(case.accelerators) for case in cases])
    alive = TEXT_BYTES * activations * np.array([float(case.batch) for case in cases])
    return Texts(
        names=[stem_of(case.model.name) for case in cases],
        frameworks=[case.framework for case in cases],
        weight_flops=weights * weights_share,
        attention_flops=attention * share,
        activations=activations,
        is_fp8=np.array([case.precision is Precision.FP8 for case in cases]),
        is_recomputed=training & ((state > _STATE_SHARE * memory) | (state + alive > memory)),
        memory_share=np.where(training, 1.0, INFERENCE_MEMORY),
        update_s=np.zeros(len(cases)),
    )
