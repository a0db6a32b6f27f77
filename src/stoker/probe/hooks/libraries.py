"""All library tables, and their patching: at once where imported, on import where not yet."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial, wraps
from types import ModuleType
from typing import Any, Protocol

from stoker.probe.hooks import (
    archives,
    audio,
    h5py,
    network,
    numpy,
    opencv,
    parsing,
    pillow,
    simplejpeg,
    tables,
    tokenizers,
    torchvision,
    video,
    zarr,
)
from stoker.probe.hooks.calls import Call, Decodes
from stoker.probe.hooks.early import EarlyBound
from stoker.probe.hooks.files import Recording, time_files
from stoker.probe.hooks.patches import Patches
from stoker.probe.importing import ImportWatch

LIBRARIES = (
    *(archives, audio, h5py, network, numpy, opencv, parsing, pillow),
    *(simplejpeg, tables, tokenizers, torchvision, video, zarr),
)


class Counting(Recording, Protocol):
    """Also keeps what calls decode."""

    def counted(
        self, stage: str, function: Callable[..., Any], decodes: Decodes
    ) -> Callable[..., Any]:
        """The function; what its calls decode is kept with the stage."""
        ...


def time_libraries(recorder: Counting, patches: Patches, early: EarlyBound) -> Callable[[], None]:
    """Patch all libraries; the result ends the waiting for those that are not imported."""
    time_files(recorder, patches)
    watch = ImportWatch()
    for library in LIBRARIES:
        for name, calls in library.CALLS.items():
            watch.after(
                name, partial(_time, calls=calls, recorder=recorder, patches=patches, early=early)
            )
    watch.install()
    return watch.remove


def _time(
    module: ModuleType,
    *,
    calls: dict[str, Call],
    recorder: Counting,
    patches: Patches,
    early: EarlyBound,
) -> None:
    """Patch one module, and where user code has imported from it by name."""
    twins: dict[int, tuple[Any, Any]] = {}
    for dotted, call in calls.items():
        path, _, name = dotted.rpartition(".")
        owner: Any = getattr(module, path, None) if path else module
        original = getattr(owner, name, None)
        # Absent in this version, or patched already under another of its module's names.
        if not callable(original) or hasattr(original, "__stoker_timed__"):
            continue
        timed = patches.timed(call.stage, original)
        if call.path is not None:
            timed = _noting(timed, call.path, recorder)
        if call.decodes is not None:
            timed = recorder.counted(call.stage, timed, call.decodes)
        is_set = patches.attribute(owner, name, timed, stage=call.stage)
        if is_set and owner is module:
            twins[id(original)] = (original, timed)
    early.learn(twins)


def _noting(timed: Callable[..., Any], position: int, recorder: Recording) -> Callable[..., Any]:
    """Note the file that a call names, too."""

    @wraps(timed)
    def call(*args: Any, **kwargs: Any) -> Any:
        if recorder.is_inside and len(args) > position:
            name = args[position]
            if isinstance(name, str | os.PathLike):
                recorder.note_file(os.fspath(name), _size(name))
        return timed(*args, **kwargs)

    return call


def _size(path: str | os.PathLike[str]) -> int | None:
    try:
        return os.stat(path).st_size  # noqa: PTH116 - a path of any kind, one call
    except OSError:
        return None
