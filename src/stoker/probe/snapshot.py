"""Batches kept to be handed out again: copied before the script can touch them.

Scripts pop keys, mutate in place and reuse containers, so every hand-out has fresh containers, and
a tensor that was written to is copied anew. Standard library only; torch and numpy are used where
the batch brought them along.
"""

from __future__ import annotations

import copy
import dataclasses
from collections import deque
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any

Leaf = Any
Batch = Any

# Levels of containers that are taken apart; objects that refer to each other must come to an end.
_DEEPEST = 16


def _is_tensor(value: Any) -> bool:
    # Asked of the type: a tensor made in inference mode has no version to be asked for.
    return hasattr(type(value), "_version") and hasattr(value, "clone")


def _is_array(value: Any) -> bool:
    return type(value).__module__ == "numpy" and hasattr(value, "__array_interface__")


def rebuild(batch: Batch, leaf: Callable[[Leaf], Leaf], depth: int = 0) -> Batch:
    """The same structure in new containers, with `leaf` applied to all that is no container.

    A container that can't be made anew, because its class wants more than its items, is a leaf.
    """
    if depth >= _DEEPEST or _is_tensor(batch):
        return leaf(batch)
    try:
        return _in_new_container(batch, lambda part: rebuild(part, leaf, depth + 1), leaf)
    except (TypeError, AttributeError):
        return leaf(batch)


def _in_new_container(
    batch: Batch, part: Callable[[Any], Any], leaf: Callable[[Leaf], Leaf]
) -> Any:
    kind = type(batch)
    if kind is dict:
        return {key: part(value) for key, value in batch.items()}
    if isinstance(batch, tuple):
        items = [part(value) for value in batch]
        return kind(*items) if hasattr(batch, "_fields") else kind(items)
    if kind is list:
        return [part(value) for value in batch]
    if isinstance(batch, deque):
        return kind((part(value) for value in batch), batch.maxlen)
    if isinstance(batch, Mapping):
        return _in_new_mapping(batch, part, leaf)
    if isinstance(batch, list):
        twin = copy.copy(batch)
        twin[:] = [part(value) for value in batch]
        return twin
    if dataclasses.is_dataclass(batch) and not isinstance(batch, type):
        return _with_attributes(batch, [f.name for f in dataclasses.fields(batch)], part)
    if _is_record(batch):
        return _with_attributes(batch, list(vars(batch)), part)
    return leaf(batch)


def _in_new_mapping(batch: Any, part: Callable[[Any], Any], leaf: Callable[[Leaf], Leaf]) -> Any:
    if not isinstance(batch, dict) and hasattr(batch, "clone"):  # TensorDict
        return leaf(batch)
    changed = {key: part(value) for key, value in batch.items()}
    if not isinstance(batch, MutableMapping):
        return type(batch)(changed)
    twin: Any = copy.copy(batch)
    if isinstance(getattr(twin, "data", None), dict):  # UserDict (BatchEncoding)
        twin.data = changed
    else:
        for key, value in changed.items():
            twin[key] = value
    return twin


def _is_record(value: Any) -> bool:
    """True for an object of a script's own class that holds tensors or arrays."""
    if isinstance(value, type) or hasattr(value, "clone") or _is_array(value):
        return False
    held = getattr(value, "__dict__", None)
    return isinstance(held, dict) and any(
        _is_tensor(part) or _is_array(part)
        for item in held.values()
        for part in (item.values() if isinstance(item, dict) else _items(item))
    )


def _items(value: Any) -> tuple[Any, ...] | list[Any]:
    return value if isinstance(value, (list, tuple)) else (value,)


def _with_attributes(batch: Any, names: list[str], part: Callable[[Any], Any]) -> Any:
    twin = copy.copy(batch)
    for name in names:
        if hasattr(batch, name):
            object.__setattr__(twin, name, part(getattr(batch, name)))
    return twin


def leaves(batch: Batch) -> list[Leaf]:
    """All that is no container, in order."""
    found: list[Leaf] = []

    def note(leaf: Leaf) -> Leaf:
        found.append(leaf)
        return leaf

    rebuild(batch, note)
    return found


def size_of(batch: Batch) -> tuple[int, int]:
    """Bytes of the tensors and arrays in a batch, and how many leaves it has."""
    total = 0
    found = leaves(batch)
    for leaf in found:
        if _is_tensor(leaf):
            total += leaf.numel() * leaf.element_size()
        elif _is_array(leaf):
            total += leaf.nbytes
        elif isinstance(leaf, (bytes, bytearray, str)):
            total += len(leaf)
    return total, len(found)


def samples_in(batch: Batch) -> int | None:
    """Samples of a batch: the first dimension of its first tensor or array that has one."""
    for leaf in leaves(batch):
        if (_is_tensor(leaf) or _is_array(leaf)) and len(leaf.shape) > 0:
            return int(leaf.shape[0])
    return None


def is_of_samples(batch: Batch, samples: int) -> bool:
    """True where a batch is nothing but tensors and arrays of so many samples each."""
    found = leaves(batch)
    return bool(found) and all(
        (_is_tensor(leaf) or _is_array(leaf)) and len(leaf.shape) > 0 and leaf.shape[0] == samples
        for leaf in found
    )


def copy_leaf(leaf: Leaf) -> Leaf:
    """A leaf that shares no memory with the original."""
    if _is_tensor(leaf):
        copied = leaf.detach().clone()
        # What comes from pinned memory goes to a device another way than what does not.
        return copied.pin_memory() if leaf.device.type == "cpu" and leaf.is_pinned() else copied
    if _is_array(leaf):
        return leaf.copy()
    if isinstance(leaf, (set, bytearray)):
        return leaf.copy()
    if hasattr(leaf, "clone") and callable(leaf.clone):  # graph batches and the like
        return leaf.clone()
    return leaf


def _version(tensor: Any) -> int | None:
    try:
        return int(tensor._version)
    except RuntimeError:  # made in inference mode: nobody counts what is written to it
        return None


def _handed(leaf: Leaf) -> Leaf:
    """A leaf for the script: a new tensor object over counted memory, or a copy of anything else.

    Its gradient, and that it wants one, are the object's: they end with the step.
    """
    return leaf.detach() if _is_tensor(leaf) else copy_leaf(leaf)


class Snapshot:
    """One batch, kept as it was before the script saw it."""

    def __init__(self, batch: Batch, place: Callable[[Leaf], Leaf] | None = None) -> None:
        """Copy `batch`; `place` moves each leaf to where the copies shall live."""
        kept = rebuild(batch, copy_leaf)
        self._pristine = rebuild(kept, place) if place else kept
        self._versions: list[tuple[Leaf, int | None]] = []
        self._given = rebuild(self._pristine, self._first_copy)

    def _first_copy(self, leaf: Leaf) -> Leaf:
        if not _is_tensor(leaf):
            return leaf
        given = copy_leaf(leaf)
        self._versions.append((given, _version(given)))
        return given

    def hand_out(self, first: int | None = None) -> Batch:
        """The batch in fresh containers, every leaf with its first content.

        `first`: only so many samples of it, by the leaves' first dimension.
        """
        if any(version is None or given._version != version for given, version in self._versions):
            self._versions = []
            self._given = rebuild(self._pristine, self._first_copy)
        if first is None:
            return rebuild(self._given, _handed)
        return rebuild(self._given, lambda leaf: _handed(leaf)[:first])

    @property
    def source(self) -> Batch:
        """The untouched copy, to make other snapshots from."""
        return self._pristine
