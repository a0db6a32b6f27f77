"""Writes the zoo's TOML: entries whose numbers carry their source, each source once a file."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

DATA = Path(__file__).parent / "data"
ZOO = Path(__file__).parent.parent / "src" / "stoker" / "zoo"
# The day on which the tables were last compared with their sources.
CHECKED = "2026-11-29"

Row = Mapping[str, str]


def rows(name: str) -> list[dict[str, str]]:
    """All rows of a table."""
    with (DATA / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def text(value: str) -> str:
    """A TOML basic string."""
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"').strip() + '"'


def si(value: float) -> str:
    """A float as short as it can be written."""
    shown = f"{value:.10g}"
    mantissa, _, exponent = f"{value:.9e}".partition("e")
    short = f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"
    best = min((shown, short), key=len)
    return best if any(mark in best for mark in ".e") else best + ".0"


class Book:
    """The sources of one file, each written once and referred to by a short key."""

    def __init__(self) -> None:
        self._keys: dict[str, str] = {}

    def key(self, source: str) -> str:
        """The key of a source."""
        return self._keys.setdefault(source.strip(), f"s{len(self._keys) + 1}")

    def lines(self) -> list[str]:
        """The [sources] table."""
        return ["[sources]", *(f"{key} = {text(full)}" for full, key in self._keys.items()), ""]


class Entry:
    """One table of a file: its own provenance, and numbers that may differ from it."""

    def __init__(self, name: str, book: Book, *, source: str, kind: str) -> None:
        self._book = book
        self._kind = kind
        self._source = source
        self._body: list[str] = []
        quoted = name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else text(name)
        self._head = [
            f"[{quoted}]",
            f"source = {text(book.key(source))}",
            f'kind = "{kind}"',
            f'checked = "{CHECKED}"',
        ]

    def put(self, key: str, value: object) -> None:
        """A plain field."""
        if isinstance(value, bool):
            self._body.append(f"{key} = {str(value).lower()}")
        elif isinstance(value, int):
            self._body.append(f"{key} = {value}")
        elif isinstance(value, float):
            self._body.append(f"{key} = {si(value)}")
        elif isinstance(value, str):
            self._body.append(f"{key} = {text(value)}")
        else:
            listed = ", ".join(text(str(one)) for one in value)  # type: ignore[attr-defined]
            self._body.append(f"{key} = [{listed}]")

    def number(self, key: str, value: float, *, kind: str = "", source: str = "") -> None:
        """A sourced number; `kind` and `source` only where they differ from the entry's."""
        if (kind or self._kind) == self._kind and (source or self._source) == self._source:
            self._body.append(f"{key} = {si(value)}")
            return
        parts = [f"value = {si(value)}"]
        if kind:
            parts.append(f'kind = "{kind}"')
        if source:
            parts.append(f"source = {text(self._book.key(source))}")
        self._body.append(f"{key} = {{ {', '.join(parts)} }}")

    def counts(self, key: str, values: Sequence[float]) -> None:
        """A list of counts."""
        self._body.append(f"{key} = [{', '.join(si(value) for value in values)}]")

    def lines(self) -> list[str]:
        """The table as text."""
        return [*self._head, *self._body, ""]


def write(target: Path, book: Book, entries: Iterable[Entry]) -> None:
    """One file of the zoo."""
    target.parent.mkdir(parents=True, exist_ok=True)
    body = [line for entry in entries for line in entry.lines()]
    head = [
        "# Written by benchmarks/zoo_from_published.py; edit the tables in benchmarks/data.",
        "",
    ]
    target.write_text("\n".join([*head, *book.lines(), *body]).rstrip() + "\n", "utf-8")
