"""Batches whose samples are all alike: each written straight into its row by whoever makes it.

What `default_collate` makes of a batch is known from one sample: its containers around tensors of
fixed size. Samples that it stacks in another way (texts, sizes that differ) have no rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from stoker.containers import leaves, mapped
from stoker.loader.processes.block import Bytes, aligned

_NUMBERS = (bool, int, float, np.number, np.bool_)


class Misfit(Exception):  # noqa: N818 - no failure: the batch is made in another way
    """A sample is not like the first one."""


class Layout(NamedTuple):
    """What a sample looks like, and what default_collate makes of a batch of one.

    The prototype's tensors have no numbers, only sizes and types (device "meta").
    """

    signature: Any
    prototype: Any
    are_tensors: tuple[bool, ...]


def layout_of(sample: Any) -> Layout | None:
    """The layout of batches of such samples; None when they have no rows."""
    try:
        signature, parts = _taken_apart(sample)
        prototype = torch.utils.data.default_collate([sample])
    except Exception:  # noqa: BLE001 - what can't be collated is told by the batch itself
        return None
    collated = list(leaves(prototype))
    is_stacked = len(collated) == len(parts) and all(
        type(leaf) is torch.Tensor and leaf.shape == (1, *np.shape(part)) and leaf.numel()
        for leaf, part in zip(collated, parts, strict=True)
    )
    are_tensors = tuple(isinstance(part, torch.Tensor) for part in parts)
    if not is_stacked:
        return None
    return Layout(signature, mapped(prototype, lambda leaf: leaf.to("meta")), are_tensors)


class Rows:
    """The rows of one batch in a block, from `start` on."""

    def __init__(self, root: Bytes, start: int, layout: Layout, count: int) -> None:
        self._layout = layout
        self._fields: list[Any] = []
        for leaf in leaves(layout.prototype):
            start = aligned(start)
            stop = start + leaf.nbytes * count
            field = torch.from_numpy(root[start:stop]).view(leaf.dtype)
            self._fields.append(field.view(count, *leaf.shape[1:]))
            start = stop
        # torch takes tensors, NumPy arrays and numbers, each without a detour.
        self._targets = [
            field if is_tensor else field.numpy()
            for field, is_tensor in zip(self._fields, layout.are_tensors, strict=True)
        ]

    def write(self, row: int, sample: Any) -> None:
        """Put a sample into its row. Raises Misfit for one that is not like the first."""
        signature, parts = _taken_apart(sample)
        if signature != self._layout.signature:
            raise Misfit
        for target, part in zip(self._targets, parts, strict=True):
            target[row] = part

    def batch(self) -> Any:
        """What default_collate would have made of the samples."""
        fields = iter(self._fields)
        return mapped(self._layout.prototype, lambda _: next(fields))


def bytes_of(layout: Layout, count: int, start: int) -> int:
    """Where in a block the rows of a batch end."""
    for leaf in leaves(layout.prototype):
        start = aligned(start) + leaf.nbytes * count
    return start


def _taken_apart(sample: Any) -> tuple[Any, list[Any]]:
    """What kind of sample it is, comparable, and its arrays and numbers in order."""
    parts: list[Any] = []
    return _signature(sample, parts), parts


def _signature(value: Any, parts: list[Any]) -> Any:
    kind = type(value)
    if isinstance(value, torch.Tensor):
        if value.requires_grad or value.layout is not torch.strided or value.device.type != "cpu":
            raise Misfit
        parts.append(value)
        return kind, value.dtype, tuple(value.shape)
    if isinstance(value, np.ndarray):
        parts.append(value)
        return kind, value.dtype.str, value.shape
    if isinstance(value, _NUMBERS):
        parts.append(value)
        return kind, None, ()
    if isinstance(value, Mapping):
        return kind, tuple((key, _signature(item, parts)) for key, item in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return kind, tuple(_signature(item, parts) for item in value)
    raise Misfit
