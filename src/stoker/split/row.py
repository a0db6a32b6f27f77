"""The transforms of a Dataset as a row of steps, wherever it keeps them.

A Compose of any library or of one's own is known by its list `transforms`, a plain list by holding
callables alone. Shortened copies are made of both; the user's own objects stay as they are.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

Step = Callable[..., Any]

# Data sets within data sets: a Subset of a concatenation of a wrapper.
_DEEPEST = 4
# Where data sets of data sets keep the one below.
_INNER = ("dataset", "data", "base", "source", "_dataset")
# And a concatenation keeps several.
_SEVERAL = "datasets"
# Looked at first: the others may be those of the label.
_USUAL = ("transform", "transforms")
# What only seems to be a row of transforms: lists of files know no call.
_MOST_STEPS = 64


class Row(NamedTuple):
    """The steps, and the attributes that lead to them from the data set."""

    path: tuple[str, ...]
    steps: tuple[Step, ...]
    inner: str = ""  # the attribute that holds the steps, where they are no plain list

    @property
    def expression(self) -> str:
        """The steps as Python writes it behind the data set: `.dataset.transform.transforms`."""
        return "".join(f".{name}" for name in (*self.path, self.inner) if name)


class Recorder:
    """A last step that changes nothing and keeps what it was called with."""

    def __init__(self) -> None:
        self.calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def __call__(self, *args: Any, **parts: Any) -> Any:
        """Give back what came, as a step would that did nothing."""
        self.calls.append((args, parts))
        if parts:
            return parts
        return args[0] if len(args) == 1 else args


class Chain:
    """Steps one after the other, handed on as a Compose does: one value, several, or by name."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.transforms = list(steps)

    def __call__(self, *args: Any, **parts: Any) -> Any:
        """Apply all of them."""
        for step in self.transforms:
            if parts:
                parts = step(**parts)
            elif len(args) == 1:
                args = (step(args[0]),)
            else:
                args = tuple(step(*args))
        if parts:
            return parts
        return args[0] if len(args) == 1 else args


def find_row(dataset: Any) -> Row | None:
    """The first row of transforms that the data set, or one that it holds, has; None without."""
    path: tuple[str, ...] = ()
    for _ in range(_DEEPEST):
        for name, value in _attributes(dataset):
            steps = steps_of(value)
            if steps is not None:
                is_composed = isinstance(getattr(value, "transforms", None), list | tuple)
                return Row((*path, name), steps, "transforms" if is_composed else "")
        inner = next((one for one in _INNER if _is_dataset(getattr(dataset, one, None))), None)
        if inner is None:
            return None
        path, dataset = (*path, inner), getattr(dataset, inner)
    return None


def owner_of(dataset: Any, row: Row) -> Any:
    """The Compose or list itself."""
    for name in row.path:
        dataset = getattr(dataset, name)
    return dataset


def steps_of(value: Any) -> tuple[Step, ...] | None:
    """The steps of a Compose, a Sequential or a list of callables; None for anything else."""
    inner = getattr(value, "transforms", None)
    if callable(value) and isinstance(inner, list | tuple):
        found: Any = inner
    elif isinstance(value, list | tuple) or _is_sequential(value):
        found = value
    else:
        return None
    steps = tuple(found[:_MOST_STEPS]) if isinstance(found, list | tuple) else tuple(found)
    is_row = 0 < len(steps) < _MOST_STEPS and all(map(callable, steps))
    return steps if is_row and not any(isinstance(step, type) for step in steps) else None


def copied(dataset: Any) -> Any:
    """A copy of the data set, and in it of those that it wraps, with their transforms."""
    return _copied(dataset, _DEEPEST)


def _copied(dataset: Any, deepest: int) -> Any:
    found = copy.copy(dataset)
    held = getattr(dataset, "__dict__", {}) if deepest else {}
    for name in _INNER:
        if name in held:
            setattr(found, name, _inner_copied(held[name], deepest))
    several = held.get(_SEVERAL)
    if isinstance(several, list | tuple):
        setattr(found, _SEVERAL, type(several)(_inner_copied(one, deepest) for one in several))
    return found


def _inner_copied(value: Any, deepest: int) -> Any:
    """What is no data set, or can't be copied, stays the same; so do arrays, tensors and tables."""
    if not _is_dataset(value) or hasattr(value, "ndim"):
        return value
    try:
        return _copied(value, deepest - 1)
    except (TypeError, ValueError, AttributeError, RuntimeError):  # an open file of a C library
        return value


def with_steps(dataset: Any, row: Row, steps: Sequence[Step]) -> Any:
    """A copy of the data set that has these steps in place of its own; the original stays.

    Copied are the data set and what leads to the row, not what they hold.
    """
    *way, name = row.path
    top = holder = copy.copy(dataset)
    for one in way:
        inner = copy.copy(getattr(holder, one))
        setattr(holder, one, inner)
        holder = inner
    own = getattr(holder, name)
    changed = row_with(own, steps)
    setattr(holder, name, changed)
    _set_twin(holder, name, own, changed)
    return top


def row_with(own: Any, steps: Sequence[Step]) -> Any:
    """The same kind of row with other steps."""
    if isinstance(own, list | tuple):
        return type(own)(steps)
    inner = getattr(own, "transforms", None)
    if not isinstance(inner, list | tuple):
        return Chain(steps)
    changed = copy.copy(own)
    changed.transforms = type(inner)(steps)
    return changed


def _set_twin(holder: Any, name: str, own: Any, changed: Any) -> None:
    """torchvision's data sets hold the transform a second time, in an object `transforms`."""
    both = getattr(holder, "transforms", None)
    if name != "transforms" and both is not None and getattr(both, name, None) is own:
        both = copy.copy(both)
        setattr(both, name, changed)
        holder.transforms = both


def _attributes(dataset: Any) -> Iterator[tuple[str, Any]]:
    """Its own and its class's, the usual names first."""
    names = dict.fromkeys((*_USUAL, *getattr(dataset, "__dict__", {})))
    for kind in type(dataset).__mro__:
        names |= dict.fromkeys(n for n, v in vars(kind).items() if isinstance(v, list | tuple))
    for name in names:
        if not name.startswith("__"):
            yield name, getattr(dataset, name, None)


def _is_sequential(value: Any) -> bool:
    """True for torch's nn.Sequential and what is like it: a callable row of callables."""
    return callable(value) and hasattr(value, "forward") and hasattr(value, "__len__")


def _is_dataset(value: Any) -> bool:
    return all(hasattr(value, name) for name in ("__getitem__", "__len__", "__dict__"))
