"""Which code is the user's own, and the names under which it has imported library functions.

`from PIL.Image import open` binds the function itself: patching the module comes too late for it.
"""

from __future__ import annotations

import sys
import sysconfig
from functools import cache
from types import ModuleType
from typing import Any

from stoker.probe.hooks.patches import Patches

_STANDARD_LIBRARY = sysconfig.get_path("stdlib") + "/"
_LIBRARY_FOLDERS = frozenset({"site-packages", "dist-packages"})


class EarlyBound:
    """Puts the timed twins of library functions into the user's namespaces, whichever comes first.

    A namespace is a module's dictionary. In spawned workers the functions of the script have a
    dictionary that belongs to no module in `sys.modules`, so they are asked for theirs, too.
    """

    def __init__(self, patches: Patches) -> None:
        self._patches = patches
        self._twins: dict[int, tuple[Any, Any]] = {}  # id of the original -> it, its twin
        self._namespaces: dict[int, dict[str, Any]] = {}
        for module in list(sys.modules.values()):
            if isinstance(module, ModuleType) and is_user_code(module.__name__):
                self.look_in(vars(module))

    def learn(self, twins: dict[int, tuple[Any, Any]]) -> None:
        """Replace these wherever user code has them."""
        self._twins |= twins
        for namespace in self._namespaces.values():
            self._replace(namespace, twins)

    def look_in(self, namespace: dict[str, Any]) -> None:
        """Replace what is known in one more namespace."""
        if id(namespace) not in self._namespaces:
            self._namespaces[id(namespace)] = namespace
            self._replace(namespace, self._twins)

    def _replace(self, namespace: dict[str, Any], twins: dict[int, tuple[Any, Any]]) -> None:
        for name, value in list(namespace.items()):
            original, timed = twins.get(id(value), (None, None))
            if original is value and original is not None:
                self._patches.entry(namespace, name, timed, "")


@cache
def is_user_code(module: str) -> bool:
    """True for modules outside of the standard library and of installed packages."""
    if root_of(module) in sys.stdlib_module_names or root_of(module) in ("stoker", "builtins"):
        return False
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None:
        # A script and a notebook; not what is built in, nor a namespace package.
        return module in ("__main__", "__mp_main__")
    # Asked of some thousand modules: text is ten times faster here than Path.
    return not file.startswith(_STANDARD_LIBRARY) and _LIBRARY_FOLDERS.isdisjoint(file.split("/"))


def root_of(module: str | None) -> str:
    """The package that a module belongs to."""
    return (module or "").partition(".")[0]
