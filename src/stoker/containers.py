"""The parts of a nested batch, and the same change to each of them, whatever it is made of.

Containers are mappings, lists, tuples (named ones too) and dataclasses; all else is a leaf.
Standard library only: also runs in a script under remedies.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

Leaf = Callable[[Any], Any]
Place = tuple[Any, ...]


def mapped(value: Any, change: Leaf) -> Any:
    """`value` with `change` applied to every leaf, in containers of the same kinds.

    A container of which nothing changed is passed on itself.
    """
    held = inner(value)
    if held is None:
        return change(value)
    changed = {key: mapped(item, change) for key, item in held.items()}
    if all(changed[key] is item for key, item in held.items()):
        return value
    if isinstance(value, Mapping):
        return _mapping_like(value, changed)
    if isinstance(value, list | tuple):
        return _sequence_like(value, list(changed.values()))
    return dataclasses.replace(value, **changed)


def parts(value: Any, place: Place = ()) -> Iterator[tuple[Place, Any]]:
    """Every leaf, with the keys that lead to it."""
    held = inner(value)
    if held is None:
        yield place, value
        return
    for key, item in held.items():
        yield from parts(item, (*place, key))


def leaves(value: Any) -> Iterator[Any]:
    """All that `mapped` would change."""
    return (leaf for _, leaf in parts(value))


def inner(value: Any) -> Mapping[Any, Any] | None:
    """What a container holds, by its key; None for a leaf."""
    if isinstance(value, Mapping):
        return dict(value.items())
    if isinstance(value, list | tuple):
        return dict(enumerate(value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return {field.name: getattr(value, field.name) for field in fields if field.init}
    return None


def _mapping_like(value: Mapping[Any, Any], changed: dict[Any, Any]) -> Any:
    if type(value) is dict:
        return changed
    try:
        same_kind = copy.copy(value)
        same_kind.update(changed)  # type: ignore[attr-defined]
    except (AttributeError, TypeError):  # a read-only mapping
        return changed
    return same_kind


def _sequence_like(value: list[Any] | tuple[Any, ...], changed: list[Any]) -> Any:
    if hasattr(value, "_fields"):
        return type(value)(*changed)
    try:
        return type(value)(changed)
    except TypeError:  # a kind of its own that is made from something else
        return changed if isinstance(value, list) else tuple(changed)
