"""The parts of a nested batch, and the same change to each of them, whatever it is made of.

Containers are mappings, lists, tuples (named ones too) and dataclasses; all else is a leaf.
Standard library only: also runs in a script under remedies.
"""

from __future__ import annotations

import copy
import copyreg
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

Leaf = Callable[[Any], Any]
IsLeaf = Callable[[Any], bool]
Place = tuple[Any, ...]


def mapped(value: Any, change: Leaf, *, is_leaf: IsLeaf | None = None) -> Any:
    """`value` with `change` applied to every leaf, in containers of the same kinds.

    A container of which nothing changed is passed on itself, and so is one inside of itself.
    `is_leaf`: true for containers that `change` is to be given as they are.
    """
    return _mapped(value, change, is_leaf, ())


def _mapped(value: Any, change: Leaf, is_leaf: IsLeaf | None, around: tuple[int, ...]) -> Any:
    held = _below(value, is_leaf, around)
    if held is None:
        return change(value)
    around = (*around, id(value))
    changed = {key: _mapped(item, change, is_leaf, around) for key, item in held.items()}
    if all(changed[key] is item for key, item in held.items()):
        return value
    if isinstance(value, Mapping):
        return _mapping_like(value, changed)
    if isinstance(value, list | tuple):
        return _sequence_like(value, list(changed.values()))
    twin = blank(value)
    fill(twin, changed)
    return twin


def parts(value: Any, place: Place = ()) -> Iterator[tuple[Place, Any]]:
    """Every leaf, with the keys that lead to it."""
    held = inner(value)
    if held is None:
        yield place, value
        return
    for key, item in held.items():
        yield from parts(item, (*place, key))


def leaves(value: Any, *, is_leaf: IsLeaf | None = None) -> Iterator[Any]:
    """All that `mapped` would change."""
    return _leaves(value, is_leaf, ())


def _leaves(value: Any, is_leaf: IsLeaf | None, around: tuple[int, ...]) -> Iterator[Any]:
    held = _below(value, is_leaf, around)
    if held is None:
        yield value
        return
    for item in held.values():
        yield from _leaves(item, is_leaf, (*around, id(value)))


def _below(value: Any, is_leaf: IsLeaf | None, around: tuple[int, ...]) -> Mapping[Any, Any] | None:
    """What is changed instead of the value; None for a leaf, and for what lies in itself."""
    if id(value) in around or (is_leaf is not None and is_leaf(value)):
        return None
    return whole(value)


def whole(value: Any) -> Mapping[Any, Any] | None:
    """What a container holds, by its key, of a dataclass all attributes; None for a leaf."""
    return attributes(value) if _is_record(value) else inner(value)


def inner(value: Any) -> Mapping[Any, Any] | None:
    """What a container can be made of anew, by its key; None for a leaf.

    Of a dataclass what its constructor takes: of the rest it can't be told what belongs to it.
    """
    if isinstance(value, Mapping):
        return dict(value.items())
    if isinstance(value, list | tuple):
        return dict(enumerate(value))
    if _is_record(value):
        fields = dataclasses.fields(value)
        return {field.name: getattr(value, field.name) for field in fields if field.init}
    return None


def _is_record(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type | Mapping | list | tuple)


def attributes(value: Any) -> dict[str, Any]:
    """What an instance holds, in its dictionary and in its slots, by name."""
    held = dict(getattr(value, "__dict__", ()))
    for name in _slots(type(value)):
        if hasattr(value, name):
            held[name] = getattr(value, name)
    return held


def blank(value: Any) -> Any:
    """Another instance of the same class, made without its constructor, to be filled.

    Raises TypeError where its class can't be made without one, nor copied.
    """
    try:
        return object.__new__(type(value))
    except TypeError:  # the class is made in C, or has a base that is
        return copy.copy(value)


def fill(twin: Any, held: Mapping[str, Any]) -> None:
    """Have an instance hold these attributes, whatever its class says to their being set."""
    own = getattr(twin, "__dict__", None)
    slots = _slots(type(twin))
    for name, item in held.items():
        if own is None or name in slots:
            object.__setattr__(twin, name, item)
        else:
            own[name] = item


def _slots(kind: type) -> list[str]:
    """Names of the slots of a class and of its bases, as `copy` and `pickle` find them."""
    found: list[str] = copyreg._slotnames(kind)  # type: ignore[attr-defined]
    return found


def _mapping_like(value: Mapping[Any, Any], changed: dict[Any, Any]) -> Any:
    if type(value) is dict:
        return changed
    try:
        same_kind = copy.copy(value)
        # A class of a script's own may keep its items in a dict, which a copy of it shares.
        own = attributes(same_kind).items()
        fill(same_kind, {name: dict(item) for name, item in own if type(item) is dict})
        same_kind.update(changed)  # type: ignore[attr-defined]
    except (AttributeError, TypeError):  # a read-only mapping
        return changed
    return same_kind


def _sequence_like(value: list[Any] | tuple[Any, ...], changed: list[Any]) -> Any:
    if hasattr(value, "_make"):  # a named tuple, whose class may have a constructor of its own
        return value._make(changed)
    try:
        return type(value)(changed)
    except TypeError:  # a kind of its own that is made from something else
        return changed if isinstance(value, list) else tuple(changed)
