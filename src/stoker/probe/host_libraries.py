"""Which code, when it runs in a training step, is work of the host and launches nothing.

A picture that is written, a metric, a log: all that is known to compute on the host alone. What is
not known may launch. Standard library only.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import FrameType, ModuleType

# Packages whose calls compute, or write, on the host.
_PACKAGES = frozenset(
    {"PIL", "cv2", "numpy", "scipy", "sklearn", "skimage", "pandas", "pyarrow", "polars"}
    | {"matplotlib", "imageio", "simplejpeg", "soundfile", "librosa", "h5py", "zarr", "joblib"}
    | {"nltk", "sacrebleu", "pycocotools", "tensorboard", "wandb", "mlflow", "loguru", "tqdm"}
)
# Modules of torch itself that write what lies on the host.
_OF_TORCH = ("torch.serialization", "torch.utils.tensorboard")


def is_of_host(module: str) -> bool:
    """True for a module whose functions launch nothing on a device."""
    is_known = module.partition(".")[0] in _PACKAGES or is_of_stdlib(module)
    return is_known or module.startswith(_OF_TORCH)


def are_of_host(frames: Sequence[FrameType]) -> bool:
    """True where all of these frames are, and one at least."""
    modules = [str(frame.f_globals.get("__name__", "")) for frame in frames]
    # What torch calls to write a file is of its writing.
    outermost = next((m for m in reversed(modules) if not is_of_stdlib(m)), "")
    if outermost.startswith(_OF_TORCH):
        return True
    return bool(modules) and all(map(is_of_host, modules))


def is_of_stdlib(module: str) -> bool:
    """True for a module of Python's own library."""
    return module.partition(".")[0] in sys.stdlib_module_names


def module_of(frame: FrameType, name: str) -> str:
    """Where a global name of a frame comes from: `np` from numpy; empty for names of its own."""
    value = frame.f_globals.get(name)
    if isinstance(value, ModuleType):
        return value.__name__
    return str(getattr(value, "__module__", None) or "")
