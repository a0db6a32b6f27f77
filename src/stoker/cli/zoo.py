"""Shows what forecasts assume: machines, models, hosts and storage, every number with its source.

KIND alone lists a shelf; with NAME one entry. NAME alone is looked for on every shelf. Entries of
your own go into ~/.config/stoker/zoo or ./stoker-zoo (docs/zoo.md).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from typing import Any

from stoker.cli.files import add_json, answer
from stoker.cli.streams import write_stdout
from stoker.errors import EXIT_OK, InputError, UsageError

SCHEMA = "stoker.zoo/1"
# Words of the command line and the shelves that they name.
KINDS = {
    "machines": "machines",
    "models": "models",
    "hosts": "hosts",
    "storage": "stores",
    "links": "links",
    "ops": "ops",
    "datasets": "datasets",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what is looked at and where else it may go."""
    parser.usage = "stoker zoo [KIND] [NAME] [--json FILE]"
    parser.add_argument(
        "what",
        nargs="*",
        metavar="KIND|NAME",
        help=f"one of {', '.join(KINDS)}; the name of an entry; or both",
    )
    add_json(parser, "write the entries as JSON; - writes them to stdout, in place of the table")


def run(args: argparse.Namespace) -> int:
    """Read the zoo, show the part that was asked for."""
    from stoker.zoo.load import load_zoo

    zoo = load_zoo()
    kind, name = _asked(args.what)
    if name is None:
        found = {kind: getattr(zoo, KINDS[kind])} if kind else {}
        entries = {kind: list(shelf.values()) for kind, shelf in found.items()}
    elif kind is not None:
        entries = {kind: [getattr(zoo, KINDS[kind]).find(name)]}
    else:
        entries = _anywhere(zoo, name)
    answer(
        args.json,
        lambda: _as_json(zoo, entries or _all(zoo)),
        lambda: _print(zoo, entries, is_page=name is not None),
    )
    return EXIT_OK


def _asked(words: list[str]) -> tuple[str | None, str | None]:
    """KIND and NAME of the command line; a kind may also be said in the singular."""
    singular = {kind.removesuffix("s"): kind for kind in KINDS}
    if len(words) > 2:
        raise UsageError(
            f"{len(words)} words after `stoker zoo`: {' '.join(words)}",
            looked_at="KIND and NAME",
            run_next='put a name with spaces into quotes: stoker zoo machines "rtx 3090"',
        )
    if not words:
        return None, None
    first = words[0].lower()
    kind = first if first in KINDS else singular.get(first)
    if kind is None:
        if len(words) == 2:
            raise UsageError(
                f"there is no kind '{words[0]}'",
                looked_at=f"the kinds {', '.join(KINDS)}",
                run_next=f"stoker zoo {words[1]}",
            )
        return None, words[0]
    return kind, words[1] if len(words) == 2 else None


def _anywhere(zoo: Any, name: str) -> dict[str, list[Any]]:
    """Entries of a name on all shelves. Raises InputError where there is none."""
    found: dict[str, list[Any]] = {}
    problems = []
    for kind, shelf in KINDS.items():
        try:
            found[kind] = [getattr(zoo, shelf).find(name)]
        except InputError as error:
            problems.append(error.happened.rpartition("nearest: ")[2].split(",")[0])
    if not found:
        raise InputError(
            f"there is no '{name}' in the zoo; nearest: {', '.join(problems[:4])}",
            looked_at=f"the shelves {', '.join(KINDS)}",
            run_next="stoker zoo machines, or describe it in stoker-zoo/ (docs/zoo.md)",
        )
    return found


def _all(zoo: Any) -> dict[str, list[Any]]:
    return {kind: list(getattr(zoo, shelf).values()) for kind, shelf in KINDS.items()}


def _as_json(zoo: Any, entries: Mapping[str, list[Any]]) -> str:
    from stoker.records.codec import to_json

    payload: dict[str, Any] = {"schema": SCHEMA, **entries}
    names = {one.name for one in entries.get("models", ())}
    if names:
        payload["rates"] = [rate for rate in zoo.rates if rate.model in names]
    return to_json(payload)


def _print(zoo: Any, entries: Mapping[str, list[Any]], *, is_page: bool) -> None:
    from rich.console import Console, Group, RenderableType
    from rich.text import Text

    from stoker.report import zoo as pages
    from stoker.report.canvas import canvas_for
    from stoker.report.plain import in_ascii

    if sys.stdout is None:
        return
    parts: list[RenderableType] = []
    if is_page:
        for one in entries.values():
            parts += [pages.entry_page(entry, zoo.rates) for entry in one]
    elif entries:
        tables: dict[str, Callable[[list[Any]], pages.Columns]] = {
            "machines": pages.machine_columns,
            "hosts": pages.host_columns,
            "storage": pages.storage_columns,
            "links": pages.link_columns,
            "ops": pages.op_columns,
            "datasets": pages.dataset_columns,
        }
        for kind, some in entries.items():
            if kind == "models":
                parts.append(pages.shelf(pages.model_columns(some, zoo.rates)))
            else:
                parts.append(pages.shelf(tables[kind](some)))
    else:
        for kind, some in _all(zoo).items():
            parts.append(Text(f"{len(some):5d} {kind:<10} stoker zoo {kind}"))
    canvas = canvas_for(sys.stdout)
    console = Console(
        width=canvas.width,
        color_system=canvas.colors,
        force_terminal=canvas.colors is not None,
        highlight=False,
        legacy_windows=False,
    )
    with console.capture() as captured:
        console.print(Group(*parts))
    text = "\n".join(line.rstrip() for line in captured.get().splitlines()).strip("\n") + "\n"
    write_stdout(text if canvas.is_unicode else in_ascii(text))
