"""A forecast as text: the limit first, then what bounds the step, then what it all rests on.

Formatting only: every number comes finished.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence

import msgspec

from stoker.records.scenario import Forecast, Resource, Scenario, StageCost
from stoker.report.numbers import amount, counted, percent, spread
from stoker.report.plot import Bar, bars
from stoker.stats import Spread
from stoker.theory.assume import Basis
from stoker.theory.layers import LayerForecast
from stoker.theory.plan import Added, Needs, fastest_step, most_added
from stoker.theory.stalls import Stall
from stoker.theory.step import StepForecast

SCHEMA = "stoker.forecast/1"
_LIMITS = {
    Resource.CORES: "CPU cores",
    Resource.STORAGE: "storage",
    Resource.MEMORY: "hand-off to the training process",
    Resource.LINK: "link to the accelerator",
    Resource.ACCELERATOR: "the accelerator itself",
    Resource.TURNS: "loading and the step in turns",
}
# What keeps a step with endless loading from the accelerator's own pace, and what takes it away.
_ADDED = {
    Added.TRANSFER: (
        "for the copy to the accelerator",
        "--overlap-transfer, in a script pinned-async",
    ),
    Added.CONTENTION: ("for what workers add to the step", "fewer workers, or more cores"),
    Added.RECEIVING: ("for taking batches from workers", "device-augment, or smaller samples"),
    Added.EPOCHS: ("for epoch boundaries", "persistent-workers, or longer epochs"),
    None: ("the accelerator's own pace", ""),
}
# An effect below this share of the step is none that anybody would invest in.
_NEGLIGIBLE = 0.002


class WhatIf(msgspec.Struct, frozen=True, kw_only=True):
    """A what-if: what was changed, its forecast, and the gain over the run without it.

    Both are None where not enough is known of the run; `reason` says what is missing.
    """

    what: str
    forecast: Forecast | None
    gain: Spread | None
    reason: str = ""


class Saved(msgspec.Struct, frozen=True, kw_only=True):
    """What a tenth more of one resource saves of the step."""

    what: str
    saved: Spread


class MostUse(msgspec.Struct, frozen=True, kw_only=True):
    """The most that workers give where no number of them reaches the target, and why no more."""

    workers: int
    au: float
    limit: Resource
    in_the_way: Added | None  # the largest part beyond the accelerator's own


class Prediction(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that `stoker predict` answers; as JSON it is the same record."""

    schema: str = SCHEMA
    run: str
    surroundings: tuple[str, ...]
    doubts: tuple[str, ...] = ()  # about the diagnosis that it starts from
    band: str  # what low and high are: "75% band", "95% interval"
    forecast: Forecast
    target_au: float
    workers: int | None  # that reach the target; None: no number does
    most_use: MostUse | None = None  # where none do
    cores_per_accelerator: float  # that utilisation 1 needs
    first_epoch: Forecast | None = None
    step: StepForecast | None = None
    what_if: tuple[WhatIf, ...] = ()
    variation: float | None = None  # of a sample's loading time, as given
    stalls: tuple[Stall, ...] = ()
    where_to_invest: tuple[Saved, ...] = ()
    scenario: Scenario
    bases: tuple[Basis, ...] = ()
    unknown: tuple[str, ...] = ()


class StepAlone(msgspec.Struct, frozen=True, kw_only=True):
    """A step without a host: what it takes, and what feeding it asks for."""

    schema: str = SCHEMA
    run: str
    chosen: tuple[str, ...]
    band: str = "75% band"
    samples: int  # a step; the step itself counts the model's units
    step: StepForecast
    needs: Needs
    unknown: tuple[str, ...] = ()
    layers: tuple[LayerForecast, ...] = ()


def prediction_text(prediction: Prediction, *, width: int) -> str:
    """The whole answer, ending in a newline."""
    parts: list[Iterable[str]] = [
        [prediction.run, *prediction.surroundings],
        folded("doubtful", prediction.doubts, width),
        _answer(prediction),
        _bounds(prediction, width),
        _stages(prediction.scenario.workload.stages, prediction.scenario.workload.batch_size),
    ]
    if prediction.step is not None:
        parts.append(step_lines(prediction.step))
    parts += [
        _tried(prediction.what_if),
        _stalls(prediction),
        _effects(prediction.where_to_invest),
        _bases(prediction.bases, width),
        folded("unknown", prediction.unknown, width),
    ]
    return "\n\n".join("\n".join(part) for part in map(list, parts) if part) + "\n"


def step_alone_text(alone: StepAlone, *, width: int) -> str:
    """The step, its roofline and its demands, ending in a newline."""
    step, needs = alone.step, alone.needs
    rate = step.seconds.median / alone.samples
    ends = (alone.samples / step.seconds.high, alone.samples / step.seconds.low)
    parts = [
        [alone.run, *(["chosen for you: " + "; ".join(alone.chosen)] if alone.chosen else [])],
        [
            f"a step of {alone.samples} takes {spread(step.seconds, 's')}, 75% band",
            f"{spread(Spread(1 / rate, *ends), 'samples/s')}",
        ],
        step_lines(step),
        needs_lines(needs),
        folded("unknown", alone.unknown, width),
        _layer_lines(alone.layers),
    ]
    text = "\n\n".join("\n".join(part) for part in parts if part) + "\n"
    return text + "\nno host was named: --host p4d or --cores 6 tells whether it is fed\n"


