"""Where no sandbox can be had: savers that do nothing but note the path, and trackers switched off.

The second best: it knows the savers listed here and no other way of writing a file. What a script
saves and then loads again is not there. Standard library only.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

# Each from the tracker's own documentation or source, so that an examined run shows up nowhere.
# TensorBoard writers only make local files: they need a sandbox, not a switch. Aim too.
TRACKERS_OFF = {
    "WANDB_MODE": "disabled",
    "WANDB_SILENT": "true",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DISABLE_MLFLOW_INTEGRATION": "TRUE",  # transformers' own callback
    "COMET_AUTO_LOG_DISABLE": "true",
    "COMET_MODE": "DISABLED",  # transformers' own callback
    "NEPTUNE_MODE": "debug",
    "CLEARML_OFFLINE_MODE": "1",
}


def trackers_off(folder: Path) -> dict[str, str]:
    """The environment that switches trackers off; those without a switch write to `folder`.

    MLflow has none: a store of its own keeps a shared server clean, unless the script sets the
    server itself (`mlflow.set_tracking_uri`).
    """
    store = (folder / "mlruns").as_uri()
    # Without the last, new MLflow versions refuse a store of files.
    return TRACKERS_OFF | {
        "MLFLOW_TRACKING_URI": store,
        "MLFLOW_REGISTRY_URI": store,
        "MLFLOW_ALLOW_FILE_STORE": "true",
    }


# Module -> its savers, each with the position and name of the argument that says where to.
_SAVERS: dict[str, tuple[tuple[str, int, str], ...]] = {
    "torch": (("save", 1, "f"),),
    "torch.jit": (("save", 1, "f"),),
    "safetensors.torch": (("save_file", 1, "filename"), ("save_model", 1, "filename")),
    "safetensors.numpy": (("save_file", 1, "filename"),),
    "numpy": (
        ("save", 0, "file"),
        ("savez", 0, "file"),
        ("savez_compressed", 0, "file"),
        ("savetxt", 0, "fname"),
    ),
}


class ImportWatch(Protocol):
    """Calls back with a module once it is imported."""

    def after(self, name: str, callback: Callable[[ModuleType], None]) -> None:
        """At once, where it is already there."""
        ...


class Notes(Protocol):
    """Takes records of what would have been written."""

    def write(self, kind: str, **fields: Any) -> None:
        """Append one record."""
        ...


def install(watch: ImportWatch, notes: Notes) -> Callable[[], None]:
    """Replace the savers of each library as it is imported; the result puts them back."""
    replaced: list[tuple[ModuleType, str, Any]] = []

    def replace(module: ModuleType) -> None:
        for name, position, keyword in _SAVERS[module.__name__]:
            original = getattr(module, name, None)
            if original is not None:
                replaced.append((module, name, original))
                setattr(module, name, _noting(original, position, keyword, notes))

    def restore() -> None:
        while replaced:
            module, name, original = replaced.pop()
            setattr(module, name, original)

    for module_name in _SAVERS:
        watch.after(module_name, replace)
    return restore


def _noting(
    original: Callable[..., Any], position: int, keyword: str, notes: Notes
) -> Callable[..., Any]:
    @wraps(original)
    def save(*args: Any, **kwargs: Any) -> Any:
        target = kwargs.get(keyword, args[position] if len(args) > position else None)
        path = _path_of(target)
        if path is None:  # a buffer in memory: nothing of it reaches a disk
            return original(*args, **kwargs)
        notes.write("would-write", path=path)
        return None

    return save


def _path_of(target: Any) -> str | None:
    """The path of a file name or of an open file; None for a buffer, and for no target at all."""
    if isinstance(target, str | bytes | os.PathLike):
        return os.path.abspath(os.fsdecode(target))  # noqa: PTH100 - keeps what is no real path
    name = getattr(target, "name", None)
    return os.path.abspath(name) if isinstance(name, str) else None  # noqa: PTH100
