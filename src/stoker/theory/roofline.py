"""The step-time equations, on arrays of cases at once: the fit and every forecast share them.

Networks made of layers, for a batch of B units (docs/model.md has the reasons and the sources):

    compute  C = s_c · Σ_w f_w · 6·macs_w / R            R attainable FLOP/s, never above the peak
    memory   M = s_m · Σ_w p_w · bytes_w / W             W attainable bytes/s
    update   U = u · parameters / (W · B)                training only
    ramp     L = l · calls / B                           every kernel fills and drains the device
    seconds  = ((B · (C + M + U + L))⁶ + (h · calls)⁶)^⅙ · effects    h: the host launches them

    R = P₁ / (1 + (P₁ / (κ · watts))³)^⅓                 P₁ a measured product, or the full rate
    W = W₀ / √(1 + (W₀ / (β · issue))²)                  issue = multiprocessors x clock

Language models, a token: C = N-part / (e·R) + attention part / (a·R), M = p · bytes / W.
f, p, s, l, h, u, β, e, a are constants with provenance (zoo/fit.toml); nothing here knows a rate.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from stoker.records.zoo import FLOPS_PER_MAC, TRAINING_FORWARDS, Work

Array = NDArray[np.float64]

# The work of matrix units, in the order of `Work`; the rest only moves bytes.
MATRIX = (Work.CONV, Work.POINTWISE, Work.GROUPED, Work.DEPTHWISE, Work.LINEAR, Work.MATMUL)
CONVOLUTIONS = (Work.CONV, Work.POINTWISE, Work.GROUPED, Work.DEPTHWISE)
# What fused normalisation does in one go, so that its bytes are moved fewer times.
FUSIBLE = (Work.BATCH_NORM, Work.LAYER_NORM, Work.ACTIVATION, Work.ELEMENTWISE)
# Fused attention keeps the scores, their softmax and its mask on the chip.
IN_ATTENTION = (Work.MATMUL, Work.SOFTMAX, Work.DROPOUT)
# Products reach this share of the peak where nothing but arithmetic limits them; measured products
# ("matmul_flops") are divided by it, to stand where a peak stands: A100 .87, GH200 .84, H100 .80.
MATMUL_SHARE = 0.87
# How sharply one limit takes over from another: gently for power, where clocks give way by degrees,
# at the square for memory against issue, at once for the peak itself and for a host that is late.
_POWER_SHARPNESS, _ISSUE_SHARPNESS, _HARD = 3.0, 2.0, 6.0


class Constants(Protocol):
    """Fitted numbers by name, one for each case where `labels` tell the cases apart."""

    def __call__(self, name: str, labels: Sequence[str] | None = None) -> Array:
        """The constant `name`, or `name.label` of each label; the neutral value where unknown."""
        ...


class Devices(msgspec.Struct, frozen=True, kw_only=True):
    """The accelerator of each case, at the precision of the case."""

    names: Sequence[str]
    architectures: Sequence[str]
    peak: Array  # dense FLOP/s
    full: Array  # FLOP/s of the arithmetic units: above the peak where accumulation halves it
    product: Array  # FLOP/s that a matrix product was measured to reach; nan where nobody did
    sustained: Array  # FLOP/s that the power limit allows; inf where unknown
    bandwidth: Array  # bytes/s
    issue: Array  # multiprocessors x clock, in 1/s; inf where unknown


class Networks(msgspec.Struct, frozen=True, kw_only=True):
    """The network, stack and batch of each case; counts of one forward pass of one unit."""

    names: Sequence[str]
    stacks: Sequence[str]  # whose share of compute and memory: fused, amp, fp32, tf32
    layouts: Sequence[str]  # nhwc | nchw
    frameworks: Sequence[str]  # "usual", or one that is far from the usual speed of its stack
    norms: Sequence[str]  # half | autocast: whether layer normalisation is done in 32 bits
    macs: dict[Work, Array]
    moved: dict[Work, Array]  # elements read and written
    calls: Array
    parameters: Array
    width: Array  # bytes of an element
    batch: Array
    is_compiled: Sequence[bool]  # kernels are launched from a graph
    compute_share: Array  # 1 for training; of the training work that is done otherwise
    memory_share: Array
    update: Array  # 1 where an optimizer steps


class Texts(msgspec.Struct, frozen=True, kw_only=True):
    """A language model of each case, for one token of training (or of its forward pass)."""

    names: Sequence[str]
    frameworks: Sequence[str]
    weight_flops: Array
    attention_flops: Array
    activations: Array  # elements
    is_fp8: Array
    is_recomputed: Array  # activations are computed again in the backward pass
    memory_share: Array
    update_s: Array  # of the optimizer, for a token


class Terms(NamedTuple):
    """Seconds of one unit, by what they go into; effects are multiplied in.

    `launch` is what kernels' ramps, or a host that launches them too slowly, add to the rest.
    """

    compute: Array
    memory: Array
    launch: Array
    update: Array

    @property
    def total(self) -> Array:
        """Seconds of one unit."""
        return self.compute + self.memory + self.launch + self.update


def _softer(rate: Array, limit: Array, sharpness: float) -> Array:
    """The smaller of two rates, rounded at the corner."""
    return rate / (1 + (rate / limit) ** sharpness) ** (1 / sharpness)


def _larger(one: Array, other: Array) -> Array:
    """The larger of two times that overlap, with hardly any corner."""
    return (one**_HARD + other**_HARD) ** (1 / _HARD)


def attainable_flops(devices: Devices) -> Array:
    """FLOP/s of well-shaped products at the clocks that the power limit leaves.

    A measured product already contains the power limit.
    """
    limited = _softer(devices.full, devices.sustained, _POWER_SHARPNESS)
    return np.where(np.isnan(devices.product), limited, devices.product / MATMUL_SHARE)


def attainable_bandwidth(devices: Devices, issue_bytes: Array) -> Array:
    """Bytes/s: the memory's, or what the multiprocessors keep in flight (Little's law)."""
    return _softer(devices.bandwidth, issue_bytes * devices.issue, _ISSUE_SHARPNESS)


def _effects(devices: Devices, names: Sequence[str], constants: Constants, of: str) -> Array:
    """What is left of chip families, devices and models; each shrunk towards one by the fit."""
    return (
        constants(f"effect.{of}architecture", devices.architectures)
        * constants(f"effect.{of}accelerator", devices.names)
        * constants("effect.model", names)
    )


def network_seconds(devices: Devices, networks: Networks, constants: Constants) -> Terms:
    """Seconds of one unit for networks made of layers."""
    bandwidth = attainable_bandwidth(devices, constants("issue.bytes"))
    # Eager NCHW turns every image to NHWC and back for the matrix units: copies across lines keep
    # fewer bytes in flight.
    turned = attainable_bandwidth(devices, constants("issue.turned"))
    is_nchw = np.array([layout == "nchw" for layout in networks.layouts])
    is_fused = np.array([stack == "fused" for stack in networks.stacks])
    fusion = np.where(is_fused, constants("fused.passes"), 1.0)
    in_attention = np.where(is_fused, constants("fused.attention"), 1.0)
    forwards = FLOPS_PER_MAC * TRAINING_FORWARDS
    cost = np.zeros_like(devices.peak)
    flops = np.zeros_like(devices.peak)
    memory = np.zeros_like(devices.peak)
    for work in Work:
        labels: Sequence[str] | None = None
        if work in CONVOLUTIONS:
            labels = networks.layouts
        elif work is Work.LAYER_NORM:
            labels = networks.norms
        if work in networks.macs:
            done = forwards * networks.macs[work]
            flops = flops + done
            cost = cost + constants(f"flops.{work}", labels) * done
        if work in networks.moved:
            moved = constants(f"passes.{work}", labels) * networks.moved[work] * networks.width
            way = np.where(is_nchw, turned, bandwidth) if work in CONVOLUTIONS else bandwidth
            if work in FUSIBLE:
                moved = moved * fusion
            elif work in IN_ATTENTION:
                moved = moved * in_attention
            memory = memory + moved / way
    cost = cost * constants("stack.compute", networks.stacks) / attainable_flops(devices)
    ceiling = flops / devices.peak
    compute = _larger(cost, ceiling)
    memory = memory * constants("stack.memory", networks.stacks)
    launchers = ["compiled" if compiled else "eager" for compiled in networks.is_compiled]
    calls = networks.calls / networks.batch * networks.compute_share
    update = constants("update.bytes") * networks.parameters / (bandwidth * networks.batch)
    effects = _effects(devices, networks.names, constants, "") * constants(
        "effect.framework", networks.frameworks
    )
    compute = compute * networks.compute_share * effects
    memory = memory * networks.memory_share * effects
    update = update * networks.update * effects
    busy = compute + memory + update
    device = busy + constants("ramp.seconds") * calls * effects
    host = constants("host.seconds", launchers) * calls
    return Terms(compute, memory, _larger(device, host) - busy, update)


def text_seconds(devices: Devices, texts: Texts, constants: Constants) -> Terms:
    """Seconds of one token for language models with fused attention."""
    rate = attainable_flops(devices)
    # Larger matrix units are harder to keep busy: a share is lost with each doubling of the rate.
    relative = rate / _REFERENCE_RATE
    fp8 = np.where(texts.is_fp8, constants("language.fp8"), 1.0)
    weights = (
        texts.weight_flops
        * constants("language.flops")
        * relative ** constants("exponent.flops")
        / (rate * fp8)
    )
    attention = (
        texts.attention_flops
        * constants("language.attention")
        * relative ** constants("exponent.attention")
        / rate
    )
    again = np.where(texts.is_recomputed, constants("language.recompute"), 1.0)
    bandwidth = attainable_bandwidth(devices, constants("issue.bytes"))
    memory = constants("language.passes") * 2.0 * texts.activations / bandwidth
    effects = _effects(devices, texts.names, constants, "language-") * constants(
        "effect.framework", texts.frameworks
    )
    return Terms(
        (weights + attention) * again * effects,
        memory * texts.memory_share * effects,
        np.zeros_like(rate),
        texts.update_s * effects,
    )


# The A100's dense 16-bit rate, so that the constants of language models read as at an A100.
_REFERENCE_RATE = 312e12
