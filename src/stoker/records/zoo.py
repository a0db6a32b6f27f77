"""What the zoo holds: machines, models, hosts, storage, links and host operations, with sources.

Plain SI floats: FLOP/s, bytes, bytes per second, seconds. Every number says where it is from. The
one arithmetic here is the definition 1 MAC = 2 FLOPs and what follows from it.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

# One multiply-accumulate is two floating-point operations: the only place where MACs become FLOPs.
FLOPS_PER_MAC = 2.0
# The backward pass computes a gradient for the input and one for the weights of each layer, each as
# much work as the forward pass (Hobbhahn and Sevilla, Epoch AI 2021), so a step is three of them.
TRAINING_FORWARDS = 3.0


class Kind(StrEnum):
    """How a number came to be, best first."""

    DATASHEET = "datasheet"  # the maker's own sheet, or a table collated from it
    MEASURED = "measured"  # somebody ran it and published the run
    PUBLISHED = "published"  # stated in a document, with no run behind it that can be looked at
    ESTIMATE = "estimate"  # derived, or no source was found


class Precision(StrEnum):
    """Number formats of a step's matrix work."""

    FP32 = "fp32"
    TF32 = "tf32"
    BF16 = "bf16"
    FP16 = "fp16"
    FP8 = "fp8"
    INT8 = "int8"


class Stack(StrEnum):
    """The software that runs the step; worth a factor of 2.3 for ResNet-50 on one A100."""

    FUSED = "fused"  # NHWC with fused normalisation and activation: MLPerf, MXNet, DALI
    NHWC_AMP = "nhwc-amp"  # channels_last with autocast, or XLA
    NCHW_AMP = "nchw-amp"  # PyTorch eager with autocast, default layout
    FP32 = "fp32"
    TF32 = "tf32"
    TRANSFORMER_AMP = "transformer-amp"  # encoders and vision transformers, eager with autocast
    LLM = "llm"  # flash attention with FSDP, Megatron or the like


class Layers(StrEnum):
    """The kind of layer that most of a model's activations come from."""

    CONV = "conv"
    GROUPED = "grouped"
    DEPTHWISE = "depthwise"
    ATTENTION = "attention"
    LLM = "llm"
    OTHER = "other"


class Work(StrEnum):
    """Kinds of operations: the first six do matrix work, the rest move bytes."""

    CONV = "conv"  # dense, with a kernel larger than 1
    POINTWISE = "pointwise"  # 1x1 convolution
    GROUPED = "grouped"
    DEPTHWISE = "depthwise"
    LINEAR = "linear"
    MATMUL = "matmul"  # products of two activations: attention
    BATCH_NORM = "batch-norm"
    LAYER_NORM = "layer-norm"
    GROUP_NORM = "group-norm"
    ACTIVATION = "activation"
    ELEMENTWISE = "elementwise"  # additions, products, scalings
    SOFTMAX = "softmax"
    COPY = "copy"  # concatenation, transposition, padding, shifting
    POOL = "pool"
    REDUCE = "reduce"
    DROPOUT = "dropout"
    OTHER = "other"


class Operations(msgspec.Struct, frozen=True, array_like=True):
    """What one forward pass does in operations of one kind, for one unit; `calls` for a batch."""

    macs: float
    read: float  # elements of activations
    written: float
    calls: float


