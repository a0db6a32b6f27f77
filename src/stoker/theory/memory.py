"""How much device memory a step needs: weights, gradients, optimizer state and activations.

What the backward pass needs is kept from the forward pass, by kind of operation. Checked against
760 batches that a 24 GB device took and the next larger ones that it refused: 84 % of the former
fit and 82 % of the latter don't (tests/accuracy).
"""

from __future__ import annotations

from collections.abc import Mapping

from stoker.records.zoo import Layers, Model, Operations, Precision, Work
from stoker.theory.cases import STATE_BYTES, TEXT_BYTES, WIDTH, operations_of
from stoker.theory.constants import fitted
from stoker.theory.roofline import MATRIX

# Elements kept for each element read (written, for softmax). Convolutions and products keep their
# inputs; normalisation keeps its own, layer normalisation in 32 bits under autocast. Softmax keeps
# its result, dropout a mask of one byte, pooling half as much for its indices and inputs.
_READ_KEPT: Mapping[Work, float] = {
    **dict.fromkeys(MATRIX, 1.0),
    Work.BATCH_NORM: 1.0,
    Work.GROUP_NORM: 1.0,
    Work.LAYER_NORM: 2.0,
    Work.DROPOUT: 0.5,
    Work.POOL: 0.5,
}
# ReLU works in place and its result is the next input; SiLU and GELU keep their own input. Which of
# them a network has goes with its class.
_SMOOTH = (Layers.DEPTHWISE, Layers.ATTENTION)
# What the allocator can't use between blocks, and workspaces: the middle of what the 760 batches
# allow.
_FRAGMENTATION = 1.18
# The context of the device and its libraries.
_CONTEXT_BYTES = 1.2e9
# A language model that computes activations again keeps the 2 bytes of each layer's input.
_TEXT_BYTES_RECOMPUTED = 0.2
# Without gradients only neighbouring layers are alive.
_INFERENCE_SHARE = 0.1


def kept_elements(operations: Mapping[Work, Operations], layers: Layers) -> float:
    """Elements of one unit that the backward pass needs."""
    kept = sum(share * operations[w].read for w, share in _READ_KEPT.items() if w in operations)
    if Work.SOFTMAX in operations:
        kept += operations[Work.SOFTMAX].written
    if layers in _SMOOTH and Work.ACTIVATION in operations:
        kept += operations[Work.ACTIVATION].read
    return kept


def memory_bytes(
    model: Model,
    *,
    batch: float,
    precision: Precision,
    training: bool,
    accelerators: int = 1,
    is_recomputed: bool = False,
) -> float:
    """Bytes on one device for a batch of `batch` units.

    `accelerators` share weights, gradients and optimizer state; `is_recomputed`: a language model
    computes activations again in the backward pass.
    """
    parameters = 0.0 if model.parameters is None else model.parameters.value
    width = WIDTH[precision]
    state = (STATE_BYTES if training else width) * parameters / accelerators
    if model.layers is Layers.LLM:
        elements = 0.0 if model.activations is None else model.activations.value
        kept = (_TEXT_BYTES_RECOMPUTED if is_recomputed else TEXT_BYTES) * elements
    else:
        operations, _ = operations_of(model, fitted().templates)
        kept = width * kept_elements(operations, model.layers)
    if not training:
        kept *= _INFERENCE_SHARE
    return state + batch * kept * _FRAGMENTATION + _CONTEXT_BYTES
