"""What a loader hands out: the fields of a batch by name."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from stoker.errors import InputError
from stoker.loader.slots import Fields


class Batch(dict[str, Any]):
    """A batch's fields: `batch["image"]` or `batch.image`.

    A real dict, because training libraries ask for one before they move a batch to a device.
    """

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(
                f"this batch has no field {name!r}; it has {', '.join(self)}"
            ) from None


def presenter(array: str) -> Callable[[Fields], Batch]:
    """From the arrays of a batch to what the loop is given: "numpy" or "torch"."""
    if array == "numpy":
        return Batch
    try:
        torch = importlib.import_module("torch")
    except ImportError as error:
        raise InputError(
            "batches of torch tensors need torch, which is not installed",
            looked_at=f"import torch: {error}",
            run_next='stoker.Loader(…, array="numpy")',
        ) from error

    def tensors(fields: Fields) -> Batch:
        batch = Batch()
        for name, field in fields.items():
            tensor = torch.from_numpy(field)
            # Channels come first for torch, in memory they stay last.
            batch[name] = tensor.permute(0, 3, 1, 2) if field.ndim == 4 else tensor
        return batch

    return tensors
