"""Stoker keeps an accelerator fed: it finds out why a training run starves, and what would help."""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

# Public name -> module that defines it. Loaded on first use, so that `import stoker` stays cheap.
_PUBLIC = {
    "DataLoader": "stoker.loader.dataloader",
    "EmulatedAccelerator": "stoker.emulate",
    "Engine": "stoker.solvers",
    "Hardware": "stoker.zoo.catalogue",
    "Loader": "stoker.loader.loader",
    "Models": "stoker.zoo.catalogue",
    "feed": "stoker.loader.feed",
    "Pack": "stoker.pack",
    "open_pack": "stoker.pack",
    "watch": "stoker.watched",
}
# Modules that are public as a whole, loaded the same way.
_PUBLIC_MODULES = {
    "augment": "stoker.augment",
    "show": "stoker.show",
    "solvers": "stoker.solvers",
    "units": "stoker.units",
}

__all__ = [
    "DataLoader",
    "EmulatedAccelerator",
    "Engine",
    "Hardware",
    "Loader",
    "Models",
    "Pack",
    "__version__",
    "augment",
    "feed",
    "open_pack",
    "show",
    "solvers",
    "units",
    "watch",
]


def __getattr__(name: str) -> Any:
    if name in _PUBLIC_MODULES:
        return importlib.import_module(_PUBLIC_MODULES[name])
    try:
        module = _PUBLIC[name]
    except KeyError:
        raise AttributeError(f"module 'stoker' has no attribute {name!r}") from None
    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
