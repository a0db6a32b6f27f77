"""How long an accelerator needs for one step, with its 75 % band and what it rests on.

Compute, memory traffic, launches and the optimizer, summed (`roofline` has the equations). Pure: no
machine is touched.
"""

from __future__ import annotations

import math
from enum import StrEnum
from typing import TypeVar

import msgspec

from stoker.errors import InputError
from stoker.records.zoo import FLOPS_PER_MAC, Accelerator, Layers, Model, Precision, Stack
from stoker.stats import Spread
from stoker.theory import roofline
from stoker.theory.cases import (
    Case,
    devices,
    networks,
    operations_of,
    stem_of,
    texts,
)
from stoker.theory.constants import Fit, fitted
from stoker.theory.memory import memory_bytes

Choice = TypeVar("Choice", bound=StrEnum)


class Bound(StrEnum):
    """What the step spends most of its time on."""

    COMPUTE = "compute"
    MEMORY = "memory"
    LAUNCH = "launch"


class StepForecast(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The model alone on one accelerator, nothing waited for."""

    model: str
    accelerator: str
    stack: Stack
    precision: Precision
    training: bool
    batch: float  # in the model's units: images, sequences, tokens
    seconds: Spread  # of a step; low and high are the 75 % band
    samples_per_s: Spread
    compute_s: float
    memory_s: float
    optimizer_s: float
    launch_s: float
    intensity: float  # FLOPs for each byte of memory traffic
    ridge: float  # the intensity at which compute and memory take as long, at the peak rates
    bound: Bound
    memory_bytes: float  # needed, with activations
    fits: bool
    basis: str


# Nobody's published inference rates went into the fit: a quarter more to each side.
_INFERENCE_WIDENING = 1.25
# How long the host needs for its launches is an estimate, good to half of it: the band widens with
# the share of the step that they take.
_LAUNCH_WIDENING = 0.5


def default_stack(model: Model) -> Stack:
    """The stack that a model of this class usually runs on, when none is given."""
    if model.layers is Layers.LLM:
        return Stack.LLM
    if model.layers is Layers.ATTENTION:
        return Stack.TRANSFORMER_AMP
    return Stack.NHWC_AMP


def default_precision(stack: Stack, accelerator: Accelerator) -> Precision:
    """The number format that a stack usually has on a device."""
    fixed = {Stack.FP32: Precision.FP32, Stack.TF32: Precision.TF32}.get(stack)
    if fixed is not None:
        return fixed
    has_bf16 = accelerator.peak(Precision.BF16) is not None
    return Precision.BF16 if has_bf16 else Precision.FP16


def step_time(
    model: Model,
    accelerator: Accelerator,
    *,
    batch: float,
    stack: Stack | str | None = None,
    precision: Precision | str | None = None,
    training: bool = True,
    accelerators: int = 1,
) -> StepForecast:
    """Seconds of one step with the 75 % band.

    `batch` counts the model's units on one device: images, sequences, or tokens of a language
    model. `accelerators` share weights, gradients and optimizer state (FSDP, ZeRO). Raises
    InputError for a batch that is no positive number, a name that doesn't exist, a rate that the
    device lacks, and a model whose work nobody knows.
    """
    if not (0 < batch < math.inf):
        raise InputError(
            f"the batch is {batch}: it must be positive and finite",
            looked_at=f"the batch of {model.name} on {accelerator.name}",
            run_next="give a batch of 1 or more",
        )
    chosen = default_stack(model) if stack is None else _named(Stack, stack, "stack")
    if (chosen is Stack.LLM) != (model.layers is Layers.LLM):
        raise InputError(
            f"{model.name} does not run on the stack '{chosen}'",
            looked_at=f"its class: {model.layers}",
            run_next=f"leave --stack out, or take --stack {default_stack(model)}",
        )
    precise = (
        default_precision(chosen, accelerator)
        if precision is None
        else _named(Precision, precision, "precision")
    )
    if accelerator.peak(precise) is None:
        have = ", ".join(str(one) for one in accelerator.peak_flops) or "none is known"
        raise InputError(
            f"{accelerator.name} has no {precise} rate",
            looked_at=f"its rates: {have}",
            run_next="choose one of these with --precision, or another --stack",
        )
    case = Case(
        model=model,
        accelerator=accelerator,
        stack=chosen,
        precision=precise,
        batch=batch,
        training=training,
        accelerators=accelerators,
    )
    return forecast_case(case)


def _named(kind: type[Choice], name: Choice | str, what: str) -> Choice:
    try:
        return kind(str(name))
    except ValueError:
        raise InputError(
            f"there is no {what} '{name}'",
            looked_at=f"the {what}s: {', '.join(kind)}",
            run_next=f"choose one of these with --{what}",
        ) from None


def _require_work(model: Model, fit: Fit) -> None:
    if model.forward_macs is None and not fit.knows_model(stem_of(model.name)):
        raise InputError(
            f"nobody says how many FLOPs {model.name} needs",
            looked_at=f"the zoo's entry of {model.name}, and published rates of it",
            run_next="count its layers: stoker predict mymodule:build_model --input 3x224x224",
        )


def forecast_case(case: Case) -> StepForecast:
    """A case worked out with the shipped constants. Raises InputError for unknown work."""
    fit = fitted()
    _require_work(case.model, fit)
    device = devices([case], fit.architectures)
    is_text = case.model.layers is Layers.LLM
    if is_text:
        terms = roofline.text_seconds(device, texts([case]), fit)
        counted = True
    else:
        network = networks([case], fit.templates)
        terms = roofline.network_seconds(device, network, fit)
        counted = operations_of(case.model, fit.templates)[1]
    per_unit = [float(part[0]) for part in terms]
    compute_s, memory_s, launch_s, update_s = (case.batch * part for part in per_unit)
    seconds = compute_s + memory_s + launch_s + update_s
    factor = _band(case, fit, counted=counted, launch_share=launch_s / seconds)
    needed = memory_bytes(
        case.model,
        batch=case.batch,
        precision=case.precision,
        training=case.training,
        accelerators=case.accelerators,
        is_recomputed=is_text and bool(texts([case]).is_recomputed[0]),
    )
    bandwidth = case.accelerator.memory_bytes_per_s.value
    ridge = (case.accelerator.peak(case.precision) or math.nan) / bandwidth
    parts = {
        Bound.COMPUTE: compute_s,
        Bound.MEMORY: memory_s + update_s,
        Bound.LAUNCH: launch_s,
    }
    return StepForecast(
        model=case.model.name,
        accelerator=case.accelerator.name,
        stack=case.stack,
        precision=case.precision,
        training=case.training,
        batch=case.batch,
        seconds=Spread(seconds, seconds / factor, seconds * factor),
        samples_per_s=Spread(
            case.batch / seconds, case.batch / (seconds * factor), case.batch * factor / seconds
        ),
        compute_s=compute_s,
        memory_s=memory_s,
        optimizer_s=update_s,
        launch_s=launch_s,
        intensity=_flops(case) / max((memory_s + update_s) * bandwidth, 1.0),
        ridge=ridge,
        bound=max(parts, key=lambda bound: parts[bound]),
        memory_bytes=needed,
        fits=needed <= case.accelerator.memory_bytes.value,
        basis=_basis(case, fit, counted=counted, factor=factor),
    )


def _flops(case: Case) -> float:
    model = case.model
    per_unit = model.training_flops if case.training else model.forward_flops
    if per_unit is None:
        counted = operations_of(model, fitted().templates)[0]
        per_unit = FLOPS_PER_MAC * sum(one.macs for one in counted.values())
    return case.batch * per_unit


def _band(case: Case, fit: Fit, *, counted: bool, launch_share: float) -> float:
    """The factor to each side that 75 % of held-out rates of such a case lie within."""
    if case.model.layers is Layers.LLM:
        band = fit.bands.language
    else:
        band = fit.bands.counted if counted else fit.bands.uncounted
    factor = band.seen
    if not _knows_device(case, fit):
        factor = max(factor, band.new_accelerator)
        if _is_foreign(case, fit):
            factor = max(factor, fit.bands.foreign)
    if not fit.knows_model(stem_of(case.model.name)):
        factor = max(factor, band.new_model)
    if not case.training:
        factor *= _INFERENCE_WIDENING
    return factor * (1 + _LAUNCH_WIDENING * launch_share)


def _is_foreign(case: Case, fit: Fit) -> bool:
    """True when neither facts nor rates of the device's chip family went into the fit."""
    family = case.accelerator.architecture
    of = "language-" if case.model.layers is Layers.LLM else ""
    return (
        family not in fit.architectures and f"effect.{of}architecture.{family}" not in fit.constants
    )


def _knows_device(case: Case, fit: Fit) -> bool:
    is_text = case.model.layers is Layers.LLM
    return fit.knows_accelerator(case.accelerator.name, of_texts=is_text)


def _basis(case: Case, fit: Fit, *, counted: bool, factor: float) -> str:
    what = "training" if case.training else "inference (no rates to check it by)"
    parts = [what, f"{case.stack} stack", str(case.precision), f"x/÷{factor:.2f} (75 %)"]
    if not _knows_device(case, fit):
        parts.append(f"no published rate of {case.accelerator.name} in the fit")
    if case.model.layers is not Layers.LLM and not counted:
        parts.append(f"layers of {case.model.name} not counted: the usual mix of its class")
    return "; ".join([*parts, fit.source])
