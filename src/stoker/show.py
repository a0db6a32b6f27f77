"""`info` and `table`: results of the solvers printed in aligned columns, units and all."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from stoker.units import rounded

_RULE = "─"
_HEADING_WIDTH = 44


def info(title: str | None = None, **fields: Any) -> None:
    """Print a block of names and values on stdout; underscores of a name become spaces.

    Quantities and floats are shown with three significant digits, everything else as it is.
    """
    lines = []
    if title:
        heading = f"{_RULE * 2} {title} "
        lines.append(heading + _RULE * max(0, _HEADING_WIDTH - len(heading)))
    names = {name.replace("_", " "): value for name, value in fields.items()}
    width = max((len(name) for name in names), default=0) + 1
    lines += [f"{name + ':':<{width}}  {shown(value)}" for name, value in names.items()]
    _write(lines)


def table(headers: Sequence[str], rows: Sequence[Sequence[Any]], alignments: str = "") -> None:
    """Print rows under headers on stdout.

    `alignments` has one of < > ^ for each column; the first column is set left and others right
    where it says nothing. No rows print nothing.
    """
    if not rows:
        return
    align = (alignments or "<").ljust(len(headers), ">")
    cells = [[shown(value) for value in row] for row in rows]
    padded = [row + [""] * (len(headers) - len(row)) for row in cells]
    widths = [
        max(len(header), *(len(row[column]) for row in padded))
        for column, header in enumerate(headers)
    ]

    def line(texts: Sequence[str]) -> str:
        parts = (
            f"{text:{side}{width}}" for text, side, width in zip(texts, align, widths, strict=False)
        )
        return "  ".join(parts).rstrip()

    _write([line(headers), _RULE * (sum(widths) + 2 * (len(widths) - 1)), *map(line, padded)])


def shown(value: Any) -> str:
    """A value as these tables show it."""
    if hasattr(value, "magnitude") and hasattr(value, "units"):
        return f"{_number(float(value.magnitude))} {value.units:~P}".rstrip()
    if isinstance(value, float):
        return _number(value)
    return str(value)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value.is_integer() and abs(value) >= 1 else rounded(value)


def _write(lines: Sequence[str]) -> None:
    sys.stdout.write("\n".join(lines) + "\n")
