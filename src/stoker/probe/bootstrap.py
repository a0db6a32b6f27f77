"""Starts the probe inside an examined Python: waits for torch, then hands over to the hooks.

Does nothing in a process that never imports torch, and never raises into the user's program: what
goes wrong here is written down and the script runs on unwatched. Standard library only.
"""

from __future__ import annotations

import contextlib
import os
from types import ModuleType

from stoker.probe.importing import ImportWatch
from stoker.probe.session import Session

_watch: ImportWatch | None = None


def start() -> None:
    """Install the post-import hook. Called once per interpreter, by sitecustomize."""
    global _watch
    if _watch is not None:
        return
    session = Session.from_environment()
    if session is None:
        return  # outlived its examination: somebody's daemon
    with contextlib.suppress(Exception):
        _end_with_starter(session)

    def failed(name: str, error: Exception) -> None:
        """Fail open: a hook that breaks is noted, the user's import goes on."""
        with contextlib.suppress(Exception):  # what broke the hook may break the note, too
            session.write_failure(f"hook on {name}", error)

    def hook_torch(module: ModuleType) -> None:
        if "errand" in session.options:  # not to be measured: its data set is to be packed
            from stoker.probe import captured

            captured.install(session, module)
            return
        from stoker.probe.hooks import torch as torch_hooks

        torch_hooks.install(session, module)

    def hook_stateful(module: ModuleType) -> None:
        from stoker.probe.hooks import torchdata as torchdata_hooks

        torchdata_hooks.install(module)

    def hook_own_loader(module: ModuleType) -> None:
        if "errand" in session.options:
            from stoker.probe import captured

            captured.install_own(module)
            return
        from stoker.probe.hooks import own_loader

        own_loader.install(module)

    def hook_loader(module: ModuleType) -> None:
        if "errand" in session.options:
            return  # it has no data set of the script's to be packed
        from stoker.probe.hooks import own_loader

        own_loader.install_loader(session, module)

    def hook_watch(module: ModuleType) -> None:
        from stoker.probe.hooks import watch as watch_hooks

        watch_hooks.install(session, module)

    _watch = ImportWatch(failed)
    _watch.after("stoker.watched", hook_watch)
    _watch.after("torch.utils.data.dataloader", hook_torch)
    _watch.after("stoker.loader.dataloader", hook_own_loader)
    _watch.after("stoker.loader.loader", hook_loader)
    _watch.after("torchdata.stateful_dataloader.stateful_dataloader", hook_stateful)
    if session.options.get("writes") == "no-op":
        from stoker.probe.hooks import savers

        savers.install(_watch, session)
    _watch.install()


def _end_with_starter(session: Session) -> None:
    """After a SIGKILL of whoever has started this process nobody would end it.

    In the sandbox that is done already. What a launcher has started is left to it: the thread that
    did may end before its process, and the kernel would take that for the parent's end.
    """
    asked_by = session.options.get("asked_by")
    if asked_by is None or asked_by[0] != os.getppid() or session.options["writes"] == "overlay":
        return
    from stoker import lifetime  # loads ctypes: not in every Python of the run

    if asked_by[1] == lifetime.pid_namespace():
        lifetime.end_with(*asked_by)


def watch() -> ImportWatch:
    """The import watch of this interpreter, for hooks that wait for further libraries."""
    if _watch is None:
        raise RuntimeError("the probe was not started in this process")
    return _watch
