"""Whether a data set, sampler or collation is still what it was: a cheap look at what it holds.

Workers that live on, and caches, hold a copy; a data set that is changed between epochs would leave
them behind. Sees new objects, other lengths and values, tensors written to and small arrays; not
every byte.
"""

from __future__ import annotations

from functools import partial
from types import CellType, FunctionType, MethodType
from typing import Any

_DEPTH = 3
_MOST_ITEMS = 256
_MOST_BYTES = 4096  # of an array
_PLAIN = (int, float, complex, str, bytes, bool, type(None))


def fingerprint(value: Any, depth: int = _DEPTH, *, skipped: Any = None) -> Any:
    """Something that compares equal as long as nothing is seen to have changed.

    `skipped` is not looked at wherever it is held.
    """

    def inner(item: Any) -> Any:
        return fingerprint(item, depth - 1, skipped=skipped)

    if isinstance(value, _PLAIN):
        return value if not isinstance(value, str | bytes) else hash(value)
    if value is skipped:
        return None
    if hasattr(value, "_version"):  # a tensor counts what was written to it in place
        return id(value), value._version
    if _is_small_array(value):
        return id(value), value.tobytes()
    if depth == 0:
        return id(value)
    if isinstance(value, list | tuple):
        parts: Any = ()
        if len(value) <= _MOST_ITEMS:
            parts = tuple(inner(item) for item in value)
        return id(value), len(value), parts
    if isinstance(value, dict):
        parts = ()
        if len(value) <= _MOST_ITEMS:
            parts = tuple((key, inner(item)) for key, item in value.items())
        return id(value), len(value), parts
    if isinstance(value, MethodType):
        return inner(value.__self__)
    if isinstance(value, partial):
        return inner(value.func), inner(value.args), inner(value.keywords)
    attributes = getattr(value, "__dict__", None)
    if isinstance(attributes, dict) and not isinstance(value, type):
        held = fingerprint(dict(attributes), depth, skipped=skipped)[1:]
        return id(value), held, tuple(map(inner, _closed_over(value)))
    return id(value)


def _closed_over(value: Any) -> list[Any]:
    """What a function keeps from where it was made."""
    cells = getattr(value, "__closure__", None) if isinstance(value, FunctionType) else None
    return [cell.cell_contents for cell in cells or () if cell != CellType()]


def _is_small_array(value: Any) -> bool:
    """True for arrays of NumPy, or like them, whose bytes are quickly compared."""
    size, dtype = getattr(value, "nbytes", None), getattr(value, "dtype", None)
    if not isinstance(size, int) or size > _MOST_BYTES or not hasattr(value, "tobytes"):
        return False
    return not getattr(dtype, "hasobject", False)
