"""stoker.DataLoader: a DataLoader with iterators of its own where threads make its samples."""

from __future__ import annotations

from types import ModuleType

from stoker.probe.hooks.torch import installed


def install(module: ModuleType) -> None:
    """Follow the just imported class by the iterators that torch does not have."""
    hooks = installed()
    if hooks is not None:
        hooks.follow_iterators(module.DataLoader, module._Threaded, module._FindingOut)
