"""Starts the remedies inside a Python of the script: waits for torch's loader, then stands in it.

Does nothing where torch is never imported, and never raises into the script.
"""

from __future__ import annotations

import atexit
import os
from types import ModuleType

from stoker.probe.importing import ImportWatch
from stoker.remedy.ledger import Ledger, write_line
from stoker.remedy.orders import Orders

_watch: ImportWatch | None = None


def start() -> None:
    """Install the post-import hooks. Called once per interpreter, by sitecustomize."""
    global _watch
    orders = Orders.from_environment()
    if _watch is not None or orders is None:
        return

    def failed(name: str, error: Exception) -> None:
        write_line(f"the script runs as it is: {name}: {error!r}")

    def hook_loader(module: ModuleType) -> None:
        from stoker.remedy.loaders import Loaders

        # Of several ranks on a node one speaks and keeps the account.
        speaks = os.environ.get("LOCAL_RANK", "0") == "0"
        ledger = Ledger(
            is_quiet=orders.is_quiet or not speaks,
            json_path=orders.json if speaks else None,
            script=orders.script,
        )
        loaders = Loaders(orders, module, ledger)
        loaders.install()
        _own().after("torch.optim.optimizer", loaders.steps.watch)
        _own().after("stoker.loader.dataloader", loaders.watch_stoker)
        if any(request.name == "pinned-async" for request in orders.requests):
            _own().after("stoker.emulate.accelerator", loaders.deliveries.watch_emulated)

    if orders.pid == os.getpid():
        atexit.register(_account_without_loaders, orders)
    _watch = ImportWatch(failed)
    _watch.after("torch.utils.data.dataloader", hook_loader)
    _watch.install()


def _account_without_loaders(orders: Orders) -> None:
    """Also of a script that never came to torch, where nobody else has written one."""
    if orders.pid == os.getpid():  # and not a fork of it
        Ledger(is_quiet=True, json_path=orders.json, script=orders.script).close()


def _own() -> ImportWatch:
    assert _watch is not None
    return _watch
