"""Which ATen operators are which kind of work, and how much of it one call does.

Tables and arithmetic on shapes; torch is not needed here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stoker.records.zoo import Operations, Work

_NORMS = {
    "native_batch_norm": Work.BATCH_NORM,
    "cudnn_batch_norm": Work.BATCH_NORM,
    "_batch_norm_with_update": Work.BATCH_NORM,
    "_native_batch_norm_legit": Work.BATCH_NORM,
    "_native_batch_norm_legit_functional": Work.BATCH_NORM,
    "_native_batch_norm_legit_no_training": Work.BATCH_NORM,
    "native_layer_norm": Work.LAYER_NORM,
    "_fused_rms_norm": Work.LAYER_NORM,
    "native_group_norm": Work.GROUP_NORM,
}
_ACTIVATIONS = frozenset(
    {
        "elu",
        "gelu",
        "hardsigmoid",
        "hardswish",
        "hardtanh",
        "leaky_relu",
        "mish",
        "relu",
        "sigmoid",
        "silu",
        "softplus",
        "tanh",
    }
)
_ELEMENTWISE = frozenset(
    {
        "add",
        "addcmul",
        "clamp",
        "div",
        "exp",
        "maximum",
        "minimum",
        "mul",
        "neg",
        "pow",
        "rsqrt",
        "rsub",
        "sqrt",
        "sub",
    }
)
_SOFTMAX = frozenset(
    {
        "_log_softmax",
        "_safe_softmax",
        "_softmax",
    }
)
_REDUCTIONS = frozenset(
    {
        "amax",
        "linalg_vector_norm",
        "mean",
        "std_mean",
        "sum",
        "var",
        "var_mean",
    }
)
_COPIES = frozenset(
    {
        "_to_copy",
        "cat",
        "clone",
        "col2im",
        "constant_pad_nd",
        "copy",
        "im2col",
        "index",
        "pixel_shuffle",
        "reflection_pad2d",
        "repeat",
        "roll",
        "stack",
        "upsample_bicubic2d",
        "upsample_bilinear2d",
        "upsample_nearest2d",
    }
)
# Only the shape changes, or memory is merely set aside; embeddings read what they need of a table.
_FREE = frozenset(
    {
        "_reshape_alias",
        "_unsafe_view",
        "alias",
        "arange",
        "as_strided",
        "detach",
        "diagonal",
        "embedding",
        "empty",
        "empty_strided",
        "expand",
        "fill",
        "full",
        "lift_fresh",
        "movedim",
        "narrow",
        "new_empty",
        "new_full",
        "new_zeros",
        "normal",
        "ones",
        "permute",
        "real",
        "scalar_tensor",
        "select",
        "slice",
        "split",
        "split_with_sizes",
        "squeeze",
        "t",
        "transpose",
        "unbind",
        "unfold",
        "uniform",
        "unsafe_split",
        "unsqueeze",
        "view",
        "zero",
        "zeros",
    }
)


def elements(value: Any) -> float:
    """Elements of a tensor, or of all tensors of a list."""
    if hasattr(value, "numel"):
        return float(value.numel())
    if isinstance(value, list | tuple):
        return sum(elements(one) for one in value)
    return 0.0


def _convolution(args: Sequence[Any], out: Any) -> tuple[Work, Operations]:
    image, weight, groups = args[0], args[1], args[8]
    if groups > 1:
        work = Work.DEPTHWISE if groups >= image.shape[1] else Work.GROUPED
    else:
        work = Work.POINTWISE if all(size == 1 for size in weight.shape[2:]) else Work.CONV
    macs = elements(out) * elements(weight[0])
    if args[6]:  # transposed: every input element meets the kernel once
        macs = elements(image) * elements(weight[0])
    return work, Operations(macs, elements(image), elements(out), 1)


def classify(name: str, args: Sequence[Any], out: Any) -> tuple[Work, Operations] | None:
    """The kind and the counts of one ATen operation; None where nothing is computed or moved."""
    plain = name.rstrip("_")
    if plain in _FREE or plain.endswith("_like"):
        return None
    if plain in ("convolution", "_convolution", "cudnn_convolution"):
        return _convolution(args, out)
    if plain in ("mm", "addmm"):
        left, right = args[-2:] if plain == "addmm" else args[:2]
        macs = elements(left) * right.shape[1]
        return Work.LINEAR, Operations(macs, elements(left), elements(out), 1)
    if plain in ("bmm", "baddbmm"):
        left, right = args[-2:] if plain == "baddbmm" else args[:2]
        macs = elements(left) * right.shape[2]
        return Work.MATMUL, Operations(macs, elements(left) + elements(right), elements(out), 1)
    if plain in _NORMS:
        return _NORMS[plain], Operations(0, elements(args[0]), elements(out[0]), 1)
    if "pool" in plain:
        first = out[0] if isinstance(out, list | tuple) else out
        return Work.POOL, Operations(0, elements(args[0]), elements(first), 1)
    read = elements([one for one in args if hasattr(one, "numel") or isinstance(one, list)])
    for work, names in (
        (Work.ACTIVATION, _ACTIVATIONS),
        (Work.ELEMENTWISE, _ELEMENTWISE),
        (Work.SOFTMAX, _SOFTMAX),
        (Work.REDUCE, _REDUCTIONS),
        (Work.COPY, _COPIES),
    ):
        if plain in names:
            return work, Operations(0, read, elements(out), 1)
    return Work.OTHER, Operations(0, read, elements(out), 1)
