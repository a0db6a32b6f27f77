"""Tables without lines, and parts below a heading, as all reports on a terminal lay them out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

# Columns by which what is below a heading stands in.
INDENT = 2


def headed(title: str, body: Iterable[RenderableType]) -> Iterator[RenderableType]:
    """A heading, what belongs below it, and an empty line."""
    yield Text(title, style="bold")
    yield Padding(Group(*body), (0, 0, 1, INDENT))


def bare_table(*, header: bool = True) -> Table:
    """A table whose columns stand two blanks apart; its columns are still to be added."""
    return Table(
        box=None, show_header=header, header_style="dim", pad_edge=False, padding=(0, 2, 0, 0)
    )


def pairs(rows: Sequence[tuple[str, str]]) -> Table:
    """Labels with their texts; texts wrap below themselves, and a label without one is left out."""
    table = bare_table(header=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(ratio=1)
    for label, text in rows:
        if text:
            table.add_row(label, text)
    return table
