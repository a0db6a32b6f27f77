"""docs/architecture.md is true: its tree, layers and table name what is on the disk."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src" / "stoker"
PAGE = (ROOT / "docs" / "architecture.md").read_text()
# Two printed pages; longer, and nobody reads it before changing something.
LONGEST_PAGE = 130


def _block(start: str) -> list[str]:
    """The lines of the fenced block that opens with these lines."""
    body = PAGE.partition(start)[2].partition("\n```")[0]
    assert body, f"docs/architecture.md has no block that opens with {start!r}"
    return body.strip("\n").splitlines()


def documented_tree(lines: list[str]) -> set[str]:
    """Paths below src/stoker in a drawn tree: two spaces a level, names with commas between."""
    paths, rooms = set(), [""]
    for line in lines:
        level = (len(line) - len(line.lstrip())) // 2
        names = re.split(r"\s{2,}", line.strip())[0].split(", ")
        for name in names:
            path = rooms[level - 1] + name
            paths.add(path)
            if name.endswith("/"):
                rooms[level:] = [path]
    return paths


def _rooms_on_disk() -> set[str]:
    """Folders with code or data in them, and the modules beside them."""
    rooms = {
        f"{parent.relative_to(SRC)}/"
        for path in (*SRC.rglob("*.py"), *SRC.rglob("*.toml"))
        for parent in path.parents
        if parent.is_relative_to(SRC) and parent != SRC
    }
    modules = {path.name for path in SRC.glob("*.py") if not path.stem.startswith("__")}
    return rooms | modules


def test_everything_drawn_in_the_tree_is_on_the_disk() -> None:
    drawn = documented_tree(_block("```text\nsrc/stoker/"))
    assert [path for path in sorted(drawn) if not (SRC / path).exists()] == []


def test_every_room_on_the_disk_is_drawn_in_the_tree() -> None:
    drawn = documented_tree(_block("```text\nsrc/stoker/"))
    assert sorted(_rooms_on_disk() - drawn) == []


def test_the_drawn_layers_are_the_ones_that_imports_are_held_to() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    layers = []
    for contract in settings["tool"]["importlinter"]["contracts"]:
        for layer in contract.get("layers", []):
            rooms = [name.strip(" ()") for name in layer.split("|")]
            there = [r for r in rooms if (SRC / r).is_dir() or (SRC / f"{r}.py").exists()]
            layers += [" | ".join(there)] if there else []
    assert _block("```layers") == layers


def test_every_room_stands_on_a_layer() -> None:
    drawn = {room for line in _block("```layers") for room in line.split(" | ")}
    found = {path.partition("/")[0].removesuffix(".py") for path in _rooms_on_disk()}
    assert found - drawn == set()


def test_the_table_of_changes_names_files_and_folders_that_exist() -> None:
    table = PAGE.partition("## Where a reader changes one thing")[2]
    named = re.findall(r"`([\w./-]+(?:\.py|/))`", table)
    assert named, "the table names no file"
    assert [name for name in named if not (SRC / name).exists()] == []


def test_every_path_in_the_text_exists() -> None:
    named = re.findall(r"`(probe/[\w./-]+|theory/[\w./-]+|\./scripts/\w+)`", PAGE)
    gone = [name for name in named if not ((SRC / name).exists() or (ROOT / name).exists())]
    assert gone == []


def test_the_page_is_at_most_two_pages() -> None:
    assert len(PAGE.splitlines()) <= LONGEST_PAGE


def test_a_drawn_tree_is_read_as_it_is_meant() -> None:
    lines = [
        "  a.py   one",
        "  room/",
        "    b.py, c.py",
        "    inner/   two",
        "      d.py",
        "  e.py",
    ]
    assert documented_tree(lines) == {
        *("a.py", "room/", "room/b.py", "room/c.py", "room/inner/", "room/inner/d.py", "e.py")
    }
