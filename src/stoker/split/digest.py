"""Whether two values are the same to the last bit, by a digest of them.

What can't be compared never agrees, not even with itself: whoever asks then takes it for random.
Standard library only; torch is asked where the script has loaded it.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import sys
from typing import Any

from stoker.containers import parts

# Their repr says all of them.
_PLAIN = (type(None), bool, int, float, complex, str, bytes)
_NOT_COMPARABLE_BYTES = 16


def digest(value: Any) -> bytes:
    """A digest of all parts of a value: type, shape, bytes. What can't be compared never agrees."""
    state = hashlib.blake2b(digest_size=12)
    for place, part in parts(value):
        kind = type(part)
        state.update(repr((place, kind.__module__, kind.__qualname__)).encode())
        try:
            state.update(_content(part))
        except Exception:  # noqa: BLE001 - a kind of the user's own, which may raise whatever it likes
            state.update(os.urandom(_NOT_COMPARABLE_BYTES))
    return state.digest()


def _content(part: Any) -> bytes:
    """All that a leaf holds."""
    if type(part) in _PLAIN:
        return repr(part).encode()
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(part, torch.Tensor):
        return _of_tensor(part, torch)
    if hasattr(part, "numpy") and hasattr(part, "dtype"):
        part = part.numpy()
    # An array of objects holds their addresses.
    if hasattr(part, "tobytes") and not getattr(getattr(part, "dtype", None), "hasobject", False):
        about = (getattr(part, name, None) for name in ("dtype", "shape", "size", "mode"))
        pixels: bytes = part.tobytes()  # a picture may be loaded only here
        palette = part.getpalette() if hasattr(part, "getpalette") else None
        return repr((*about, palette)).encode() + pixels
    return pickle.dumps(part, protocol=5)


def _of_tensor(tensor: Any, torch: Any) -> bytes:
    """By its bytes: NumPy lacks some of torch's types, and knows no tensor that needs gradients."""
    if tensor.layout is not torch.strided or tensor.is_quantized:
        return pickle.dumps(tensor, protocol=5)
    plain = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    about = repr((str(tensor.dtype), tuple(tensor.shape))).encode()
    raw: bytes = plain.reshape(-1).view(torch.uint8).numpy().tobytes()
    return about + raw
