"""The zoo as text: a table of a shelf, or every number of one entry with where it is from.

Formatting only; widths hold at 80 columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from stoker.records.zoo import (
    Accelerator,
    DataSet,
    Host,
    HostOp,
    Link,
    Model,
    Precision,
    PublishedRate,
    Sourced,
    Storage,
)
from stoker.report.numbers import amount

Entry = Accelerator | Model | Host | Storage | Link | HostOp | DataSet
_UNKNOWN = "?"
# Published rates of one model; the rest is counted.
_MOST_RATES = 12


class Columns(NamedTuple):
    """How a shelf is shown: its headings, and the cells of an entry."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    foot: str = ""


def _number(value: Sourced | None, kind: str, factor: float = 1.0) -> str:
    return _UNKNOWN if value is None else amount(value.value * factor, kind)


def _tera(value: Sourced | None) -> str:
    return _UNKNOWN if value is None else f"{value.value / 1e12:,.4g}"


def machine_columns(machines: Iterable[Accelerator]) -> Columns:
    """Accelerators: dense rates in TFLOP/s, memory, power, link."""
    rows = tuple(
        (
            one.name,
            _tera(one.peak_flops.get(Precision.FP32)),
            _tera(one.peak_flops.get(Precision.BF16) or one.peak_flops.get(Precision.FP16)),
            _tera(one.peak_flops.get(Precision.FP8)),
            _number(one.memory_bytes, "bytes"),
            _number(one.memory_bytes_per_s, "bytes/s"),
            _number(one.power_w, "W"),
            one.link or _UNKNOWN,
        )
        for one in machines
    )
    headings = ("machine", "fp32", "16-bit", "fp8", "memory", "bandwidth", "power", "link")
    return Columns(headings, rows, "Rates are dense TFLOP/s with fp32 accumulation; ? is unknown.")


def model_columns(models: Iterable[Model], rates: Sequence[PublishedRate]) -> Columns:
    """Models: parameters, work and activations of one unit, and how many rates are published."""
    counts: dict[str, int] = {}
    for rate in rates:
        counts[rate.model] = counts.get(rate.model, 0) + 1
    rows = tuple(
        (
            one.name,
            one.layers.value,
            _UNKNOWN if one.parameters is None else f"{one.parameters.value / 1e6:,.4g} M",
            _UNKNOWN if one.forward_flops is None else f"{one.forward_flops / 1e9:,.3g}",
            _UNKNOWN if one.activations is None else f"{one.activations.value / 1e6:,.3g} M",
            one.unit,
            str(counts.get(one.name, 0)),
        )
        for one in models
    )
    headings = ("model", "class", "params", "GFLOPs", "outputs", "per", "rates")
    return Columns(
        headings, rows, "GFLOPs and outputs of layers are of a forward pass; rates: published."
    )


def host_columns(hosts: Iterable[Host]) -> Columns:
    """Hosts: what each accelerator has of cores, and the disk and network of all together."""
    rows = tuple(
        (
            one.name,
            f"{one.accelerators} x {one.accelerator or _UNKNOWN}",
            _share(one.cores_per_accelerator),
            _share(one.vcpus_per_accelerator),
            _number(one.memory_bytes, "bytes"),
            _number(one.disk_bytes, "bytes"),
            _number(one.network_bytes_per_s, "bytes/s"),
        )
        for one in hosts
    )
    headings = ("host", "accelerators", "cores", "vCPU", "memory", "disk", "network")
    return Columns(headings, rows, "cores and vCPU are for each accelerator; ? is unknown.")


def _share(value: float | None) -> str:
    return _UNKNOWN if value is None else f"{value:.3g}"


def storage_columns(stores: Iterable[Storage]) -> Columns:
    """Storage: sequential and random reading, and the wait for the first byte."""
    rows = tuple(
        (
            one.name,
            _number(one.bytes_per_s or one.bytes_per_s_per_request, "bytes/s")
            + ("" if one.bytes_per_s or not one.bytes_per_s_per_request else " a request"),
            _UNKNOWN if one.reads_per_s is None else f"{one.reads_per_s.value:,.0f}",
            _number(one.latency_s, "s"),
            "yes" if one.shared else "no",
        )
        for one in stores
    )
    headings = ("storage", "sequential", "reads/s", "first byte", "shared")
    return Columns(headings, rows, "? is unknown, never unlimited.")


def link_columns(links: Iterable[Link]) -> Columns:
    """Links, one direction each."""
    rows = tuple(
        (
            one.name,
            _number(one.bytes_per_s, "bytes/s"),
            _number(one.pinned_bytes_per_s, "bytes/s"),
            _number(one.pageable_bytes_per_s, "bytes/s"),
        )
        for one in links
    )
    return Columns(("link", "stated", "pinned", "pageable"), rows, "Per direction.")


def op_columns(ops: Iterable[HostOp]) -> Columns:
    """Host operations: what one core needs for one sample."""
    rows = tuple(
        (one.name, one.op.value, _number(one.core_s, "s"), f"{1 / one.core_s.value:,.0f}")
        for one in ops
    )
    headings = ("operation", "kind", "core time", "samples/s a core")
    return Columns(headings, rows)


def dataset_columns(datasets: Iterable[DataSet]) -> Columns:
    """Data sets: what a sample weighs on storage and in a batch."""
    rows = tuple(
        (
            one.name,
            _number(one.stored_bytes, "bytes"),
            _number(one.sample_bytes, "bytes"),
            _UNKNOWN if one.samples is None else f"{one.samples.value:,.0f}",
        )
        for one in datasets
    )
    return Columns(("data set", "stored", "in a batch", "samples"), rows)


