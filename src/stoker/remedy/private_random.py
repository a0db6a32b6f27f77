"""Random generators that a data set uses beside the global ones, which the library does not seed in
workers: what it and its transforms carry, and what their code reaches by name.

By the names of their types: no library is imported for it. Standard library only.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from functools import partial
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

_NAMES = {
    ("numpy.random._generator", "Generator"),
    ("numpy.random.mtrand", "RandomState"),
    ("torch", "Generator"),
    ("torch._C", "Generator"),
}
# Subsets hold data sets, these hold transforms, and these others in lists.
_DEPTH = 8
_MOST_ITEMS = 64
_MOST_OBJECTS = 5000
# What makes a sample: code elsewhere may use a generator that no sample depends on.
_MAKERS = ("__getitem__", "__getitems__", "__call__", "forward")
# Their code uses the global generators, or the ones that it is given.
_KNOWN = {*sys.stdlib_module_names, "numpy", "torch", "torchvision", "PIL", "cv2"}

Parts = Iterator[tuple[str, Any]]


def own_generators(dataset: Any) -> str | None:
    """Where the first such generator stands, as "self.rng"; None when there is none."""
    # Nearest first: a generator far down is found whatever the first branch holds.
    ahead: list[tuple[str, Any]] = [("self", dataset)]
    seen: dict[int, Any] = {}  # keeps what was made on the way, so that no number comes twice
    for _ in range(_DEPTH + 1):
        behind: list[tuple[str, Any]] = []
        for path, value in ahead:
            if id(value) in seen or len(seen) >= _MOST_OBJECTS:
                continue
            seen[id(value)] = value
            if _is_own(value):
                return path
            behind += [(_joined(path, name), inner) for name, inner in _inside(value)]
        ahead = behind
    return None


def _is_own(value: Any) -> bool:
    kind = type(value)
    is_one = isinstance(value, random.Random) or (kind.__module__, kind.__qualname__) in _NAMES
    return is_one and not any(value is one for one in _global_ones())


def _global_ones() -> tuple[Any, ...]:
    """The generators that workers seed anew."""
    found = [getattr(random, "_inst", None)]
    numpy_random, torch = sys.modules.get("numpy.random.mtrand"), sys.modules.get("torch")
    found += [getattr(numpy_random, "_rand", None), getattr(torch, "default_generator", None)]
    return tuple(found)


def _joined(path: str, name: str) -> str:
    return path + name if name[0] in ".[" else f"{name} (in {path})"


def _inside(value: Any) -> Parts:
    """The parts in which a generator may be kept; arrays and long lists are data."""
    if isinstance(value, list | tuple):
        if len(value) <= _MOST_ITEMS:
            yield from ((f"[{index}]", item) for index, item in enumerate(value))
    elif isinstance(value, dict):
        if len(value) <= _MOST_ITEMS:
            yield from [(f"[{key!r}]", item) for key, item in value.items()]
    elif isinstance(value, partial):
        yield from ((".func", value.func), (".args", value.args), (".keywords", value.keywords))
    elif isinstance(value, MethodType):
        yield from ((".__self__", value.__self__), (".__func__", value.__func__))
    elif isinstance(value, FunctionType):
        yield from _reached(value)
    elif not isinstance(value, type | ModuleType | BuiltinFunctionType):
        yield from _held(value)


def _held(value: Any) -> Parts:
    attributes = getattr(value, "__dict__", None)
    if isinstance(attributes, dict):
        yield from ((f".{name}", item) for name, item in list(attributes.items()))
    mro = [kind for kind in type(value).__mro__ if not _is_known(kind.__module__)]
    for kind in mro:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            item = getattr(value, name, None)
            if item is not None:
                yield f".{name}", item
        for name, item in kind.__dict__.items():
            if _is_own(item):
                yield f".{name}", item
    makers: list[FunctionType] = []
    names = list(_MAKERS)
    for name in names:  # grows by what the makers call
        maker = next((kind.__dict__[name] for kind in mro if name in kind.__dict__), None)
        maker = getattr(maker, "__func__", getattr(maker, "fget", maker))  # of static ones, say
        if isinstance(maker, FunctionType) and maker not in makers:
            makers.append(maker)
            names += sorted(_names(maker.__code__))
    for maker in makers:
        yield from _reached(maker)


def _reached(function: FunctionType) -> Parts:
    """What the code of a function can get at: defaults, closure and globals."""
    if _is_known(function.__module__):
        return
    name = function.__qualname__
    if function.__defaults__:
        yield f"a default of {name}", function.__defaults__
    if function.__kwdefaults__:
        yield f"a default of {name}", function.__kwdefaults__
    for free, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield f"{free} of {name}", cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    names = _names(function.__code__)
    for used in names:
        item = function.__globals__.get(used)
        if isinstance(item, ModuleType):
            inner = [(one, vars(item).get(one)) for one in names]
            yield from ((f"{used}.{one}", found) for one, found in inner if _is_own(found))
        elif item is not None:
            yield f"{used} of {name}", item


def _names(code: CodeType) -> set[str]:
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= _names(constant)
    return found


def _is_known(module: str | None) -> bool:
    return (module or "").partition(".")[0] in _KNOWN
