"""The tutorial's solvers under its names, thin over `theory`: quantities in, quantities out.

A number says what it rests on in `basis`: training or inference, which software stack or textbook
efficiency, whose link.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import msgspec

from stoker.errors import InputError
from stoker.records.scenario import (
    LoaderSettings,
    Resource,
    Scenario,
    StageCost,
)
from stoker.records.scenario import Machine as Host
from stoker.records.scenario import Workload as Work
from stoker.records.zoo import Precision, Stack
from stoker.stats import Spread
from stoker.theory.pipeline import forecast
from stoker.theory.step import StepForecast, step_time
from stoker.units import Dimension, from_si, positive, text, to_si
from stoker.zoo.catalogue import Hardware, Machine, Models, Workload, textbook

if TYPE_CHECKING:
    import pint

__all__ = [
    "DataModel",
    "DataResult",
    "Engine",
    "Hardware",
    "Models",
    "PerformanceProfile",
    "SingleNodeModel",
    "TransformationModel",
    "TransformationResult",
]

_TRAINING_FORWARDS = 3
_BYTES = {"fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2, "fp8": 1, "int8": 1}


class PerformanceProfile(msgspec.Struct, frozen=True, kw_only=True):
    """One step of one model on one accelerator, nothing waited for.

    `low` and `high` are the ends of the latency's 75 % band; a textbook roofline has none.
    """

    latency: pint.Quantity[float]
    low: pint.Quantity[float] | None
    high: pint.Quantity[float] | None
    latency_compute: pint.Quantity[float]
    latency_memory: pint.Quantity[float]
    latency_overhead: pint.Quantity[float]
    throughput: pint.Quantity[float]
    bottleneck: str  # "Compute", "Memory" or "Overhead"
    arithmetic_intensity: pint.Quantity[float]
    ridge_point: pint.Quantity[float]
    memory_footprint: pint.Quantity[float]
    mfu: float
    feasible: bool
    is_training: bool
    stack: str | None
    basis: str


class DataResult(msgspec.Struct, frozen=True, kw_only=True):
    """What the way to the accelerator can deliver, against what is asked of it."""

    is_stalled: bool
    utilization: float
    demand_bw: pint.Quantity[float]
    supply_bw: pint.Quantity[float]
    bottleneck: str  # "Storage" or "Interconnect"
    margin: pint.Quantity[float]
    basis: str


class TransformationResult(msgspec.Struct, frozen=True, kw_only=True):
    """Preparing a batch on the CPU against the accelerator's step."""

    transform_time: pint.Quantity[float]
    accelerator_step_time: pint.Quantity[float]
    step_time: pint.Quantity[float]
    is_bottleneck: bool
    accelerator_utilization: float
    stall_share: float
    slowdown_factor: float
    basis: str


class SingleNodeModel:
    """How long one step takes on one accelerator."""

    def solve(
        self,
        model: Workload,
        hardware: Machine,
        batch_size: int = 1,
        precision: str = "fp16",
        efficiency: float | None = None,
        *,
        training: bool = True,
        stack: str | None = None,
    ) -> PerformanceProfile:
        """Forecast the step on a software stack; with an `efficiency`, the textbook's roofline.

        Without either, training on the model's usual stack. The textbook divides FLOPs by the
        peak times the efficiency, without a stack and without a band. Raises InputError for both
        at once, and for a batch, precision or efficiency that makes no sense.
        """
        _whole(batch_size, "the batch size")
        if efficiency is None:
            return _on_stack(model, hardware, batch_size, precision, training=training, stack=stack)
        if stack is not None:
            raise InputError(
                f"an efficiency ({efficiency}) and a stack ({stack}) were given",
                looked_at="efficiency and stack",
                run_next="give one: a stack has its own measured efficiency",
            )
        return _by_textbook(model, hardware, batch_size, precision, efficiency, training=training)