def shelf(columns: Columns) -> RenderableType:
    """A table of a shelf."""
    table = Table(box=box.SIMPLE, pad_edge=False, padding=(0, 1, 0, 0))
    for place, heading in enumerate(columns.headings):
        is_text = place == 0 or heading in (
            "class",
            "accelerators",
            "per",
            "link",
            "kind",
            "shared",
        )
        table.add_column(
            heading,
            justify="left" if is_text else "right",
            overflow="fold",  # a name may go on below, a number may not be cut
            no_wrap=not is_text,
        )
    for row in columns.rows:
        table.add_row(*(Text(cell) for cell in row))
    foot = f"{len(columns.rows)} entries. {columns.foot}".rstrip()
    return Group(table, Text(foot, style="dim"))


# Kinds of `amount` by the ending of a field's name, first match wins.
_UNITS = (
    ("bytes_per_s_per_request", "bytes/s"),
    ("bytes_per_s", "bytes/s"),
    ("bytes", "bytes"),
    ("reads_per_s", "reads/s"),
    ("_s", "s"),
    ("power_w", "W"),
    ("usd_per_hour", "USD/h"),
)


def _shown(field: str, value: float) -> str:
    if "flops" in field:
        return f"{value / 1e12:,.5g} TFLOP/s"
    kind = next((unit for ending, unit in _UNITS if field.endswith(ending)), "")
    if kind:
        return amount(value, kind)
    return f"{value:,.6g}"


def numbers_of(entry: Entry) -> list[tuple[str, Sourced]]:
    """Every sourced number of an entry by its name."""
    found: list[tuple[str, Sourced]] = []
    for field in msgspec.structs.fields(entry):
        value = getattr(entry, field.name)
        if isinstance(value, Sourced):
            found.append((field.name, value))
        elif isinstance(value, Mapping):
            found += [
                (f"{field.name}.{key}", one)
                for key, one in value.items()
                if isinstance(one, Sourced)
            ]
    return found


def _words(entry: Entry) -> list[tuple[str, str]]:
    shown = []
    for field in msgspec.structs.fields(entry):
        value = getattr(entry, field.name)
        if isinstance(value, bool):
            shown.append((field.name, "yes" if value else "no"))
        elif isinstance(value, str | int) and value != "" and field.name not in ("name", "title"):
            shown.append((field.name.replace("_", " "), str(value)))
        elif isinstance(value, tuple) and value:
            shown.append((field.name.replace("_", " "), ", ".join(str(one) for one in value)))
    return shown


class _Sources:
    """Sources numbered in the order in which they are needed, told once below."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def mark(self, source: str) -> str:
        """The source's number in brackets."""
        return f"[{self._numbers.setdefault(source, len(self._numbers) + 1)}]"

    def list(self) -> RenderableType:
        """All of them, each with its number."""
        table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 1, 0, 0))
        table.add_column(style="dim", no_wrap=True)
        table.add_column(overflow="fold")
        for source, number in self._numbers.items():
            table.add_row(Text(f"[{number}]"), Text(source))
        return table


def entry_page(entry: Entry, rates: Sequence[PublishedRate] = ()) -> RenderableType:
    """One entry: its words, every number with kind, date and source, and the sources below."""
    sources = _Sources()
    words = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    words.add_column(style="dim", no_wrap=True)
    words.add_column(overflow="fold")
    for key, value in _words(entry):
        words.add_row(key, Text(value))
    numbers = _plain_table("number", "value>", "kind", "checked", "source")
    for name, one in numbers_of(entry):
        numbers.add_row(
            name.replace("_", " "),
            _shown(name, one.value),
            one.kind.value,
            one.checked,
            Text(sources.mark(one.source)),
        )
    parts: list[RenderableType] = [
        Text(f"{entry.name}: {entry.title}", style="bold"),
        words,
        numbers,
    ]
    if isinstance(entry, Model):
        parts += _model_parts(entry, rates, sources)
    return Group(*parts, sources.list(), Text())


def _plain_table(*headings: str) -> Table:
    """A table without a frame; a heading that ends in > is of numbers."""
    table = Table(box=box.SIMPLE, pad_edge=False, padding=(0, 1, 0, 0))
    for heading in headings:
        justify: Literal["left", "right"] = "right" if heading.endswith(">") else "left"
        table.add_column(heading.removesuffix(">"), justify=justify, no_wrap=True)
    return table


def _model_parts(
    model: Model, rates: Sequence[PublishedRate], sources: _Sources
) -> list[RenderableType]:
    parts: list[RenderableType] = []
    if model.operations:
        work = _plain_table("work, forward", "million MACs>", "M read>", "M written>", "calls>")
        for kind, one in model.operations.items():
            work.add_row(
                kind.value,
                *(f"{value / 1e6:,.4g}" for value in (one.macs, one.read, one.written)),
                f"{one.calls:.0f}",
            )
        parts.append(work)
    mine = [rate for rate in rates if rate.model == model.name]
    if mine:
        table = _plain_table("published rate", "stack", "batch>", "a second>", "source")
        for rate in mine[:_MOST_RATES]:
            table.add_row(
                rate.accelerator,
                f"{rate.stack.value} {rate.precision.value}",
                _UNKNOWN if rate.batch is None else str(rate.batch),
                f"{rate.per_accelerator.value:,.4g} {rate.unit.removesuffix('/s')}",
                Text(sources.mark(rate.per_accelerator.source)),
            )
        parts.append(table)
        if len(mine) > _MOST_RATES:
            parts.append(Text(f"and {len(mine) - _MOST_RATES} more with --json", style="dim"))
    return parts
