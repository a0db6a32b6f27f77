"""What the step-time fit starts from: facts of chip families, and a prior for every constant.

A prior is a median and a log standard deviation; its reason stands beside it.
"""

from __future__ import annotations

# Facts of chip families. Lanes and the ratio of matrix to vector work follow from the makers'
# architecture whitepapers; sustained work for each joule from parts whose matrix products were
# measured (A100 253 TFLOP/s at 300 W, H100 795 at 700 W, B200 1,745 at 1,000 W: what the equation
# of the power limit needs to give these). For the rest they are assumed, so that parts rated far
# above what their power can sustain (T4, A10, L4) fall behind their peak.
ARCHITECTURES = {
    "volta": (64, 8, 0.42e12, "NVIDIA V100 whitepaper; sustained work assumed as Turing's"),
    "turing": (64, 8, 0.42e12, "NVIDIA Turing whitepaper; sustained work assumed, for a 70 W T4"),
    "ampere-ga100": (64, 16, 1.69e12, "NVIDIA A100 whitepaper; a measured product at 300 W"),
    "ampere-ga102": (
        128,
        4,
        0.50e12,
        "NVIDIA GA102 whitepaper; sustained work assumed, for an A10",
    ),
    "ada": (128, 4, 1.20e12, "NVIDIA Ada whitepaper; sustained work assumed, for an L4"),
    "hopper": (128, 14.7, 2.18e12, "NVIDIA H100 whitepaper; a measured product at 700 W"),
    "blackwell": (128, 4, 3.03e12, "NVIDIA Blackwell whitepaper; a measured product at 1,000 W"),
}

# Median and log standard deviation before any rate is seen. Passes count how often a training step
# goes over the elements that one forward pass moves.
PRIORS: dict[str, tuple[float, float]] = {
    # One over the share of the attainable rate: well-shaped products reach about 0.8.
    "flops.conv": (1.25, 0.3),
    "flops.pointwise": (1.25, 0.3),
    "flops.grouped": (3.0, 0.5),  # small matrices for each group
    "flops.depthwise": (10.0, 0.7),  # no matrix units at all
    "flops.linear": (1.2, 0.2),
    "flops.matmul": (1.8, 0.3),  # short inner dimensions
    # Forward, gradient of the input, gradient of the weights: three. NCHW adds a copy each way.
    "passes.conv.nhwc": (4.0, 0.5),
    "passes.pointwise.nhwc": (4.0, 0.5),
    "passes.grouped.nhwc": (5.0, 0.5),
    "passes.depthwise.nhwc": (8.0, 0.5),
    "passes.conv.nchw": (8.0, 0.5),
    "passes.pointwise.nchw": (8.0, 0.5),
    "passes.grouped.nchw": (8.0, 0.5),
    "passes.depthwise.nchw": (10.0, 0.5),
    "passes.linear": (3.0, 0.3),
    "passes.matmul": (4.0, 0.3),
    # Batch statistics read the input twice and write it, their gradient reads two tensors twice and
    # writes one: 8 for every 2 moved. Layer normalisation likewise; under autocast in 32 bits, with
    # casts before and after.
    "passes.batch-norm": (4.0, 0.3),
    "passes.layer-norm.half": (6.0, 0.5),
    "passes.layer-norm.autocast": (12.0, 0.7),
    "passes.group-norm": (6.0, 0.5),
    "passes.activation": (2.5, 0.3),  # 2 forward and 3 backward for every 2 moved
    "passes.elementwise": (2.2, 0.3),
    "passes.softmax": (4.0, 0.4),
    "passes.copy": (2.5, 0.3),
    "passes.pool": (3.0, 0.4),
    "passes.reduce": (2.0, 0.4),
    "passes.dropout": (2.0, 0.3),
    "passes.other": (2.0, 0.5),
    "fused.attention": (0.3, 0.4),  # scores and their softmax stay on the chip
    "fused.passes": (0.5, 0.3),  # normalisation, activation and addition in one go
    "stack.compute.fused": (1.0, 0.25),
    "stack.compute.fp32": (1.0, 0.25),
    "stack.compute.tf32": (1.0, 0.25),
    "stack.memory.fused": (1.0, 0.25),
    "stack.memory.fp32": (1.0, 0.25),
    "stack.memory.tf32": (1.0, 0.25),
    # Bytes in flight for each multiprocessor and clock (Volkov 2016, ch. 4: some 20 are sustained).
    "issue.bytes": (22.0, 0.3),
    "issue.turned": (12.0, 0.3),
    # One forward operation makes some three kernels in a training step, each with a few
    # microseconds of filling and draining; from Python each costs the host about 20 us with its
    # share of autograd and casts, from a graph about 2 us. Published batches keep the device busy,
    # so the rates hardly speak of the host.
    "ramp.seconds": (6e-6, 0.4),
    "host.seconds.eager": (60e-6, 0.1),
    "host.seconds.compiled": (6e-6, 0.1),
    "update.bytes": (24.0, 0.3),  # 16-bit and 32-bit weights, gradients, momentum: read and written
    "effect.architecture": (1.0, 0.1),
    "effect.accelerator": (1.0, 0.05),
    "effect.model": (1.0, 0.1),
    # Language models.
    "language.flops": (1.25, 0.15),
    "language.attention": (2.5, 0.3),
    "language.fp8": (1.5, 0.15),  # of the twofold rate, after casts and scalings
    "language.recompute": (1.12, 0.08),
    "language.passes": (20.0, 0.4),
    "exponent.flops": (0.05, 0.05),
    "exponent.attention": (0.3, 0.15),
    "effect.language-architecture": (1.0, 0.1),
    "effect.language-accelerator": (1.0, 0.05),
    "effect.framework.eager": (1.5, 0.5),
    "effect.framework.megatron": (0.85, 0.15),
    "effect.framework.tinygrad": (1.5, 0.5),
}
# Models whose FLOPs nobody knows: their own rates alone scale them.
FREE_EFFECT = 3.0
# Chip families whose multiprocessors the equations don't describe.
FOREIGN_EFFECT = 0.3
