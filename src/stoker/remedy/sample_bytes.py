"""A sample as bytes and back: exact, with its arrays beside the pickle, not in it.

A sample that can't be given back exactly as it was is refused. Standard library only.
"""

from __future__ import annotations

import io
import pickle
import struct
import sys
from typing import Any

_HEAD = struct.Struct("<II")  # bytes of the pickle, number of buffers
_SIZE = struct.Struct("<Q")


class NotStorable(Exception):  # noqa: N818 - it says what the sample is
    """The sample, or a part of it, can't be kept as bytes."""


class _Pickler(pickle.Pickler):
    """Tensors of plain host memory go as NumPy arrays, whose memory is copied once."""

    def reducer_override(self, value: Any) -> Any:
        torch = sys.modules.get("torch")
        if torch is None or not isinstance(value, torch.Tensor):
            return NotImplemented
        if (
            type(value) is not torch.Tensor
            or value.device.type != "cpu"
            or value.layout is not torch.strided
            or value.requires_grad
            or value.is_quantized
            or value.is_conj()
            or value.is_neg()
            or vars(value)
        ):
            raise NotStorable(f"a tensor that is not plain ({type(value).__qualname__})")
        # Permuted pictures come back with their strides: kernels choose their way by these.
        order = sorted(range(value.dim()), key=lambda axis: -value.stride(axis))
        whole = value.permute(order).contiguous()
        if value.dtype is torch.bfloat16:
            return _bfloat16, (whole.view(torch.int16).numpy(), order)
        return _tensor, (whole.numpy(), order)


def _tensor(array: Any, order: list[int]) -> Any:
    whole = sys.modules["torch"].from_numpy(array)
    return whole.permute([order.index(axis) for axis in range(len(order))])


def _bfloat16(array: Any, order: list[int]) -> Any:
    torch = sys.modules["torch"]
    return _tensor(array, order).view(torch.bfloat16)


def pack(sample: Any) -> bytes:
    """The bytes of a sample. Raises NotStorable."""
    buffers: list[pickle.PickleBuffer] = []
    text = io.BytesIO()
    try:
        _Pickler(text, protocol=5, buffer_callback=buffers.append).dump(sample)
        raws = [buffer.raw() for buffer in buffers]
    except (pickle.PicklingError, TypeError, AttributeError, ValueError, RuntimeError) as error:
        raise NotStorable(f"it can't be pickled ({error})") from error
    pickled = text.getvalue()
    sizes = b"".join(_SIZE.pack(raw.nbytes) for raw in raws)
    return b"".join((_HEAD.pack(len(pickled), len(raws)), sizes, pickled, *raws))


def unpack(data: memoryview) -> Any:
    """The sample anew: its arrays are copies that may be written to."""
    pickled, count = _HEAD.unpack_from(data)
    position = _HEAD.size + count * _SIZE.size
    sizes = [_SIZE.unpack_from(data, _HEAD.size + i * _SIZE.size)[0] for i in range(count)]
    text = data[position : position + pickled]
    position += pickled
    buffers = []
    for size in sizes:
        buffers.append(bytearray(data[position : position + size]))
        position += size
    return pickle.loads(text, buffers=buffers)
