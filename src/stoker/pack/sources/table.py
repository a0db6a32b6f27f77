"""A CSV, TSV or JSONL file that names the files of each sample, one sample a line."""

from __future__ import annotations

import csv
import io
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from stoker.errors import InputError
from stoker.pack.sources.folder import IMAGE_SUFFIXES, stat_of
from stoker.pack.sources.listing import (
    READ_KINDS,
    Column,
    Kind,
    Listing,
    Place,
    fits_int64,
    is_whole,
    numbered,
    sign_of,
)

SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson")
_LABEL_NAMES = ("label", "class", "target", "category")


def list_table(path: Path) -> Listing:
    """The samples of the table. What a column holds follows from its values:

    names of pictures are read (as masks when the column's name has "mask" in it), names of .npy
    files are arrays, whole numbers (in int64) and numbers stay numbers, anything else is text; a
    column called label, class, target or category is the label. Names are relative to the table's
    folder.
    Raises InputError for a table without rows, with rows of other columns, or that can't be read.
    """
    rows = _rows(path)
    names = list(rows[0])
    cells = {name: [row[name] for row in rows] for name in names}
    columns: list[Column] = []
    values: dict[str, Any] = {}
    classes: tuple[str, ...] = ()
    for name in names:
        column = _column(name, cells[name])
        if column.kind is Kind.LABEL:
            classes, values[name] = numbered(cells[name])
        elif column.kind not in READ_KINDS:
            values[name] = [_number(cell, column.kind) for cell in cells[name]]
        columns.append(column)
    read = [column.name for column in columns if column.kind in READ_KINDS]
    root = path.parent
    of_columns = [[stat_of(root / cell) for cell in cells[name]] for name in read]
    stats = of_columns[0] if read else [(0, 0)] * len(rows)
    return Listing(
        kind="table",
        location=str(path),
        columns=tuple(_first_image_is_image(columns)),
        names=cells[read[0]] if read else [f"row {n}" for n in range(len(rows))],
        sizes=np.array([size for size, _ in stats], dtype=np.int64),
        mtimes_ns=np.array([mtime for _, mtime in stats], dtype=np.int64),
        signs=_signs([cells[name] for name in read[1:]], of_columns[1:]),
        classes=classes,
        values=values,
        place=_places(root, columns, cells),
    )


def _signs(cells: list[list[Any]], stats: list[list[tuple[int, int]]]) -> Any:
    """Of the files that a sample has beside the first one: their names, sizes and times."""
    if not cells:
        return None
    rows = zip(zip(*cells, strict=True), zip(*stats, strict=True), strict=True)
    return np.array([sign_of(row) for row in rows], dtype=np.int64)


def _places(root: Path, columns: list[Column], cells: dict[str, list[Any]]) -> Any:
    by_field = dict(
        zip(
            (column.name for column in _first_image_is_image(columns)),
            (column.name for column in columns),
            strict=True,
        )
    )
    return lambda position, name: Place(str(root / cells[by_field[name]][position]))


def _first_image_is_image(columns: list[Column]) -> list[Column]:
    """The first column of pictures becomes the field "image", whatever the table calls it."""
    if any(column.name == "image" for column in columns):
        return columns
    for number, column in enumerate(columns):
        if column.kind is Kind.IMAGE:
            return [*columns[:number], column._replace(name="image"), *columns[number + 1 :]]
    return columns


def _rows(path: Path) -> list[dict[str, Any]]:
    try:
        # Line ends as they are: they may be part of a text.
        text = path.read_bytes().decode("utf-8-sig")
        suffix = path.suffix.lower()
        rows = (
            _json_rows(text) if suffix in (".jsonl", ".ndjson") else _csv_rows(text, suffix, path)
        )
    except (OSError, UnicodeDecodeError, msgspec.DecodeError, csv.Error) as error:
        raise InputError(
            f"{path} cannot be read: {error}",
            looked_at=str(path.absolute()),
            run_next="give a CSV file with a header line, or one JSON object a line",
        ) from error
    if not rows or not rows[0]:
        raise InputError(
            f"{path} has no samples",
            looked_at=f"{len(rows)} rows",
            run_next="give a header line and one line a sample",
        )
    for number, row in enumerate(rows):
        if row.keys() != rows[0].keys():
            raise InputError(
                f"{path}: row {number} has not the columns of row 0",
                looked_at=f"{', '.join(map(str, row))} instead of {', '.join(rows[0])}",
                run_next="give every row the same columns",
            )
    return rows


def _json_rows(text: str) -> list[dict[str, Any]]:
    # Not splitlines(): JSON may hold the other line ends of Unicode as they are.
    lines = [line for line in text.split("\n") if line.strip()]
    return [msgspec.json.decode(line, type=dict[str, str | int | float]) for line in lines]


def _csv_rows(text: str, suffix: str, path: Path) -> list[dict[str, Any]]:
    delimiter = "\t" if suffix == ".tsv" else ","
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    given = ((lines.line_num, cells) for cells in lines if cells)  # empty lines are none
    _, header = next(given, (0, []))
    twice = [name for name, count in Counter(header).items() if count > 1]
    if twice:
        raise InputError(
            f"{path}: its header has the column {twice[0]!r} {header.count(twice[0])} times",
            looked_at=f"the header: {', '.join(header)}",
            run_next="give every column a name of its own",
        )
    rows = []
    for number, cells in given:
        if len(cells) != len(header):
            raise InputError(
                f"{path}: cells in line {number}: {len(cells):,}, in the header: {len(header):,}",
                looked_at=f"the header: {', '.join(header)}; line {number}: {', '.join(cells)}",
                run_next="give every line as many cells as the header has; a cell with the "
                'delimiter in it stands in "quotes"',
            )
        rows.append(dict(zip(header, cells, strict=True)))
    return rows


def _column(name: str, cells: list[Any]) -> Column:
    if name.lower() in _LABEL_NAMES:
        return Column(name, Kind.LABEL)
    endings = {str(cell).lower().rpartition(".")[2] for cell in cells[:100]}
    if endings <= {suffix[1:] for suffix in IMAGE_SUFFIXES}:
        return Column(name, Kind.MASK if "mask" in name.lower() else Kind.IMAGE)
    if endings == {"npy"}:
        return Column(name, Kind.ARRAY)
    if all(map(is_whole, cells)):
        # As text they stay what they are: floats have 53 bits.
        return Column(name, Kind.INT if fits_int64(cells) else Kind.TEXT)
    return Column(name, Kind.FLOAT if all(map(_is_number, cells)) else Kind.TEXT)


def _is_number(cell: Any) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _number(cell: Any, kind: Kind) -> Any:
    return {Kind.INT: int, Kind.FLOAT: float}.get(kind, str)(cell)
