"""Which parts of which batches are on the emulated device, and what still has to go there.

By identity and by duck typing (`nbytes`, `numel`, buffers): no array library is imported.
"""

from __future__ import annotations

import copy
import weakref
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Set
from types import ModuleType
from typing import Any

from stoker.emulate.device import LONG_AGO


class Residents:
    """When each leaf arrived on the device; a leaf that dies is forgotten."""

    def __init__(self) -> None:
        self._weakly: dict[int, tuple[weakref.ref[Any], float]] = {}
        self._once: dict[int, Any] = {}  # buffers that know no weak references

    def add(self, leaf: Any, arrives_at: float) -> None:
        """Note a leaf. One that knows no weak references is held until it is taken."""
        key = id(leaf)
        try:
            holder = weakref.ref(leaf, lambda _: self._weakly.pop(key, None))
        except TypeError:
            self._once[key] = leaf
        else:
            self._weakly[key] = (holder, arrives_at)

    def take(self, leaf: Any) -> bool:
        """True for a leaf that is on the device; one held without a weak reference is let go."""
        return self._find(leaf) is not None or self._once.pop(id(leaf), None) is not None

    def arrival(self, leaf: Any) -> float:
        """When the leaf arrives; long ago for one that never went over the link."""
        found = self._find(leaf)
        return LONG_AGO if found is None else found

    def _find(self, leaf: Any) -> float | None:
        holder, arrives_at = self._weakly.get(id(leaf), (None, LONG_AGO))
        return arrives_at if holder is not None and holder() is leaf else None


class Copies:
    """Makes the batch as it stands on the device: new containers, and leaves of their own.

    A host batch that is sent twice is paid for twice: only what this returns is on the device. So
    a leaf gets a second object over the same memory (a view). What has no views (bytes, objects of
    unknown kind) is passed on as it is, and paid for each time.
    """

    def __init__(self, residents: Residents) -> None:
        self._residents = residents
        self.size = 0  # bytes that have to go over the link
        self.made: list[Any] = []

    def of(self, value: Any) -> Any:
        """The value on the device."""
        size = _size(value)
        if size is not None:
            return self._leaf(value, size)
        if isinstance(value, Mapping):
            return self._mapping(value)
        if isinstance(value, list | tuple):
            items = [self.of(item) for item in value]
            return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
        if isinstance(value, Set):
            self.size += sum(_size(leaf) or 0 for leaf in leaves(value))
            return value
        return self._record(value)

    def _leaf(self, leaf: Any, size: int) -> Any:
        if self._residents.take(leaf):
            return leaf
        self.size += size
        view = getattr(leaf, "detach", None) or getattr(leaf, "view", None)
        if view is None:
            return leaf
        placed = view()
        self.made.append(placed)
        return placed

    def _mapping(self, value: Mapping[Any, Any]) -> Any:
        placed = {key: self.of(item) for key, item in value.items()}
        if type(value) is dict or not isinstance(value, MutableMapping):
            return placed
        same_kind = copy.copy(value)
        same_kind.update(placed)
        return same_kind

    def _record(self, value: Any) -> Any:
        """A dataclass, or any object that keeps its parts as attributes."""
        parts = _parts(value)
        if not any(True for _ in leaves(value)):
            return value
        placed = copy.copy(value)
        for name, part in parts.items():
            object.__setattr__(placed, name, self.of(part))
        return placed


def leaves(value: Any) -> Iterator[Any]:
    """Everything in a batch that has a size in bytes."""
    if _size(value) is not None:
        yield value
        return
    parts: Iterable[Any]
    if isinstance(value, Mapping):
        parts = value.values()
    elif isinstance(value, list | tuple | Set):
        parts = value
    else:
        parts = _parts(value).values()
    for part in parts:
        yield from leaves(part)


def _parts(value: Any) -> dict[str, Any]:
    """The attributes of a record; classes, functions and modules have none to send."""
    if value is None or isinstance(value, str | int | float | complex | type | ModuleType):
        return {}
    if callable(value):
        return {}
    slots = {name: getattr(value, name) for name in getattr(value, "__slots__", ())}
    return slots | getattr(value, "__dict__", {})


def _size(value: Any) -> int | None:
    """Bytes of an array, a tensor or a buffer; None for anything else."""
    if isinstance(value, bytes | bytearray):
        return len(value)
    try:
        size = getattr(value, "nbytes", None)
        if size is None and hasattr(value, "numel"):
            size = value.numel() * value.element_size()
    except (AttributeError, NotImplementedError, RuntimeError):
        return None  # a sparse or foreign tensor that has no plain size
    return size if isinstance(size, int) else None
