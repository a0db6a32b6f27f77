"""Times the code of the user's own data set: its methods, what it holds, and what it calls.

Walks from the data set to nested data sets, transforms and helper objects. Classes are patched
rather than objects replaced, so that `isinstance` and pickling go on as before.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from stoker.probe.hooks.early import EarlyBound, is_user_code, root_of
from stoker.probe.hooks.patches import Patches, TimedCall

# Where libraries keep data sets, transforms and functions; of a user's own object every attribute
# is looked at.
_LIBRARY_ATTRIBUTES = frozenset(
    {
        *("dataset", "datasets", "_dataset", "ds", "data", "source"),
        *("transform", "transforms", "target_transform", "fn", "func", "functions", "lambd"),
        *("tokenizer", "processor", "image_processor", "feature_extractor", "loader"),
    }
)
# A data set may hold a million paths: long containers are data, not code.
_LONGEST_CONTAINER = 64
_MOST_OBJECTS = 300
_DEEPEST = 6
# Their `__getitem__` is not the making of a sample; the hooks of these libraries time reading.
_DATA_LIBRARIES = frozenset({"numpy", "pandas", "h5py", "zarr", "pyarrow", "PIL", "collections"})
_FUNCTIONS = (FunctionType, BuiltinFunctionType, MethodType, partial)


# Puts a timed twin, of a stage, in the place of what was found.
Put = Callable[[Any, str], None]


def time_dataset(dataset: Any, patches: Patches, early: EarlyBound) -> None:
    """Patch everything on the way from the data set that can be timed."""
    _Walk(patches, early).visit(dataset, depth=0)


class _Walk:
    """One walk; each class, function and object is met once."""

    def __init__(self, patches: Patches, early: EarlyBound) -> None:
        self._patches = patches
        self._early = early
        self._seen: set[int] = set()
        self._classes: set[type] = set()

    def visit(self, value: Any, *, depth: int) -> None:
        """Time the class of an object, and look into the object."""
        if id(value) in self._seen or depth > _DEEPEST or len(self._seen) > _MOST_OBJECTS:
            return
        self._seen.add(id(value))
        kind = type(value)
        self._time_class(kind)
        for base in kind.__mro__:
            if is_user_code(base.__module__):
                self._look_into_class(base, depth=depth)
        attributes = getattr(value, "__dict__", None)
        if not isinstance(attributes, dict):
            return
        is_own = is_user_code(kind.__module__)
        for name, part in list(attributes.items()):
            if is_own or name in _LIBRARY_ATTRIBUTES:
                put = partial(self._patches.entry, attributes, name)
                self._look_at(name, part, put, depth=depth)

    def _look_into_class(self, kind: type, *, depth: int) -> None:
        """Transforms that a class lists for all its objects; its functions are methods."""
        for name, part in list(vars(kind).items()):
            if not name.startswith("__") and not isinstance(part, _FUNCTIONS):
                put = partial(self._put_on_class, kind, name)
                self._look_at(name, part, put, depth=depth)

    def _put_on_class(self, kind: type, name: str, value: Any, stage: str) -> None:
        self._patches.attribute(kind, name, value, stage=stage)

    def _look_at(self, name: str, part: Any, put: Put, *, depth: int) -> None:
        """An attribute or item: a function is replaced, an object visited, a container opened."""
        if isinstance(part, _FUNCTIONS):
            timed, stage = self._timed(name, part)
            if timed is not part:
                put(timed, stage)
        elif isinstance(part, list | tuple | dict):
            if len(part) <= _LONGEST_CONTAINER:
                self._open(name, part, put, depth=depth)
        elif _is_code_object(part):
            self.visit(part, depth=depth + 1)

    def _open(self, name: str, container: Any, put: Put, *, depth: int) -> None:
        """The items of a container; a tuple of functions is replaced as a whole."""
        if type(container) is tuple:
            parts = list(container)
            for place, part in enumerate(parts):
                self._look_at(f"{name}[{place}]", part, _into(parts, place), depth=depth)
            if any(new is not old for new, old in zip(parts, container, strict=True)):
                put(tuple(parts), "")
            return
        is_dict = isinstance(container, dict)
        put_in = self._patches.entry if is_dict else self._patches.item
        for key, part in list(container.items() if is_dict else enumerate(container)):
            self._look_at(f"{name}[{key}]", part, partial(put_in, container, key), depth=depth)

    def _timed(self, name: str, function: Any) -> tuple[Any, str]:
        """A function's timed twin, and its stage."""
        stage = _name_of(function, name)
        if self._is_timed(function):
            return function, stage
        return TimedCall(self._patches.timed(stage, function), function), stage

    # -- classes -----------------------------------------------------------------------------------

    def _time_class(self, kind: type) -> None:
        if kind in self._classes:
            return
        self._classes.add(kind)
        if root_of(kind.__module__) in _DATA_LIBRARIES | {"builtins"}:
            return
        for name in ("__getitem__", "__getitems__", "__call__"):
            self._time_special(kind, name)
        # Its iterator is timed by the fetcher; what the generator calls is found here.
        iterate = getattr(kind, "__iter__", None)
        if isinstance(iterate, FunctionType):
            self._time_called(iterate)
        for base in kind.__mro__:
            if is_user_code(base.__module__):
                self._time_methods(base)

    def _time_special(self, kind: type, name: str) -> None:
        """Patch a special method on the class itself, wherever it inherits it from."""
        owner = next((base for base in kind.__mro__ if name in vars(base)), None)
        method = getattr(kind, name, None)
        if owner is None or not isinstance(method, FunctionType) or self._is_timed(method):
            return
        if root_of(owner.__module__) in ("typing", "abc"):
            return
        timing = self._patches.timing
        stage = kind.__name__ if name == "__call__" else f"{kind.__name__}.{name}"
        if name == "__getitem__":
            timed = timing.timed_sample(stage, method)
        else:
            timed = timing.timed(stage, method, makes_samples=name == "__getitems__")
        self._patches.attribute(kind, name, timed, stage=stage)
        if name != "__call__":
            self._time_called(method)
        elif is_user_code(method.__module__):
            self._early.look_in(method.__globals__)

    def _time_methods(self, kind: type) -> None:
        for name, method in list(vars(kind).items()):
            if name.startswith("__"):
                continue
            function = method.__func__ if isinstance(method, staticmethod | classmethod) else method
            if not isinstance(function, FunctionType) or not _is_plain(function):
                continue
            self._early.look_in(function.__globals__)
            if self._is_timed(function):
                continue
            stage = f"{kind.__name__}.{name}"
            timed: Any = self._patches.timed(stage, function)
            if isinstance(method, staticmethod | classmethod):
                timed = type(method)(timed)
            self._patches.attribute(kind, name, timed, stage=stage)

    def _is_timed(self, function: Any) -> bool:
        return hasattr(function, "__stoker_timed__")

    # -- functions ---------------------------------------------------------------------------------

    def _time_called(self, method: FunctionType) -> None:
        """Time the user's functions that a data set calls by name, in the method's own module."""
        if not is_user_code(method.__module__):
            return
        self._early.look_in(method.__globals__)
        names = set(_names_in(method.__code__))
        for name in names:
            called = method.__globals__.get(name)
            if isinstance(called, ModuleType) and is_user_code(called.__name__):
                for inner in names & vars(called).keys():
                    self._time_global(vars(called), inner)
            else:
                self._time_global(method.__globals__, name)

    def _time_global(self, names: dict[str, Any], name: str) -> None:
        called = names.get(name)
        if isinstance(called, type) and is_user_code(called.__module__):
            self._time_class(called)
        if (
            isinstance(called, FunctionType)
            and is_user_code(called.__module__)
            and _is_plain(called)
            and not self._is_timed(called)
        ):
            timed = self._patches.timing.timed_direct(called.__name__, called)
            self._patches.entry(names, name, timed, called.__name__)


def _into(parts: list[Any], place: int) -> Put:
    def put(value: Any, _: str) -> None:
        parts[place] = value

    return put


def _is_plain(function: FunctionType) -> bool:
    """False for generators and coroutines: calling them does none of their work."""
    flags = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
    return not function.__code__.co_flags & flags


def _is_code_object(value: Any) -> bool:
    """An object with behaviour of its own: callable, a data set, or of a user's class."""
    kind = type(value)
    if isinstance(value, type | ModuleType) or root_of(kind.__module__) in _DATA_LIBRARIES:
        return False
    if is_user_code(kind.__module__):
        return True
    return any(
        isinstance(getattr(kind, name, None), FunctionType) for name in ("__call__", "__getitem__")
    )


def _name_of(function: Any, attribute: str) -> str:
    inner = getattr(function, "func", function)
    name = getattr(inner, "__name__", "")
    return attribute if name in ("", "<lambda>") else str(name)


def _names_in(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)
