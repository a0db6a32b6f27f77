"""torchdata's StatefulDataLoader: a DataLoader with an `__iter__` and iterators of its own."""

from __future__ import annotations

from types import ModuleType

from stoker.probe.hooks.torch import installed


def install(module: ModuleType) -> None:
    """Follow the just imported class like torch's."""
    hooks = installed()
    if hooks is not None:
        hooks.follow_class(module.StatefulDataLoader)