class DataModel:
    """Whether storage and link can deliver what the accelerator asks for."""

    def solve(
        self, workload_data_rate: pint.Quantity[float] | str, hardware: Machine
    ) -> DataResult:
        """Compare a demand in bytes a second with the narrowest part of the way that is known.

        A bare accelerator has no storage: it is unknown, and only the link is compared. Raises
        InputError for a rate that is none of bytes, and when nothing of the way is known.
        """
        demand = to_si(workload_data_rate, Dimension.BYTE_RATE, name="the workload's data rate")
        ways: list[tuple[float, str, str]] = []
        if hardware.link_bytes_per_s is not None:
            ways.append((hardware.link_bytes_per_s, "Interconnect", hardware.link_source))
        store = hardware.store
        if store is not None and store.bytes_per_s is not None:
            ways.append((store.bytes_per_s.value, "Storage", store.title))
        if not ways:
            raise InputError(
                f"neither the link nor the storage of {hardware.name} is known",
                looked_at=f"the zoo's entry {hardware.entry.name}",
                run_next="hardware.with_storage('nvme') adds a kind of storage",
            )
        supply, bottleneck, source = min(ways)
        known = "storage known" if store is not None else "storage unknown, only the link compared"
        return DataResult(
            is_stalled=demand > supply,
            utilization=demand / supply,
            demand_bw=from_si(demand, Dimension.BYTE_RATE).to("GB/s"),
            supply_bw=from_si(supply, Dimension.BYTE_RATE).to("GB/s"),
            bottleneck=bottleneck,
            margin=from_si(supply - demand, Dimension.BYTE_RATE).to("GB/s"),
            basis=f"{source}; {known}",
        )


class TransformationModel:
    """Whether the CPU prepares batches as fast as the accelerator uses them."""

    def solve(
        self,
        batch_size: int,
        sample_size_bytes: pint.Quantity[float] | str | float,
        cpu_throughput: pint.Quantity[float] | str,
        accelerator_step_time: pint.Quantity[float] | str,
        *,
        overlapped: bool = True,
    ) -> TransformationResult:
        """Times of one batch: bytes over bytes a second, against the step.

        Overlapped, the longer of the two is the step; otherwise they take turns. A plain number
        of `sample_size_bytes` is bytes; a throughput of samples is refused, because decoding
        follows pixels and not bytes. Raises InputError naming the quantity.
        """
        _whole(batch_size, "the batch size")
        size = (
            positive(float(sample_size_bytes), name="the sample's size")
            if isinstance(sample_size_bytes, (int, float))
            else to_si(sample_size_bytes, Dimension.BYTES, name="the sample's size")
        )
        rate = to_si(cpu_throughput, Dimension.BYTE_RATE, name="the CPU's throughput")
        step_s = to_si(accelerator_step_time, Dimension.TIME, name="the accelerator's step time")
        found = forecast(_one_worker(batch_size, size / rate, step_s, is_overlapped=overlapped))
        prepare_s = batch_size * size / rate
        spent_s = found.step_s.median
        return TransformationResult(
            transform_time=from_si(prepare_s, Dimension.TIME).to("ms"),
            accelerator_step_time=from_si(step_s, Dimension.TIME).to("ms"),
            step_time=from_si(spent_s, Dimension.TIME).to("ms"),
            is_bottleneck=prepare_s > step_s,
            accelerator_utilization=found.au.median,
            stall_share=1 - found.au.median,
            slowdown_factor=spent_s / step_s,
            basis=f"{batch_size} x {text(size, Dimension.BYTES)} at "
            f"{text(rate, Dimension.BYTE_RATE)}, "
            + ("overlapped: the longer of the two" if overlapped else "in turns: the sum"),
        )


class Engine:
    """The tutorial's engine: `Engine.solve` is `SingleNodeModel().solve`."""

    @staticmethod
    def solve(model: Workload, hardware: Machine, **settings: Any) -> PerformanceProfile:
        """See `SingleNodeModel.solve`."""
        return SingleNodeModel().solve(model, hardware, **settings)


def _one_worker(batch: int, cpu_s: float, step_s: float, *, is_overlapped: bool) -> Scenario:
    """The tutorial's pipeline: all of the CPU as one worker of one core."""
    cost = StageCost(
        stage="transform", resource=Resource.CORES, per_sample=Spread.exact(cpu_s), source="given"
    )
    return Scenario(
        machine=Host(cores=1),
        workload=Work(batch_size=batch, stages=(cost,), device_s=Spread.exact(step_s)),
        loader=LoaderSettings(workers=1 if is_overlapped else 0),
    )


def _on_stack(
    model: Workload,
    hardware: Machine,
    batch: int,
    precision: str,
    *,
    training: bool,
    stack: str | None,
) -> PerformanceProfile:
    step = step_time(
        model.entry,
        hardware.entry,
        batch=batch,
        stack=stack,
        precision=_precision_for(hardware, precision, stack),
        training=training,
    )
    flops = model.entry.training_flops if training else model.entry.forward_flops
    peak = hardware.entry.peak(step.precision) or math.nan
    memory_s = step.memory_s + step.optimizer_s
    return PerformanceProfile(
        latency=_milliseconds(step.seconds.median),
        low=_milliseconds(step.seconds.low),
        high=_milliseconds(step.seconds.high),
        latency_compute=_milliseconds(step.compute_s),
        latency_memory=_milliseconds(memory_s),
        latency_overhead=_milliseconds(step.launch_s),
        throughput=from_si(step.samples_per_s.median, Dimension.SAMPLE_RATE),
        bottleneck=_named(step),
        arithmetic_intensity=_intensity(step.intensity),
        ridge_point=_intensity(step.ridge),
        memory_footprint=from_si(step.memory_bytes, Dimension.BYTES).to("GB"),
        mfu=math.nan if flops is None else batch * flops / (step.seconds.median * peak),
        feasible=step.fits,
        is_training=training,
        stack=step.stack.value,
        basis=step.basis,
    )


