"""A View on a terminal or in a file, readable at 80 columns, with colour or without any escape."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from stoker.records.diagnosis import Part
from stoker.report.canvas import Canvas, drawn
from stoker.report.plain import in_ascii
from stoker.report.shape import FixCard, Ledger, Trials, View
from stoker.report.tables import INDENT, bare_table, headed, pairs

_TONES = {"good": "green", "finding": "red", "unsure": "yellow"}


class _Fill(NamedTuple):
    """How a part looks in the bar: apart by character too, for those who see no colour."""

    symbol: str
    ascii: str
    style: str


_FILLS = {
    Part.DEVICE: _Fill("█", "#", "green"),
    Part.TRANSFER: _Fill("▚", "%", "cyan"),
    Part.CONTENTION: _Fill("▞", "&", "magenta"),
    Part.SERIAL: _Fill("▒", "=", "red"),
    Part.RATE_DEFICIT: _Fill("▒", "=", "red"),
    Part.EPOCH_EDGE: _Fill("▓", "+", "yellow"),
    Part.JITTER: _Fill("░", ".", "bright_black"),
}


def render(view: View, canvas: Canvas) -> str:
    """The whole report as text, ending in a newline."""
    # Spelled before it is laid out, so that columns still line up.
    shown = view if canvas.is_unicode else _spelled(view)
    return drawn(_sections(shown, canvas), canvas)


def _spelled(view: View) -> View:
    def spelled(value: Any) -> Any:
        match value:
            case str():
                return in_ascii(value)
            case list() | tuple():
                return [spelled(item) for item in value]
            case dict():
                return {key: spelled(item) for key, item in value.items()}
            case _:
                return value

    return msgspec.convert(spelled(msgspec.to_builtins(view)), View)


def _sections(view: View, canvas: Canvas) -> Iterator[RenderableType]:
    yield Text.assemble(("stoker doctor  ", "bold"), (view.script, "bold cyan"))
    for alert in view.alerts:
        yield Text(f"! {alert}", style="bold yellow")
    yield Text()
    symptom = [Text(view.symptom), Text(view.symptom_sentence)]
    caution = Text(view.symptom_caution, style="dim")
    yield from headed("Symptom", [*(text for text in symptom if text), caution])
    yield _verdict(view, canvas)
    yield Text()
    yield from _ledger(view.ledger, view.step, canvas)
    if view.evidence:
        yield from headed("Evidence", [_evidence(view)])
    yield from headed("Host", [Text(view.host), *(Text(row) for row in view.host_remarks)])
    if view.stages:
        yield from headed("Stages of loading, per sample", [_stages(view)])
    if view.sample_remarks:
        yield from headed("Dearest samples", _samples(view))
    yield from _fixes(view)
    if view.trials is not None:
        yield from headed("Tried", _trials(view.trials))
    if view.ladder:
        yield from headed("Fixes together", [_ladder(view), *(Text(row) for row in view.together)])
    if view.donts:
        yield from headed("Don't", [_donts(view)])
    if view.capacity:
        yield from headed("Capacity", _capacity(view))
    if view.also:
        yield from headed("Also seen", [Text(view.also)])
    if view.legs:
        yield from headed("Legs", [_legs(view)])
    yield from headed("How this was measured", [pairs(view.facts)])


def _verdict(view: View, canvas: Canvas) -> RenderableType:
    color = _TONES[view.tone]
    return Panel(
        Text(view.sentence),
        title=Text(view.verdict, style=f"bold {color}"),
        title_align="left",
        border_style=color,
        box=box.ROUNDED if canvas.is_unicode else box.ASCII,
        padding=(0, 1),
    )


def _ledger(ledger: Ledger, step: tuple[str, ...], canvas: Canvas) -> Iterator[RenderableType]:
    table = bare_table()
    table.add_column("")
    table.add_column("part", no_wrap=True)
    table.add_column("", ratio=1)
    table.add_column(ledger.unit, justify="right", no_wrap=True)
    table.add_column("95% interval", no_wrap=True)
    table.add_column("share", justify="right", no_wrap=True)
    table.add_column("leg", no_wrap=True)
    for row in ledger.lines:
        fill = _FILLS[row.part]
        key = _symbol(fill, canvas) * 2 if row.fraction > 0 else "  "
        table.add_row(
            Text(key, style=fill.style),
            row.name,
            Text(row.meaning, style="dim"),
            row.time,
            Text(row.interval, style="dim"),
            row.share,
            row.leg,
        )
    table.add_row("", "step", Text(ledger.total_note, style="dim"), ledger.total, "", "100%", "R")
    body: list[RenderableType] = [
        *(Text(row) for row in step),
        Text(),
        _bar(ledger, canvas),
        Text(),
        table,
        *(Text(row, style="yellow") for row in ledger.remarks),
    ]
    yield from headed(ledger.heading, body)


def _symbol(fill: _Fill, canvas: Canvas) -> str:
    return fill.symbol if canvas.is_unicode else fill.ascii


def _bar(ledger: Ledger, canvas: Canvas) -> Text:
    cells = canvas.width - INDENT
    bar = Text(no_wrap=True)
    for row, length in zip(ledger.lines, _lengths(ledger, cells), strict=True):
        fill = _FILLS[row.part]
        bar.append(_symbol(fill, canvas) * length, style=fill.style)
    return bar


def _lengths(ledger: Ledger, cells: int) -> list[int]:
    """Cells for each part: rounded so that they add up (largest remainder)."""
    exact = [row.fraction * cells for row in ledger.lines]
    lengths = [int(value) for value in exact]
    missing = round(sum(exact)) - sum(lengths)
    by_remainder = sorted(range(len(exact)), key=lambda i: lengths[i] - exact[i])
    for index in by_remainder[:missing]:
        lengths[index] += 1
    return lengths


def _evidence(view: View) -> Table:
    table = bare_table()
    table.add_column("claim", ratio=4)
    table.add_column("measured", ratio=3)
    table.add_column("compared with", ratio=3)
    table.add_column("leg", no_wrap=True)
    for row in view.evidence:
        table.add_row(row.claim, row.measured, row.compared_with, row.leg)
    return table


def _stages(view: View) -> Table:
    table = bare_table()
    table.add_column("stage", ratio=1, overflow="fold")
    table.add_column("where")
    for title in ("wall", "cpu", "blocked", "queued", "calls"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("")
    for row in view.stages:
        table.add_row(
            row.stage,
            row.where,
            row.wall,
            row.cpu,
            row.blocked,
            row.runqueue,
            row.calls,
            Text(row.repeats, style="dim"),
        )
    return table


def _samples(view: View) -> Iterator[RenderableType]:
    if view.samples:
        table = bare_table()
        table.add_column("sample")
        table.add_column("wall", justify="right", no_wrap=True)
        table.add_column("usual", justify="right", no_wrap=True)
        table.add_column("most of it in")
        table.add_column("file", ratio=1, overflow="fold")
        table.add_column("size", justify="right", no_wrap=True)
        for row in view.samples:
            table.add_row(row.sample, row.time, row.times, row.stage, row.file, row.size)
        yield table
    yield from (Text(remark) for remark in view.sample_remarks)


def _fixes(view: View) -> Iterator[RenderableType]:
    if view.no_fix:
        yield from headed("Fixes", [Text(view.no_fix)])
        return
    yield Text("Fixes, the best first", style="bold")
    for card in view.fixes:
        yield Padding(_fix(card), (0, 0, 1, INDENT))


def _fix(card: FixCard) -> RenderableType:
    head = Text.assemble(f"{card.rank}  {card.title}", (f"  {card.code}", "not bold dim"))
    head.stylize("bold", 0, len(card.rank) + 2 + len(card.title))
    promise = Text(card.promise, style="green" if card.is_promised else "yellow")
    promises = [text for text in (promise, Text(card.tried, style="green")) if text]
    rows = [("how", card.how), ("costs", card.costs), ("effort", card.effort)]
    labels = ["needs", *[""] * len(card.preconditions)]
    rows.extend(zip(labels, card.preconditions, strict=False))
    return Group(head, Padding(Group(*promises, pairs(rows)), (0, 0, 0, 3)))


def _donts(view: View) -> Table:
    table = bare_table(header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(ratio=1)
    for row in view.donts:
        told = Text(row.then, end="")
        told.append(f"{': ' * bool(row.then)}{row.why}", style="dim")
        table.add_row(row.what, row.gain, told)
    return table


def _ladder(view: View) -> Table:
    table = bare_table()
    table.add_column("after", ratio=1)
    table.add_column("step", justify="right", no_wrap=True)
    table.add_column("gain in all", no_wrap=True)
    table.add_column("cores per accelerator", justify="right", no_wrap=True)
    for row in view.ladder:
        table.add_row(row.code, row.step, row.gain, row.cores)
    return table


def _capacity(view: View) -> list[RenderableType]:
    body: list[RenderableType] = [Text(view.capacity)]
    found = view.capacity_table
    if found.rows:
        table = bare_table()
        table.add_column("for each accelerator", no_wrap=True)
        for title in found.columns:
            table.add_column(title, no_wrap=True)
        for row in found.rows:
            table.add_row(*row)
        body += [Text(), table]
    return [*body, *(Text(row, style="dim") for row in found.remarks)]


def _trials(trials: Trials) -> Iterator[RenderableType]:
    if trials.lines:
        table = bare_table()
        table.add_column("in turn with the loop as it is", ratio=1, overflow="fold")
        table.add_column("step", justify="right", no_wrap=True)
        table.add_column("gain", no_wrap=True)
        table.add_column("", no_wrap=True)
        table.add_column("memory", justify="right", no_wrap=True)
        for row in trials.lines:
            name = Text(row.name)
            if row.note:
                name.append(f"\n{row.note}", style="dim")
            is_pick = "green" if row.tied == "pick" else ""
            table.add_row(name, row.step, row.gain, Text(row.tied, style=is_pick), row.memory)
        yield table
        yield Text()
    yield Text(trials.sentence)
    if trials.command:
        yield Text(trials.command, style="green")
    if trials.skipped:
        yield Text()
        yield Text("Not tried:", style="dim")
        yield pairs(trials.skipped)


def _legs(view: View) -> Table:
    table = bare_table()
    table.add_column("leg", no_wrap=True)
    table.add_column("the loop gets", ratio=1)
    table.add_column("period", no_wrap=True)
    table.add_column("steps", justify="right", no_wrap=True)
    table.add_column("windows", justify="right", no_wrap=True)
    for row in view.legs:
        table.add_row(row.leg, row.gets, row.period, row.steps, row.windows)
    return table
