"""What is forecast from: a machine, a workload and loader settings, measured or assumed.

Plain SI floats: seconds, bytes, bytes per second, samples per second.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from stoker.stats import Spread


class Resource(StrEnum):
    """What a stage of the pipeline uses up, or what a forecast is limited by.

    TURNS limits alone: without workers loading and the step wait for each other.
    """

    CORES = "cores"
    STORAGE = "storage"
    MEMORY = "memory"
    LINK = "link"
    ACCELERATOR = "accelerator"
    TURNS = "turns"


class StageCost(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Seconds of one resource that one stage needs for one sample.

    For CORES these are CPU-seconds. For STORAGE they are seconds in which a worker waits without
    using a core (latency and transfer of its own request).
    """

    stage: str
    resource: Resource
    per_sample: Spread
    deterministic: bool | None = None
    source: str = "measured"


class Machine(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the job owns. None means unknown, never unlimited.

    Cores and storage are the whole host's and shared alike by its accelerators; a link is one
    accelerator's own.
    """

    name: str = "this machine"
    cores: float
    accelerators: int = 1
    storage_bytes_per_s: float | None = None
    storage_reads_per_s: float | None = None
    storage_slots: int | None = None
    link_bytes_per_s: float | None = None
    memory_bytes: float | None = None


class LoaderSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How batches are produced. workers = 0: in the training process, not overlapped."""

    workers: int
    prefetch_factor: int = 2
    persistent_workers: bool = False
    transfer_overlapped: bool = False
    hand_off_s: float = 0.0  # per batch, between a worker and the training process
    receive_s: Spread = Spread.exact(0.0)  # per step, the training process taking a batch from it
    efficiency: float = 1.0  # share of its single-worker rate that each worker keeps


class Workload(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What one step needs."""

    batch_size: int
    stages: tuple[StageCost, ...]
    device_s: Spread  # the model alone, per step
    transfer_s: Spread = Spread.exact(0.0)  # exposed host-to-device copy, per step
    contention_s: Spread = Spread.exact(0.0)  # what busy workers add to the step
    epoch_edge_s: Spread = Spread.exact(0.0)  # per step, epoch boundaries spread over the steps
    training_cpu_s: Spread = Spread.exact(0.0)  # CPU of the training process, per step
    sample_bytes: float | None = None  # of one sample in a finished batch
    stored_bytes: float | None = None  # of one sample on storage
    reads: float = 1.0  # requests to storage for one sample; below 1 where shards hold many
    cached_share: float = 0.0  # of the samples, found in the page cache


class Scenario(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One machine, one workload, one way to load: what a forecast is made of."""

    machine: Machine
    workload: Workload
    loader: LoaderSettings
    basis: str = ""


class Term(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One bound of the closed form: the step can't be shorter than `seconds` of this resource."""

    name: str
    resource: Resource
    seconds: Spread


class Forecast(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a scenario gives: seconds a step, samples per second, utilisation, and the limit."""

    step_s: Spread
    samples_per_s: Spread
    au: Spread
    limit: Resource
    produce_s: Spread  # one batch from the host, when nothing waits for it
    terms: tuple[Term, ...] = ()  # every bound, the accelerator's own last
    basis: str = ""
