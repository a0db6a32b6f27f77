"""Pictures of a forecast without any library: bars and curves in text, curves as SVG.

Formatting only: every number comes finished.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape
from typing import NamedTuple

from stoker.report.numbers import amount

_EIGHTHS = " ▏▎▍▌▋▊▉█"
_MARK = "┃"
# The same pictures for a terminal that can write ASCII only; parts of a block are no block.
_ASCII = str.maketrans(
    {
        **dict.fromkeys("▏▎▍▌", " "),
        **dict.fromkeys("▋▊▉█", "#"),
        **dict(zip("┃│┊└─·", "|||+-.", strict=True)),
    }
)
_BLANK = " "


class Bar(NamedTuple):
    """One bar: a label, its length in seconds, and the text behind it."""

    label: str
    seconds: float
    note: str = ""


class Curve(NamedTuple):
    """One line of a plot, over the same values of x as the others."""

    name: str
    symbol: str
    y: tuple[float, ...]


class Plot(NamedTuple):
    """Curves over an axis; `marks` are values of x to point out, `is_log` spaces x by factors."""

    title: str
    x_name: str
    x: tuple[float, ...]
    curves: tuple[Curve, ...]
    y_text: Callable[[float], str]
    marks: tuple[tuple[float, str], ...] = ()
    is_log: bool = False
    y_top: float | None = None


def bars(rows: Sequence[Bar], *, mark_s: float, width: int) -> list[str]:
    """Bars in one scale with a line at `mark_s`, the time that the others are held against."""
    label = max(len(row.label) for row in rows)
    longest = max(mark_s, *(row.seconds for row in rows))
    value = max(len(amount(row.seconds, "s")) for row in rows)
    space = max(10, width - label - value - 4)
    lines = []
    for row in rows:
        drawn = _bar(row.seconds / longest, space)
        at = min(space - 1, round(mark_s / longest * space))
        drawn = drawn.ljust(space)
        if drawn[at] == _BLANK:
            drawn = drawn[:at] + _MARK + drawn[at + 1 :]
        text = f"{row.label:<{label}}  {amount(row.seconds, 's'):>{value}}  {drawn}".rstrip()
        lines.append(f"{text}  {row.note}".rstrip())
    return lines


def _bar(share: float, space: int) -> str:
    eighths = round(max(0.0, min(1.0, share)) * space * 8)
    if eighths == 0 and share > 0:
        eighths = 1
    whole, rest = divmod(eighths, 8)
    return "█" * whole + (_EIGHTHS[rest] if rest else "")


def in_ascii(text: str) -> str:
    """Text with pictures in it, their characters replaced by ASCII ones of the same width."""
    return text.translate(_ASCII)


def in_text(plot: Plot, *, width: int, height: int = 12) -> list[str]:
    """The curves as characters; where two meet, the later one is seen."""
    top, labels = _scale(plot)
    margin = max(len(text) for text in labels) + 1
    columns = max(20, width - margin - 2)
    rows = [[_BLANK] * columns for _ in range(height)]
    for value, _ in plot.marks:
        if (at := _column(plot, value, columns)) is not None:
            for row in rows:
                row[at] = "┊"
    for curve in plot.curves:
        _draw(rows, plot, curve, top)
    lines = [plot.title]
    for index, row in enumerate(rows):
        tick = labels[0] if index == 0 else labels[1] if index == height - 1 else ""
        lines.append(f"{tick:>{margin - 1}} │{''.join(row).rstrip()}")
    lines.append(" " * margin + "└" + "─" * columns)
    ends = f"{plot.x[0]:,g}".ljust(columns - len(f"{plot.x[-1]:,g}")) + f"{plot.x[-1]:,g}"
    lines.append(" " * (margin + 1) + ends)
    keys = [f"{curve.symbol} {curve.name}" for curve in plot.curves]
    keys += [f"┊ {text}" for _, text in plot.marks]
    lines.append(" " * (margin + 1) + f"{plot.x_name}:  " + "   ".join(keys))
    return lines


def _scale(plot: Plot) -> tuple[float, tuple[str, str]]:
    finite = [y for curve in plot.curves for y in curve.y if math.isfinite(y)]
    top = plot.y_top if plot.y_top is not None else max(finite, default=1.0) or 1.0
    return top, (plot.y_text(top), plot.y_text(0.0))


def _share(plot: Plot, value: float) -> float:
    """Where a value lies between the ends of the axis, 0 to 1 inside."""
    first, last = plot.x[0], plot.x[-1]
    if last == first:
        return 0.0
    if plot.is_log and first > 0 and value > 0:
        return math.log(value / first) / math.log(last / first)
    return (value - first) / (last - first)


def _column(plot: Plot, value: float, columns: int) -> int | None:
    share = _share(plot, value)
    return round(share * (columns - 1)) if 0 <= share <= 1 else None


def _draw(rows: list[list[str]], plot: Plot, curve: Curve, top: float) -> None:
    """One symbol a column, straight between the points."""
    columns, height = len(rows[0]), len(rows)
    places = [_share(plot, x) * (columns - 1) for x in plot.x]
    for column in range(columns):
        y = _between(places, curve.y, column)
        if math.isfinite(y):
            row = round((1 - min(1.0, max(0.0, y / top))) * (height - 1))
            rows[row][column] = curve.symbol


def _between(places: Sequence[float], y: Sequence[float], at: float) -> float:
    for index in range(1, len(places)):
        if places[index] >= at:
            left, right = places[index - 1], places[index]
            part = 0.0 if right == left else (at - left) / (right - left)
            return y[index - 1] + (y[index] - y[index - 1]) * part
    return y[-1]


_WIDTH, _HEIGHT = 640, 360
_LEFT, _RIGHT, _TOP, _BOTTOM = 80, 20, 40, 60
_COLOURS = ("#1b9e77", "#d95f02", "#7570b3", "#e7298a")


def as_svg(plot: Plot) -> str:
    """The same curves as a picture that stands alone, without scripts, fonts or links."""
    top, labels = _scale(plot)
    wide, high = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        f'<text x="{_LEFT}" y="24" font-size="14">{escape(plot.title)}</text>',
        f'<path d="M{_LEFT} {_TOP}v{high}h{wide}" fill="none" stroke="#444"/>',
        _label(_LEFT - 6, _TOP + 4, labels[0], "end"),
        _label(_LEFT - 6, _TOP + high, labels[1], "end"),
        _label(_LEFT, _TOP + high + 18, f"{plot.x[0]:,g}", "middle"),
        _label(_LEFT + wide, _TOP + high + 18, f"{plot.x[-1]:,g}", "middle"),
        _label(_LEFT + wide / 2, _TOP + high + 18, plot.x_name, "middle"),
    ]
    for value, text in plot.marks:
        share = _share(plot, value)
        if 0 <= share <= 1:
            x = _LEFT + share * wide
            parts.append(f'<path d="M{x:.1f} {_TOP}v{high}" stroke="#999" stroke-dasharray="4 3"/>')
            parts.append(_label(x + 4, _TOP + 12, text, "start"))
    for index, curve in enumerate(plot.curves):
        colour = _COLOURS[index % len(_COLOURS)]
        points = " ".join(
            f"{_LEFT + _share(plot, x) * wide:.1f},"
            f"{_TOP + (1 - min(1.0, max(0.0, y / top))) * high:.1f}"
            for x, y in zip(plot.x, curve.y, strict=True)
            if math.isfinite(y)
        )
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>'
        )
        x = _LEFT + index * wide / len(plot.curves)
        parts.append(
            f'<rect x="{x:.0f}" y="{_HEIGHT - 24}" width="10" height="10" fill="{colour}"/>'
        )
        parts.append(_label(x + 14, _HEIGHT - 15, curve.name, "start"))
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


def _label(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
