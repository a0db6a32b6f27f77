"""`stoker predict --sweep AXIS=LOW..HIGH`: a forecast along one axis, its turns solved, drawn."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import msgspec

from stoker.cli.files import JsonOutput
from stoker.cli.predict import deliver, text_width
from stoker.cli.setting import asked, varied
from stoker.errors import EXIT_OK, InputError, UsageError
from stoker.records.scenario import Scenario
from stoker.report.numbers import amount, percent
from stoker.report.plot import Curve, Plot, as_svg, in_text
from stoker.report.prediction import SCHEMA, columns, limit_name
from stoker.theory.question import AboutAssumed, Axis, Question, axis_named
from stoker.theory.sweep import (
    BatchCrossover,
    Crossover,
    Point,
    batch_crossover_of,
    crossovers,
    grid,
)
from stoker.theory.sweep import sweep as along
from stoker.zoo.load import Zoo

# Rows of the table; the curve and the JSON have every point.
_ROWS = 12


class Swept(msgspec.Struct, frozen=True, kw_only=True):
    """What a sweep answers; as JSON it is the same record."""

    schema: str = SCHEMA
    axis: Axis
    points: tuple[Point, ...]
    crossovers: tuple[Crossover, ...]
    batch_crossover: BatchCrossover | None
    largest_batch: float | None  # above it the batch doesn't fit; None: all of them do


def sweep(args: argparse.Namespace, zoo: Zoo, output: JsonOutput | None) -> int:
    """Answer along the axis that --sweep names. Raises InputError and UsageError."""
    axis, low, high = _axis(args.sweep)
    if args.host is None and args.cores is None and args.source is None:
        raise UsageError(
            "a sweep needs a host",
            looked_at="--host, --cores and --from",
            run_next=f"stoker predict {args.model} --host p4d --sweep {args.sweep}",
        )
    found = asked(args, zoo)
    question = found.question
    if args.what_if:  # along a sweep all changes are made together
        other, changes = varied(args, ",".join(args.what_if))
        question = asked(other, zoo).question
        for change in changes:
            question = question.changed(change)
    swept = _along(question, axis, low, high, args.points)
    plot = _plot(swept, _title(question, found.model.title if found.model else args.source))
    if args.svg is not None:
        _write(args.svg, as_svg(plot))
    lines = [*in_text(plot, width=text_width()), "", *_table(swept), "", *_turns(swept)]
    if args.svg is not None:
        lines.append(f"drawn in {args.svg}")
    deliver("\n".join(lines) + "\n", swept, output)
    return EXIT_OK


def _axis(text: str) -> tuple[Axis, float, float]:
    match = re.fullmatch(r"([a-z-]+)=([\d.]+)\.\.([\d.]+)", text)
    if match is None:
        raise UsageError(
            f"--sweep {text!r} is no axis with a range",
            looked_at="AXIS=LOW..HIGH",
            run_next="--sweep batch=1..1024",
        )
    try:
        return axis_named(match[1]), float(match[2]), float(match[3])
    except ValueError as error:
        raise UsageError(
            f"--sweep {text!r}: {error}",
            looked_at="AXIS=LOW..HIGH",
            run_next="--sweep batch=1..1024",
        ) from error


def _along(question: Question, axis: Axis, low: float, high: float, points: int) -> Swept:
    def at(value: float) -> Scenario:
        return question.at(axis.name, value).scenario()

    values = grid(low, high, points=points, whole=axis.is_whole)
    ends_at = None
    if axis.name == "batch" and isinstance(question, AboutAssumed):
        from stoker.theory.assume import largest_batch

        most = largest_batch(question.setting)
        if most < values[-1]:
            ends_at = float(most)
            kept = [value for value in values if value <= most]
            values = tuple(dict.fromkeys([*kept, ends_at]))
    if len(values) < 2:
        raise InputError(
            f"no two values of {axis.name}={low:g}..{high:g} can be forecast: "
            f"the largest batch that fits is {ends_at:g}",
            looked_at="the accelerator's memory",
            run_next=f"--sweep {axis.name}=1..{max(2, int(ends_at or 2))}",
        )
    found = along(at, values)
    batch = None
    if axis.name == "batch":
        batch = batch_crossover_of(at, int(values[0]), int(values[-1]))
    return Swept(
        axis=axis,
        points=found,
        crossovers=crossovers(at, found, whole=axis.is_whole),
        batch_crossover=batch,
        largest_batch=ends_at,
    )


def _title(question: Question, name: str) -> str:
    machine = question.scenario().machine
    return f"AU of {name} on {machine.name}"


def _plot(swept: Swept, title: str) -> Plot:
    values = tuple(point.value for point in swept.points)
    top = max(point.forecast.samples_per_s.median for point in swept.points)
    return Plot(
        title=title,
        x_name=f"{swept.axis.name} ({swept.axis.meaning})",
        x=values,
        curves=(
            Curve(
                f"samples/s (100% = {amount(top, 'samples/s')})",
                "·",
                tuple(point.forecast.samples_per_s.median / top for point in swept.points),
            ),
            Curve("AU", "█", tuple(point.forecast.au.median for point in swept.points)),
        ),
        y_text=lambda share: f"{share:.0%}",
        marks=tuple(
            (turn.value, f"{limit_name(turn.after)} from {turn.value:,.4g}")
            for turn in swept.crossovers
        ),
        is_log=values[0] > 0 and values[-1] / values[0] > 20,
        y_top=1.0,
    )


def _table(swept: Swept) -> list[str]:
    # By factors, as most turns lie near the beginning of an axis.
    last = len(swept.points) - 1
    shown = sorted({round((last + 1) ** (i / (_ROWS - 1))) - 1 for i in range(_ROWS)} | {last})
    rows = [
        (
            f"{swept.points[i].value:,.4g}",
            amount(swept.points[i].forecast.step_s.median, "s"),
            amount(swept.points[i].forecast.samples_per_s.median, "samples/s"),
            percent(swept.points[i].forecast.au.median),
            limit_name(swept.points[i].forecast.limit),
        )
        for i in shown
    ]
    return columns((swept.axis.name, "step", "gives", "AU", "limit"), rows, left=0)


def _turns(swept: Swept) -> list[str]:
    lines = [
        f"from {swept.axis.name} {turn.value:,.4g} on: {limit_name(turn.after)} "
        f"(before: {limit_name(turn.before)})"
        for turn in swept.crossovers
    ]
    if not lines:
        limit = limit_name(swept.points[0].forecast.limit)
        lines = [
            f"no crossover between {swept.points[0].value:,g} and "
            f"{swept.points[-1].value:,g}: the limit is {limit} throughout"
        ]
    if swept.batch_crossover is not None:
        lines += _batch_lines(swept.batch_crossover)
    if swept.largest_batch is not None:
        lines.append(
            f"above {swept.largest_batch:,g} the batch does not fit the accelerator's memory"
        )
    return lines


def _batch_lines(found: BatchCrossover) -> list[str]:
    step = (
        f"step(B) = {amount(found.fixed_s, 's')} + {amount(found.device_s, 's')} B, "
        f"host(B) = {amount(found.host_s, 's')} B"
    )
    if found.batch is None:
        return [step, "crossover B*: never; the host needs no longer for a sample than the step"]
    return [
        step,
        f"crossover B* = {found.batch:,.3g}: above it the host is the slower one; "
        f"ever larger batches approach an AU of {percent(found.plateau)}",
    ]


def _write(path: str, text: str) -> None:
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"--svg: {path} cannot be written: {error.strerror}",
            looked_at=str(Path(path).absolute()),
            run_next="give a file in a directory that you may write to",
        ) from error