def _named(step: StepForecast) -> str:
    return {"compute": "Compute", "memory": "Memory", "launch": "Overhead"}[step.bound.value]


def _precision_for(hardware: Machine, precision: str, stack: str | None) -> str:
    """The stack's own precision where it has one; bf16 for fp16 on a device that lacks fp16."""
    if stack in (Stack.FP32, Stack.TF32):
        return str(stack)
    has = hardware.entry.peak_flops
    if precision == "fp16" and Precision.FP16 not in has and Precision.BF16 in has:
        return "bf16"
    return precision


def _by_textbook(
    model: Workload,
    hardware: Machine,
    batch: int,
    precision: str,
    efficiency: float,
    *,
    training: bool,
) -> PerformanceProfile:
    """max(FLOPs / (e·peak), bytes / bandwidth) + launches: no stack, no band.

    Bytes are the weights once and, for each sample, what its layers put out, written and read.
    """
    if not 0 < efficiency <= 1:
        raise InputError(
            f"the efficiency is {efficiency}: a share of the peak lies between 0 and 1",
            looked_at="efficiency",
            run_next="give for example efficiency=0.5, or a stack",
        )
    peak = hardware.entry.peak_flops.get(Precision(_known_precision(precision)))
    if peak is None:
        raise InputError(
            f"{hardware.name} has no {precision} rate",
            looked_at="its rates: " + ", ".join(hardware.entry.peak_flops),
            run_next="choose one of these",
        )
    passes = _TRAINING_FORWARDS if training else 1
    flops = passes * batch * model.textbook_flops
    width = _BYTES[precision]
    outputs = model.entry.activations.value if model.entry.activations else 0.0
    weights = width * model.parameters
    moved = passes * (weights + batch * 2 * width * outputs)
    bandwidth = hardware.entry.memory_bytes_per_s.value
    compute_s, memory_s = flops / (efficiency * peak.value), moved / bandwidth
    launch_s = hardware.dispatch_s + passes * model.layers * textbook()["layer_s"]
    seconds = max(compute_s, memory_s) + launch_s
    # Training keeps the weights, their gradients and 12 bytes of Adam's state a parameter.
    state = weights if not training else 2 * weights + 12 * model.parameters
    footprint = state + batch * width * outputs
    doing = "training, three forward passes" if training else "inference"
    return PerformanceProfile(
        latency=_milliseconds(seconds),
        low=None,
        high=None,
        latency_compute=_milliseconds(compute_s),
        latency_memory=_milliseconds(memory_s),
        latency_overhead=_milliseconds(launch_s),
        throughput=from_si(batch / seconds, Dimension.SAMPLE_RATE),
        bottleneck="Compute" if compute_s >= memory_s else "Memory",
        arithmetic_intensity=_intensity(flops / moved),
        ridge_point=_intensity(efficiency * peak.value / bandwidth),
        memory_footprint=from_si(footprint, Dimension.BYTES).to("GB"),
        mfu=flops / (seconds * peak.value),
        feasible=footprint <= hardware.entry.memory_bytes.value,
        is_training=training,
        stack=None,
        basis=f"textbook roofline, {doing}: {efficiency:g} of "
        f"{text(peak.value, Dimension.FLOP_RATE)}, {model.textbook_flops / 1e9:g} GFLOP a forward "
        f"pass; {textbook()['source']}",
    )


def _known_precision(precision: str) -> str:
    if precision not in _BYTES:
        raise InputError(
            f"there is no precision {precision!r}",
            looked_at="precisions " + ", ".join(_BYTES),
            run_next='precision="fp16"',
        )
    return precision


def _whole(value: object, name: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InputError(
            f"{name} is {value!r}: it must be a whole number of at least 1",
            looked_at=name,
            run_next=f"give {name} as a positive whole number",
        )


def _milliseconds(seconds: float) -> pint.Quantity[float]:
    return from_si(seconds, Dimension.TIME).to("ms")


def _intensity(value: float) -> pint.Quantity[float]:
    from stoker.units import Q_

    return Q_(value, "FLOP/B")
