"""Every module is small, says what it is for, and has a name that means one thing."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src" / "stoker"
CASES = ROOT / "tests" / "cases"  # handed in, and kept as they are
MODULES = sorted(SRC.rglob("*.py"))
ALL_PYTHON = sorted(
    path
    for folder in ("src", "tests", "examples", "benchmarks")
    for path in (ROOT / folder).rglob("*.py")
    if CASES not in path.parents
)
# A test's name says what it holds; everything else opens with a docstring.
DOCUMENTED = [path for path in ALL_PYTHON if ROOT / "tests" not in path.parents]
# A file of more than about 450 lines (nine screens) has more than one job; a few more are no
# reason to split one in haste.
LONGEST = 480
DOCSTRING_LINES = 5
FORBIDDEN_NAMES = {
    *("core", "common", "utils", "util", "helpers", "helper", "misc"),
    *("base", "manager", "handler", "impl"),
}


def _named(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", ALL_PYTHON, ids=_named)
def test_a_file_is_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= LONGEST


@pytest.mark.parametrize("path", DOCUMENTED, ids=_named)
def test_a_file_opens_with_what_it_is_for(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text())), "no module docstring"


def _is_table(docstring: str) -> bool:
    """A drawn tree or an equation is longer than a sentence, and better for it."""
    return bool(re.search(r"[├└│]|^ {4}|^\s*\|", docstring, re.MULTILINE))


@pytest.mark.parametrize("path", MODULES, ids=_named)
def test_a_module_docstring_has_at_most_five_lines_of_prose(path: Path) -> None:
    if SRC / "cli" in path.parents:
        return  # there it is the text of the command's --help
    docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
    prose = [line for line in docstring.splitlines() if line.strip()]
    assert len(prose) <= DOCSTRING_LINES or _is_table(docstring)


def test_no_module_has_a_name_that_says_nothing() -> None:
    named = {part for path in ALL_PYTHON for part in path.relative_to(ROOT).with_suffix("").parts}
    assert named & FORBIDDEN_NAMES == set()


def test_no_class_is_called_base_or_abstract() -> None:
    found = [
        f"{_named(path)}: {node.name}"
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef) and re.match(r"_?(Base|Abstract)[A-Z]", node.name)
    ]
    assert found == []


def test_library_code_never_prints() -> None:
    talking = {SRC / "cli", SRC / "__main__.py"}
    found = [
        f"{_named(path)}:{node.lineno}"
        for path in MODULES
        if not talking & {path, *path.parents}
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "print"
    ]
    assert found == []