def needs_lines(needs: Needs) -> list[str]:
    """What one accelerator asks of its host at this pace."""
    rows = [
        ("cores", amount(needs.cores, "cores").removesuffix(" cores")),
        ("workers", f"{needs.workers}"),
        ("storage", _or_unknown(needs.storage_bytes_per_s, "bytes/s")),
        ("storage reads", _or_unknown(needs.storage_reads_per_s, "reads/s")),
        ("link", _or_unknown(needs.link_bytes_per_s, "bytes/s")),
    ]
    return [
        f"to be fed ({amount(needs.samples_per_s, 'samples/s')}) one accelerator needs",
        *(f"  {line}" for line in columns(("", ""), rows)[1:]),
    ]


# More layers than these are named in the JSON; the rest takes little time by construction.
_MOST_LAYERS = 12


def _layer_lines(layers: Sequence[LayerForecast]) -> list[str]:
    if not layers:
        return []
    slowest = sorted(layers, key=lambda layer: -layer.seconds)[:_MOST_LAYERS]
    rows = [
        (
            layer.name,
            layer.kind,
            percent(layer.share),
            f"{layer.intensity:,.0f}",
            "compute" if layer.is_compute_bound else "memory",
        )
        for layer in slowest
    ]
    bound = math.fsum(layer.share for layer in layers if not layer.is_compute_bound)
    return [
        f"the forward pass layer by layer: {percent(bound)} of its least time is in "
        f"memory-bound layers (below {layers[0].ridge:,.0f} FLOP a byte)",
        *columns(("layer", "kind", "of the time", "FLOP a byte", "bound"), rows, left=2),
        *([f"and {len(layers) - len(slowest)} more"] if len(layers) > len(slowest) else []),
    ]


def _or_unknown(value: float | None, kind: str) -> str:
    return "unknown" if value is None else amount(value, kind)


def step_lines(step: StepForecast) -> list[str]:
    """The step by itself: its parts, the roofline, the memory."""
    parts = [
        (name, seconds)
        for name, seconds in (
            ("compute", step.compute_s),
            ("memory traffic", step.memory_s),
            ("optimizer", step.optimizer_s),
            ("launches", step.launch_s),
        )
        if seconds > 0
    ]
    return [
        f"the step: {step.bound}-bound; "
        + ", ".join(f"{name} {amount(seconds, 's')}" for name, seconds in parts),
        f"  {step.intensity:,.0f} FLOP a byte of traffic; above {step.ridge:,.0f} compute would "
        f"bind; {amount(step.memory_bytes, 'bytes')} of memory",
        *textwrap.wrap(step.basis, 76, initial_indent="  ", subsequent_indent="  "),
    ]


def columns(headers: Sequence[str], rows: Iterable[Sequence[str]], *, left: int = 1) -> list[str]:
    """An aligned table; the first `left` columns and the last are set left, the others right."""
    cells = [list(headers), *(list(row) for row in rows)]
    widths = [max(len(row[index]) for row in cells) for index in range(len(headers))]
    lines = []
    for row in cells:
        set_row = [
            text.ljust(size) if index < left or index == len(row) - 1 else text.rjust(size)
            for index, (text, size) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(set_row).rstrip())
    return lines


def limit_name(resource: Resource) -> str:
    """The resource in words."""
    return _LIMITS[resource]


def in_the_way(part: Added | None) -> tuple[str, str]:
    """The largest part of a step that no faster loading takes away in words, and what does."""
    return _ADDED[part]


def _workers_wanted(prediction: Prediction) -> list[str]:
    """The workers that reach the target; where none do, what is in the way, and what helps."""
    title = f"workers for {percent(prediction.target_au)}"
    now = f"(now {prediction.scenario.loader.workers})"
    if prediction.workers is not None:
        return [f"{title}: {prediction.workers} {now}"]
    best_au = prediction.scenario.workload.device_s.median / fastest_step(prediction.scenario)
    most = prediction.most_use
    if best_au < prediction.target_au:
        reason, remedy = in_the_way(most_added(prediction.scenario))
        never = f"with endless ones it is {amount(best_au, 'share')}, {reason}"
    elif most is not None:
        reason, remedy = f"limit: {limit_name(most.limit)}", ""
        if most.limit is Resource.ACCELERATOR:
            reason, remedy = in_the_way(most.in_the_way)
        many = counted(most.workers, "worker")
        never = f"at most it is {amount(most.au, 'share')}, with {many}, {reason}"
    else:
        never, remedy = "no number of workers reaches it on this host", ""
    return [
        f"{title}: never; {never} {now}",
        *([f"beyond that: {remedy}"] if remedy else []),
    ]


