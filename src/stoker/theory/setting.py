"""The choices and zoo entries that one assumed run is made of, and the sizes that follow of them.

Records and what can be read off them; `assume` works a setting out.
"""

from __future__ import annotations

import math
import re

import msgspec

from stoker.errors import InputError
from stoker.records.zoo import (
    Accelerator,
    DataSet,
    Host,
    HostOp,
    Link,
    Model,
    Precision,
    Stack,
    Storage,
)

_FLOAT32 = 4
# Grey, colours, colours with transparency: no image is so few pixels high.
_CHANNELS_FIRST = (1, 3, 4)


class Setting(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One way to run one model on one host; None is unknown. `batch` counts samples."""

    model: Model
    accelerator: Accelerator
    batch: int
    workers: int
    stack: Stack | None = None
    precision: Precision | None = None
    training: bool = True
    host: Host | None = None
    cores: float | None = None  # of the whole host, over the host entry's own
    accelerators: int = 1  # that share the host
    dataset: DataSet | None = None
    ops: tuple[HostOp, ...] = ()
    cpu_s: float | None = None  # of one sample, over the operations
    stored_bytes: float | None = None  # of one sample, over the data set's
    storage: Storage | None = None
    cached: float | None = None  # share in the page cache, over the one that memory allows
    is_first_epoch: bool = False
    link: Link | None = None
    transfer_overlapped: bool = False
    prefetch_factor: int = 2
    worker_copy: Link | None = None  # a worker's writing of a finished batch
    hand_off: Link | None = None  # the training process' taking of finished batches


def pixels_of(model: Model) -> float | None:
    """Height times width of one input image, or None where the input is none."""
    sizes = _sizes(model)
    if len(sizes) == 3 and sizes[0] in _CHANNELS_FIRST:
        return float(sizes[1] * sizes[2])  # a torch module's input
    if model.unit != "image" or len(sizes) < 2:
        return None
    return float(sizes[0] * sizes[1])


def finished_bytes(setting: Setting) -> float | None:
    """Bytes of one sample in a finished batch: float32 of the model's input, or the data set's."""
    sizes = _sizes(setting.model)
    if len(sizes) >= 2:
        channels = 3 if len(sizes) == 2 else 1  # "800x800" leaves the colours out
        return float(math.prod(sizes) * channels * _FLOAT32)
    dataset = setting.dataset
    if dataset is None or dataset.sample_bytes is None:
        return None
    return dataset.sample_bytes.value * _length_share(dataset, setting.model)


def _sizes(model: Model) -> tuple[int, ...]:
    """The numbers of "224x224x3"; none for what is no array, like "seq 2048"."""
    found = re.match(r"~?(\d+(?:x\d+)+)", model.input)
    return () if found is None else tuple(int(size) for size in found[1].split("x"))


def stored_bytes(setting: Setting) -> float | None:
    """Bytes of one sample on storage, where they are known."""
    if setting.stored_bytes is not None:
        return setting.stored_bytes
    dataset = setting.dataset
    if dataset is None:
        return None
    return dataset.stored_bytes.value * _length_share(dataset, setting.model)


def _length_share(dataset: DataSet, model: Model) -> float:
    """How long the model's sequences are against those that the data set describes."""
    found = re.search(r"seq (\d+)", model.input)
    tokens = model.tokens or (int(found[1]) if found else None)
    return 1.0 if tokens is None or dataset.tokens is None else tokens / dataset.tokens


def check(setting: Setting) -> None:
    """Raises InputError naming a number that makes no sense."""
    for name, value in (
        ("the batch size", setting.batch),
        ("the number of accelerators", setting.accelerators),
        ("the number of cores", setting.cores),
        ("CPU-seconds a sample", setting.cpu_s),
        ("stored bytes a sample", setting.stored_bytes),
    ):
        if value is not None and not (0 < value < math.inf):
            raise InputError(
                f"{name} is {value}: it must be positive and finite",
                looked_at=name,
                run_next=f"give {name} as a positive number",
            )
    if setting.workers < 0:
        raise InputError(
            f"the number of workers is {setting.workers}: it can't be negative",
            looked_at="the number of workers",
            run_next="give 0 (in the training process) or more",
        )
    if setting.cached is not None and not 0 <= setting.cached <= 1:
        raise InputError(
            f"the cached share is {setting.cached}: it must lie between 0 and 1",
            looked_at="the share of samples in the page cache",
            run_next="give 0 (all from storage) to 1 (all from memory)",
        )
