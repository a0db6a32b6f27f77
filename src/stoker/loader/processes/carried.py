"""Objects that cross to another process through a block: what is large is not pickled, but placed.

Tensors and arrays, at any depth of any object, lie in the block as they are; the rest is a pickle
(protocol 5, PEP 574) beside them.
"""

from __future__ import annotations

import io
import pickle
from typing import Any, NamedTuple

import numpy as np
import torch

from stoker.loader.processes.block import Arena, Bytes, cut


class Place(NamedTuple):
    """Where in a block an object lies."""

    offset: int
    length: int


def put(value: Any, arena: Arena) -> Place:
    """Write an object into the arena. Raises what pickling it raises."""
    places: list[tuple[int, int]] = []

    def place(buffer: pickle.PickleBuffer) -> None:
        raw = buffer.raw()
        places.append(arena.put(raw) if raw.nbytes else (0, 0))

    stream = io.BytesIO()
    _Pickler(stream, protocol=5, buffer_callback=place).dump(value)
    head = pickle.dumps((places, stream.getvalue()), protocol=5)
    return Place(*arena.put(head))


def get(root: Bytes, place: Place) -> Any:
    """The object; its tensors and arrays are views of `root`, and keep it."""
    head = root[place.offset : place.offset + place.length]
    places, skeleton = pickle.loads(head.data)
    return pickle.loads(skeleton, buffers=cut(root, places))


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        if type(value) is not torch.Tensor or not _is_plain(value):
            return NotImplemented
        dense = value if _is_dense(value) else value.contiguous()
        flat = dense.as_strided((dense.numel(),), (1,)).view(torch.uint8).numpy()
        what = dense.dtype, tuple(dense.shape), dense.stride()
        return _tensor, (pickle.PickleBuffer(flat), *what)


def _tensor(data: Any, dtype: Any, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
    flat = torch.from_numpy(np.frombuffer(data, np.uint8))
    return flat.view(dtype).as_strided(shape, strides)


def _is_plain(tensor: Any) -> bool:
    """False for what has more to it than its numbers: that is left to torch's own pickling."""
    return (
        tensor.device.type == "cpu"
        and tensor.layout is torch.strided
        and not tensor.requires_grad
        and not tensor.is_quantized
        and not tensor.is_conj()
        and not tensor.is_neg()
        and tensor.numel() > 0
        and not tensor.__dict__
    )


def _is_dense(tensor: Any) -> bool:
    """True when its numbers fill their memory without gaps or overlaps, in any order."""
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size != 1:
            if stride != expected:
                return False
            expected *= size
    return True
