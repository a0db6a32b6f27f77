"""Every error of ours says what happened, what was looked at, and what to run next."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

from stoker import errors

SRC = Path(__file__).parents[2] / "src" / "stoker"
KINDS = {
    name
    for name, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, errors.StokerError)
}


def incomplete(source: str) -> list[int]:
    """Lines on which an error is made without one of its three parts."""
    return [
        call.lineno
        for call in ast.walk(ast.parse(source))
        if isinstance(call, ast.Call)
        and getattr(call.func, "attr", getattr(call.func, "id", "")) in KINDS
        and not {"looked_at", "run_next"} <= {keyword.arg for keyword in call.keywords}
    ]


def test_every_error_is_made_with_its_three_parts() -> None:
    found = {
        f"{path.relative_to(SRC)}:{line}"
        for path in SRC.rglob("*.py")
        for line in incomplete(path.read_text())
    }
    assert found == set()


def test_an_error_that_lacks_a_part_is_found() -> None:
    assert "InputError" in KINDS and "NoLoopFound" in KINDS
    assert incomplete("raise InputError('no', looked_at='x')") == [1]
    assert incomplete("raise InputError('no', looked_at='x', run_next='y')") == []
