"""A part of a sample as a pack holds it, and the same part as the Dataset gave it.

A pack knows arrays, numbers, text and bytes; a Dataset gives tensors, Pillow images, and numbers of
several libraries. What kind it was is learned from the Dataset and made again, to the last bit.
"""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stoker.errors import InputError

# Modes that a picture is the same in, turned RGB and back or kept as numbers.
_MODES = ("RGB", "L", "1", "I", "I;16", "F")
_PLAIN = (bool, int, float, str, bytes)


class Part(NamedTuple):
    """Which field of the pack holds it, and what it is for the script.

    `order`: the axes from the longest stride to the shortest; kernels choose their way by these.
    """

    field: str
    kind: str  # "picture", "array", "tensor", "number" or "plain"
    type: str
    order: tuple[int, ...] = ()

    @classmethod
    def of(cls, value: Any, field: str) -> Part:
        """What this part is. Raises InputError for a kind that can't be made again."""
        torch = sys.modules.get("torch")
        if torch is not None and type(value) is torch.Tensor:
            if value.device.type != "cpu" or value.requires_grad:
                raise _unknown(field, f"a tensor on {value.device} or with gradients")
            return cls(field, "tensor", str(value.dtype).rpartition(".")[2], _order(value.stride()))
        if type(value) is np.ndarray:
            return cls(field, "array", value.dtype.name, _order(value.strides))
        if isinstance(value, np.generic):
            return cls(field, "number", value.dtype.name)
        mode = getattr(value, "mode", None) if hasattr(value, "resize") else None
        if mode in _MODES:  # a Pillow image
            return cls(field, "picture", str(mode))
        if type(value) in _PLAIN:
            return cls(field, "plain", type(value).__name__)
        raise _unknown(
            field, f"a {type(value).__qualname__}" + (f" of mode {mode}" if mode else "")
        )

    def made(self, stored: Any) -> Any:
        """The part out of what the pack gives: array, number, str or bytes. The memory is new."""
        match self.kind:
            case "picture":
                from PIL import Image

                if self.type == "RGB":
                    return Image.fromarray(stored)
                one = stored if stored.ndim == 2 else stored[:, :, 0]  # a mask, or turned RGB
                return Image.fromarray(one.astype(bool) if self.type == "1" else one)
            case "array":
                return _laid_out(stored, self.order)
            case "tensor":
                torch = sys.modules["torch"]
                if not self.order:
                    return torch.tensor(stored.item(), dtype=getattr(torch, self.type))
                return torch.from_numpy(_laid_out(stored, self.order))
            case "number":
                return np.dtype(self.type).type(stored.item())
            case _:
                return stored if isinstance(stored, str | bytes) else _KINDS[self.type](stored)


_KINDS: dict[str, Any] = {"bool": bool, "int": int, "float": float}


def _order(strides: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(range(len(strides)), key=lambda axis: -strides[axis]))


def _laid_out(array: NDArray[Any], order: tuple[int, ...]) -> NDArray[Any]:
    """The same numbers in memory of that order."""
    if order == tuple(range(array.ndim)):
        return array
    back = np.argsort(order)
    return np.ascontiguousarray(array.transpose(order)).transpose(back)


def _unknown(field: str, what: str) -> InputError:
    return InputError(
        f"part {field!r} of a sample is {what}, which a pack can't give back as it was",
        looked_at="what the Dataset gives before its random transforms",
        run_next="use the pack in your own code: docs/pack.md",
    )
