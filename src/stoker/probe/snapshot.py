"""Batches kept to be handed out again: copied before the script can touch them.

Scripts pop keys, mutate in place and reuse containers, so every hand-out has fresh containers, and
a tensor that was written to is copied anew. Standard library only; torch and numpy are used where
the batch brought them along.
"""

from __future__ import annotations

import array
import contextlib
import copy
import enum
import io
import logging
import pathlib
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any

from stoker.containers import attributes, blank, fill

Leaf = Any
Batch = Any

# Levels of containers that are taken apart: more of them would come near Python's own end.
_DEEPEST = 100
# Parts of one batch: what holds more has the data set in it, or a whole model.
_MOST_PARTS = 200_000

_ATOMS = frozenset({type(None), bool, int, float, complex, str, bytes})
# Of these an instance is what it is: nobody changes it, or all mean the same one.
_SHARED = (
    type,
    enum.Enum,
    pathlib.PurePath,
    logging.Logger,
    types.ModuleType,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
)
_COPIED = (set, bytearray, array.array)
# Libraries whose objects copy themselves, and keep what they hold where nobody sees it.
_COPYING = frozenset({"PIL", "pandas"})


class Unkeepable(Exception):  # noqa: N818 - says what the batch is
    """A batch holds what can be handed out only once; the message says what."""


def _is_tensor(value: Any) -> bool:
    # Asked of the type: a tensor made in inference mode has no version to be asked for.
    return hasattr(type(value), "_version") and hasattr(value, "clone")


def _is_array(value: Any) -> bool:
    kind = type(value)
    return hasattr(kind, "__array_interface__") and hasattr(kind, "nbytes")


def _copies_itself(kind: type) -> bool:
    return kind.__module__.partition(".")[0] in _COPYING and hasattr(kind, "copy")


def rebuild(batch: Batch, leaf: Callable[[Leaf], Leaf]) -> Batch:
    """The same structure in new containers, with `leaf` applied to all that is no container.

    Instances of classes are containers of their attributes, except those that copy themselves.
    What is held twice is so in the new one as well. A container that can't be made anew is a leaf.
    Raises Unkeepable for too many of them.
    """
    try:
        return _Rebuilding(leaf).of(batch, 0)
    except RecursionError:
        raise Unkeepable("it is nested too deeply") from None


class _Rebuilding:
    """One batch being made anew."""

    def __init__(self, leaf: Callable[[Leaf], Leaf]) -> None:
        self._leaf = leaf
        self._made: dict[int, Any] = {}  # by the original's id, which lives as long as the batch

    def of(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if kind in _ATOMS:
            return self._leaf(value)
        if id(value) in self._made:
            return self._made[id(value)]
        if len(self._made) >= _MOST_PARTS:
            raise Unkeepable(f"it has more than {_MOST_PARTS:,} parts")
        if _is_tensor(value):
            made = self._leaf(value)
        elif depth >= _DEEPEST:
            raise Unkeepable(f"it is nested more than {_DEEPEST} levels deep")
        else:
            try:
                made = self._container(value, kind, depth + 1)
            except (Unkeepable, RecursionError):
                raise
            except Exception:  # noqa: BLE001 - a class that can't be made anew: one for all
                made = self._leaf(value)
        self._made[id(value)] = made
        return made

    def _container(self, value: Any, kind: Any, depth: int) -> Any:
        twin: Any
        if kind is dict or kind is list:
            twin = self._made[id(value)] = kind()
            self._items(twin, value, kind, depth)
            return twin
        if isinstance(value, tuple):
            return self._tuple(value, kind, depth)
        if isinstance(value, (dict, list)):
            base = next(b for b in (OrderedDict, defaultdict, dict, list) if isinstance(value, b))
            twin = self._made[id(value)] = base.__new__(kind)
            if isinstance(value, defaultdict):
                twin.default_factory = value.default_factory
            self._items(twin, value, base, depth)
            self._attributes(twin, value, depth)
            return twin
        if isinstance(value, deque):
            twin = self._made[id(value)] = kind((), value.maxlen)
            twin.extend([self.of(item, depth) for item in value])
            return twin
        if kind is types.MappingProxyType:
            return kind({key: self.of(item, depth) for key, item in value.items()})
        if _is_leaf(value):
            return self._leaf(value)
        twin = self._made[id(value)] = blank(value)
        self._attributes(twin, value, depth)
        return twin

    def _items(self, twin: Any, value: Any, base: Any, depth: int) -> None:
        """Past what a class of a script's own makes of an item that is set."""
        if issubclass(base, list):
            list.extend(twin, [self.of(item, depth) for item in list.__iter__(value)])
            return
        for key, item in base.items(value):
            base.__setitem__(twin, key, self.of(item, depth))

    def _tuple(self, value: Any, kind: Any, depth: int) -> Any:
        items = [self.of(item, depth) for item in value]
        if kind is tuple:
            return tuple(items)
        try:
            twin = kind(*items) if hasattr(kind, "_fields") else kind(items)
        except TypeError:  # made from something else
            twin = tuple.__new__(kind, items)
        self._attributes(twin, value, depth)
        return twin

    def _attributes(self, twin: Any, value: Any, depth: int) -> None:
        held = attributes(value)
        if held:
            fill(twin, {name: self.of(item, depth) for name, item in held.items()})


def _is_leaf(value: Any) -> bool:
    """True for what holds nothing that can be seen, and for what knows how to copy itself."""
    kind = type(value)
    return (
        _is_array(value)
        or isinstance(value, (*_SHARED, *_COPIED, io.IOBase))
        or hasattr(kind, "clone")  # graph batches, TensorDict
        or hasattr(kind, "named_parameters")  # a model: shared with the script
        or _copies_itself(kind)
        or hasattr(kind, "__del__")  # a second one would end what both hold
        or not (hasattr(value, "__dict__") or attributes(value))
    )


def _is_used_up(leaf: Leaf) -> bool:
    """True for generators and other iterators, files, locks, owners: there is but one of it."""
    kind = type(leaf)
    return (
        isinstance(leaf, (io.IOBase, types.CoroutineType, types.AsyncGeneratorType))
        or hasattr(kind, "__next__")
        or hasattr(kind, "__del__")
        or (hasattr(kind, "acquire") and hasattr(kind, "release"))
    )


def leaves(batch: Batch) -> list[Leaf]:
    """All that is no container, in order."""
    found: list[Leaf] = []

    def note(leaf: Leaf) -> Leaf:
        found.append(leaf)
        return leaf

    with contextlib.suppress(Unkeepable):  # up to there
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
    """A leaf that shares no memory with the original. Raises Unkeepable where there is but one."""
    kind = type(leaf)
    if kind in _ATOMS:
        return leaf
    if _is_tensor(leaf):
        copied = leaf.detach().clone()
        # What comes from pinned memory goes to a device another way than what does not.
        return copied.pin_memory() if leaf.device.type == "cpu" and leaf.is_pinned() else copied
    if isinstance(leaf, _SHARED) or hasattr(kind, "named_parameters"):
        return leaf
    if _is_array(leaf) or _copies_itself(kind):
        return leaf.copy()
    if isinstance(leaf, _COPIED):
        return copy.copy(leaf)
    if callable(getattr(kind, "clone", None)):  # graph batches and the like
        return leaf.clone()
    if _is_used_up(leaf):
        raise Unkeepable(f"it holds a {kind.__qualname__}, which can be used only once")
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
        """Copy `batch`; `place` moves each leaf to where the copies shall live.

        Raises Unkeepable where no second one can be made of it.
        """
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