class Sourced(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A number with its provenance. `checked` is the ISO date on which the source was read."""

    value: float
    kind: Kind
    source: str
    checked: str


class Accelerator(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One device. Peaks are dense, with fp32 accumulation; bandwidths are per direction."""

    name: str
    title: str
    vendor: str
    architecture: str
    aliases: tuple[str, ...] = ()
    peak_flops: dict[Precision, Sourced] = {}  # a missing one is unknown or not there
    memory_bytes: Sourced
    memory_bytes_per_s: Sourced
    power_w: Sourced | None = None
    link: str | None = None  # name of a Link
    link_bytes_per_s: Sourced | None = None
    matmul_flops: Sourced | None = None  # the most that a bf16 matrix product was measured to reach
    notes: str = ""

    def peak(self, precision: Precision) -> float | None:
        """Dense FLOP/s at a precision; None where the device lacks it or it is unknown."""
        found = self.peak_flops.get(precision)
        return None if found is None else found.value


class Model(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One network at one input size; counts are per unit (image, sequence, token, sample)."""

    name: str
    title: str
    family: str
    layers: Layers
    unit: str
    input: str
    aliases: tuple[str, ...] = ()
    parameters: Sourced | None = None
    forward_macs: Sourced | None = None
    activations: Sourced | None = None  # elements that convolutions, linears and attention put out
    tokens: int | None = None  # length of a sequence, for models counted per token or sequence
    operations: dict[Work, Operations] = {}  # counted from layer shapes; empty when nobody did
    operations_source: str = ""
    notes: str = ""

    @property
    def forward_flops(self) -> float | None:
        """FLOPs of one forward pass of one unit."""
        return None if self.forward_macs is None else FLOPS_PER_MAC * self.forward_macs.value

    @property
    def training_flops(self) -> float | None:
        """FLOPs of forward and backward of one unit."""
        forward = self.forward_flops
        return None if forward is None else TRAINING_FORWARDS * forward


class PublishedRate(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A training rate that somebody published: for comparison, never an input of a forecast."""

    model: str
    accelerator: str
    stack: Stack
    precision: Precision
    batch: int | None = None  # on each accelerator
    per_accelerator: Sourced  # units a second
    unit: str


class Host(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A machine that can be rented or bought. None means unknown, never unlimited."""

    name: str
    title: str
    provider: str
    accelerator: str | None  # name of an Accelerator
    accelerators: int
    aliases: tuple[str, ...] = ()
    vcpus: Sourced | None = None
    cores: Sourced | None = None  # physical
    processor: str = ""
    memory_bytes: Sourced | None = None
    disk_bytes: Sourced | None = None  # local NVMe
    disk_bytes_per_s: Sourced | None = None
    network_bytes_per_s: Sourced | None = None
    volume_bytes_per_s: Sourced | None = None  # most that network volumes give this host
    link: str | None = None
    usd_per_hour: Sourced | None = None
    notes: str = ""

    @property
    def cores_per_accelerator(self) -> float | None:
        """Physical cores for each accelerator."""
        return None if self.cores is None else self.cores.value / self.accelerators

    @property
    def vcpus_per_accelerator(self) -> float | None:
        """Virtual CPUs (hardware threads) for each accelerator."""
        return None if self.vcpus is None else self.vcpus.value / self.accelerators


class Storage(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A kind of storage. None means unknown, never unlimited."""

    name: str
    title: str
    aliases: tuple[str, ...] = ()
    bytes_per_s: Sourced | None = None  # sequential, all requests together
    bytes_per_s_per_request: Sourced | None = None
    reads_per_s: Sourced | None = None  # small random reads
    latency_s: Sourced | None = None  # first byte of a small read
    slots: Sourced | None = None  # requests served at once
    shared: bool = False  # between hosts
    volume: bool = False  # of one host, over the host's own link to volumes (EBS)
    notes: str = ""


class Link(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Host to device, per direction."""

    name: str
    title: str
    aliases: tuple[str, ...] = ()
    bytes_per_s: Sourced
    pinned_bytes_per_s: Sourced | None = None
    pageable_bytes_per_s: Sourced | None = None
    notes: str = ""


class Op(StrEnum):
    """What a host does to a sample."""

    DECODE = "decode"
    RESIZE = "resize"
    AUGMENT = "augment"
    NORMALISE = "normalise"
    TOKENISE = "tokenise"
    PIPELINE = "pipeline"  # the whole of a named recipe


class HostOp(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """CPU-seconds of one core for one sample of a host operation."""

    name: str
    title: str
    op: Op
    library: str
    processor: str
    input: str
    aliases: tuple[str, ...] = ()
    core_s: Sourced  # of one sample
    pixels: float | None = None  # of the input, where the cost follows pixels
    sample_bytes: float | None = None  # of the input, where the cost follows bytes
    notes: str = ""


class DataSet(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a data set's stored samples weigh.

    `feeds`: the units of models whose samples these can be, all where none are named. `tokens` of
    one sample, where its weight grows with a sequence's length.
    """

    name: str
    title: str
    aliases: tuple[str, ...] = ()
    feeds: tuple[str, ...] = ()
    tokens: int | None = None
    stored_bytes: Sourced  # of one sample, mean
    samples: Sourced | None = None
    pixels: Sourced | None = None  # of one stored image, mean
    ops: tuple[str, ...] = ()  # HostOps of the usual recipe, in order
    sample_bytes: Sourced | None = None  # of one sample in a finished batch
    notes: str = ""
