"""Call something right after a module was imported, without importing it: the post-import hook.

A failing import, and a mere question whether a module is there, leave the callbacks waiting.
Standard library only, and little of it: this is loaded at the start of every Python of the run.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

Callback = Callable[[ModuleType], None]
Failed = Callable[[str, Exception], None]


class _CallingLoader:
    """Stands in for a module's own loader and calls back when the module has been run."""

    def __init__(self, inner: Any, then: Callback) -> None:
        self._inner = inner
        self._then = then

    def __getattr__(self, name: str) -> Any:
        # Who only asked for the spec may read sources or resources through its loader.
        if name == "_inner":
            raise AttributeError(name)
        return getattr(self._inner, name)

    def exec_module(self, module: ModuleType) -> None:
        """Run the module, then the callbacks."""
        # The module must see its own loader: some read resources through it.
        module.__loader__ = self._inner
        if module.__spec__ is not None:
            module.__spec__.loader = self._inner
        self._inner.exec_module(module)
        self._then(module)


class ImportWatch:
    """A finder in front of the others that finds nothing itself."""

    def __init__(self, failed: Failed | None = None) -> None:
        """`failed` is told of a callback that raises; without it the import raises."""
        self._failed = failed
        self._waiting: dict[str, list[Callback]] = {}
        self._here = threading.local()  # .name: what this thread is looking for with the others

    def after(self, name: str, callback: Callback) -> None:
        """Call back with the module once it is imported; at once if it is already there."""
        module = sys.modules.get(name)
        if module is not None:
            self._call(callback, name, module)
        else:
            self._waiting.setdefault(name, []).append(callback)

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """None, or what another finder has for a watched module, with our loader around its own."""
        if fullname not in self._waiting or getattr(self._here, "name", None) == fullname:
            return None
        self._here.name = fullname  # another watch may ask us in its turn
        try:
            spec = self._find(fullname, path, target)
        finally:
            self._here.name = None
        # A loader of the old kind, without exec_module, is left alone.
        if spec is not None and hasattr(spec.loader, "exec_module"):
            then = partial(self._imported, fullname)
            spec.loader = _CallingLoader(spec.loader, then)  # type: ignore[assignment]
        return spec

    def _find(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None
    ) -> ModuleSpec | None:
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            if finder is self or find is None:
                continue
            spec: ModuleSpec | None = find(fullname, path, target)
            if spec is not None:
                return spec
        return None

    def _imported(self, name: str, module: ModuleType) -> None:
        for callback in self._waiting.pop(name, ()):
            self._call(callback, name, module)

    def _call(self, callback: Callback, name: str, module: ModuleType) -> None:
        try:
            callback(module)
        except Exception as error:
            if self._failed is None:
                raise
            self._failed(name, error)

    def install(self) -> None:
        """Begin to watch."""
        sys.meta_path.insert(0, self)

    def remove(self) -> None:
        """Stop watching."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)
