"""Random generators that transforms keep for themselves: where they stand, and put back.

Known by what they can do, as no library is imported for it: NumPy's Generator and RandomState,
Python's Random, torch's Generator. Standard library only.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any


class Generators:
    """Those in the attributes of some objects, each once."""

    def __init__(self, holders: Iterable[Any]) -> None:
        found: dict[int, Any] = {}
        for holder in holders:
            for value in getattr(holder, "__dict__", {}).values():
                if _get(value) is not None:
                    found[id(value)] = value
        self._all = tuple(found.values())

    def states(self) -> tuple[Any, ...]:
        """Where they stand, to be compared."""
        return tuple(_comparable(_get(one)) for one in self._all)

    def kept(self) -> list[Any]:
        """Where they stand, for `put_back`."""
        return [_get(one) for one in self._all]

    def put_back(self, kept: list[Any]) -> None:
        """Have them go on from there."""
        for one, state in zip(self._all, kept, strict=True):
            _set(one, state)


def _get(value: Any) -> Any:
    """The state of a generator; None for anything else."""
    if hasattr(value, "bit_generator"):
        return value.bit_generator.state
    if isinstance(value, random.SystemRandom):
        return object()  # the machine's own: never where it was
    if isinstance(value, random.Random):
        return value.getstate()
    if type(value).__name__ in ("RandomState", "Generator") and hasattr(value, "get_state"):
        return value.get_state()
    return None


def _comparable(state: Any) -> Any:
    """The whole of it: printed, large arrays and tensors are abbreviated."""
    if isinstance(state, dict):
        return tuple((name, _comparable(part)) for name, part in state.items())
    if isinstance(state, tuple):
        return tuple(map(_comparable, state))
    array = state.numpy() if hasattr(state, "numpy") else state
    return array.tobytes() if hasattr(array, "tobytes") else array


def _set(value: Any, state: Any) -> None:
    if hasattr(value, "bit_generator"):
        value.bit_generator.state = state
    elif isinstance(value, random.SystemRandom):
        pass
    elif isinstance(value, random.Random):
        value.setstate(state)
    else:
        value.set_state(state)
