"""Which call a frame of another thread stands in, told by the source of its instruction.

A line may hold many calls; the instruction that is under way belongs to one of them. Standard
library only.
"""

from __future__ import annotations

import ast
import linecache
from itertools import islice
from types import CodeType, FrameType
from typing import NamedTuple


class _Call(NamedTuple):
    """`Image.fromarray(grid).save(path)`: its last name, `save`, and its first, `Image`."""

    last: str | None = None
    first: str | None = None


class CallSites:
    """What is called at each place of a code; each is looked at once."""

    def __init__(self) -> None:
        self._known: dict[tuple[CodeType, int], _Call] = {}

    def callee(self, frame: FrameType) -> str | None:
        """The last name of what the frame calls now: `item` within `loss.item()`.

        None where it calls nothing, or nothing that has a name, and for code without source.
        """
        return self._call(frame).last

    def root(self, frame: FrameType) -> str | None:
        """The name that what the frame calls now begins with: `np` of `np.linalg.svd(x)`.

        None where it calls nothing, or what no name stands at the beginning of.
        """
        return self._call(frame).first

    def _call(self, frame: FrameType) -> _Call:
        place = frame.f_code, frame.f_lasti
        if place not in self._known:
            self._known[place] = _call_at(*place)
        return self._known[place]


def _call_at(code: CodeType, offset: int) -> _Call:
    text = _source(code, offset)
    try:
        found = ast.parse(f"({text})", mode="eval").body if text else None
    except (SyntaxError, ValueError):
        return _Call()  # an instruction of a statement that is no expression
    if not isinstance(found, ast.Call):
        return _Call()
    last = None
    match found.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            last = name
    return _Call(last, _first_name(found.func))


def _first_name(node: ast.expr) -> str | None:
    while True:
        match node:
            case ast.Name(id=name):
                return name
            case ast.Attribute(value=inner) | ast.Subscript(value=inner) | ast.Call(func=inner):
                node = inner
            case _:
                return None


def _source(code: CodeType, offset: int) -> str:
    """The text that an instruction was compiled from; empty where that is not known."""
    # One entry for each code unit of two bytes.
    found = next(islice(code.co_positions(), max(0, offset) // 2, None), (None,) * 4)
    first, last, begin, end = found
    if first is None or last is None or begin is None or end is None:
        return ""
    # Columns count bytes.
    lines = [line.encode() for line in linecache.getlines(code.co_filename)[first - 1 : last]]
    if not lines:
        return ""
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][begin:]
    return b"".join(lines).decode(errors="replace")
