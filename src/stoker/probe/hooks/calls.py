"""What a library's file says of it: which of its functions are which stage."""

from __future__ import annotations

from typing import NamedTuple


class Call(NamedTuple):
    """A function or method. `path`: the position of the argument that names a file, if one does."""

    stage: str
    path: int | None = None


# Module -> dotted name in it -> call. The module is patched when it is imported, not before.
Calls = dict[str, dict[str, Call]]
