"""Edits of a source by byte offsets, as `ast` finds them; those that put a pack in place.

Standard library only.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

# From and to which byte, and what stands there instead.
Edit = tuple[int, int, bytes]
# Of a line from 1 on and a column in bytes, as ast counts them.
Offset = Callable[[int, int], int]


def offsets(source: str) -> Offset:
    """Where a line and column lie in the encoded source."""
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line.encode()))
    return lambda line, column: starts[line - 1] + column


def wrapped_call(dataset: str, folder: str) -> str:
    """The call that puts a pack in the place of a data set."""
    return f"stoker.pack.in_place_of({dataset}, {folder!r})"


def edits_for_pack(source: str, tree: ast.Module, call: ast.Call, folder: str) -> list[Edit]:
    """The data set of a DataLoader's call wrapped, and the import; none where it names none."""
    named = next((one.value for one in call.keywords if one.arg == "dataset"), None)
    dataset = named or (call.args[0] if call.args else None)
    if dataset is None or isinstance(dataset, ast.Starred):
        return []
    offset = offsets(source)
    begin = offset(dataset.lineno, dataset.col_offset)
    end = offset(dataset.end_lineno or dataset.lineno, dataset.end_col_offset or 0)
    before, after = wrapped_call("\0", folder).split("\0")
    edits = [(begin, begin, before.encode()), (end, end, after.encode())]
    place = _behind_imports(tree)
    if place is not None:
        edits.append((offset(place, 0), offset(place, 0), b"import stoker.pack\n"))
    return edits


def _behind_imports(tree: ast.Module) -> int | None:
    """The line behind the last import of the module's own, where another may stand."""
    imports = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    last = imports[-1].end_lineno if imports else None
    return None if last is None else last + 1