def _answer(prediction: Prediction) -> list[str]:
    found = prediction.forecast
    # A bound that is left out is no small matter where it is the usual limit.
    cpu_is_unknown = any(text.startswith("CPU") for text in prediction.unknown)
    limit = "limit among what is known" if cpu_is_unknown else "limit"
    has = prediction.scenario.machine.cores / prediction.scenario.machine.accelerators
    lines = [
        f"{limit}: {limit_name(found.limit)}",
        f"the accelerator is in use for {spread(found.au, 'share')} of the time (AU), "
        f"{prediction.band}",
        f"a step takes {spread(found.step_s, 's')}: {spread(found.samples_per_s, 'samples/s')}",
        *_workers_wanted(prediction),
        f"cores that loading needs for 100%: "
        f"{amount(prediction.cores_per_accelerator, 'cores')} an accelerator "
        f"(now {amount(has, 'cores')})",
    ]
    first = prediction.first_epoch
    if first is not None and first.limit is not found.limit:
        lines.append(
            f"the first epoch, nothing cached: {amount(first.step_s.median, 's')} a step, "
            f"limit: {limit_name(first.limit)}"
        )
    if cpu_is_unknown:
        lines.append("the CPU of loading a sample is unknown and left out: --cpu 3ms, or --dataset")
    if prediction.scenario.loader.workers == 0:
        lines.append("0 workers: loading and the step take turns, so their times add up")
    return lines


def _bounds(prediction: Prediction, width: int) -> list[str]:
    """The picture: every bound against the step itself."""
    felt = (term for term in prediction.forecast.terms if term.seconds.median > 0)
    terms = sorted(felt, key=lambda term: -term.seconds.median)
    rows = [Bar(term.name, term.seconds.median) for term in terms]
    edge_s = prediction.scenario.workload.epoch_edge_s.median
    if edge_s > 0:
        # It comes on top of whatever binds within an epoch.
        rows.append(Bar("epoch boundaries, on top", edge_s))
    own = next(t for t in prediction.forecast.terms if t.resource is Resource.ACCELERATOR)
    title = (
        "a step can't be shorter than (┃ the step itself)"
        if prediction.scenario.loader.workers
        else "what the step is made of"
    )
    return [title, *bars(rows, mark_s=own.seconds.median, width=width)]


def _stages(stages: Sequence[StageCost], batch: int) -> list[str]:
    if not stages:
        return []
    rows = [
        (
            cost.stage,
            "CPU" if cost.resource is Resource.CORES else "blocked",
            amount(cost.per_sample.median, "s"),
            amount(cost.per_sample.median * batch, "s"),
            {True: "every epoch alike", False: "random", None: ""}[cost.deterministic],
        )
        for cost in stages
    ]
    return columns(("stage", "uses", "a sample", "a batch", ""), rows, left=2)


def _tried(tried: Sequence[WhatIf]) -> list[str]:
    if not tried:
        return []
    rows = [
        (one.what, "unknown", "", "", one.reason)
        if one.forecast is None
        else (
            one.what,
            spread(one.gain, "x"),
            amount(one.forecast.samples_per_s.median, "samples/s"),
            percent(one.forecast.au.median),
            limit_name(one.forecast.limit),
        )
        for one in tried
    ]
    return columns(("what if", "faster", "gives", "AU", "limit"), rows)


def _stalls(prediction: Prediction) -> list[str]:
    if not prediction.stalls:
        return []
    rows = [
        (
            f"prefetch_factor {one.prefetch_factor}" + ("" if one.in_order else ", out of order"),
            percent(one.au),
            amount(one.wait_s, "s"),
        )
        for one in prediction.stalls
    ]
    title = f"loading that varies by {prediction.variation:g} a sample"
    return columns((title, "AU", "wait for a batch"), rows)


def _effects(effects: Sequence[Saved]) -> list[str]:
    if not effects:
        return []
    felt = [effect for effect in effects if effect.saved.median > _NEGLIGIBLE]
    rows = [(effect.what, spread(effect.saved, "share")) for effect in felt]
    idle = [effect.what for effect in effects if effect.saved.median <= _NEGLIGIBLE]
    lines = columns(("where to invest", "of the step saved"), rows) if rows else []
    if idle:
        lines += textwrap.wrap(
            "nothing: " + ", ".join(idle), 78, initial_indent="", subsequent_indent="  "
        )
    return lines


def _bases(bases: Sequence[Basis], width: int) -> list[str]:
    """One number a line, with who says it."""
    if not bases:
        return []
    name = max(len(basis.what) for basis in bases)
    value = max(len(basis.value) for basis in bases)
    lines = ["what it rests on"]
    for basis in bases:
        lines += textwrap.wrap(
            f"{basis.what:<{name}}  {basis.value:>{value}}  {basis.kind}: {basis.source}",
            width,
            initial_indent="  ",
            subsequent_indent=" " * (name + value + 6),
        )
    return lines


def folded(title: str, texts: Sequence[str], width: int) -> list[str]:
    """Each text under its title, wrapped."""
    lines = []
    for text in texts:
        lines += textwrap.wrap(f"{title}: {text}", width, initial_indent="", subsequent_indent="  ")
    return lines
