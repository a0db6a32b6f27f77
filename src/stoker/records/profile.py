"""What was measured: the legs of a run, its loader, stages, host and surroundings.

Written by `probe.reading`, never by the examined process itself. Seconds and bytes throughout.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from stoker.records.storage import StoreScaling
from stoker.stats import Spread

SCHEMA = "stoker.profile/1"
# In place of a start method: a stoker.DataLoader's workers are threads of the training process.
THREADS = "threads"
# In place of a data set: a stoker.Loader reads packs and folders itself.
OWN_LOADER = "stoker.Loader"
# Where a stage is that a worker's other threads go through, as the hand-off is.
BESIDE = "beside"


class _Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Shared settings only: frozen and strict about unknown keys."""


class LegCode(StrEnum):
    """The legs of one run (docs/doctor.md has the table of what each isolates)."""

    REAL = "R"
    DEVICE = "D"
    HOST = "H"
    CONTENDED = "C"
    LOADER = "L"
    NULL = "N"
    ONE_THREAD = "T"


class End(StrEnum):
    """Why measuring ended."""

    CONVERGED = "converged"
    BUDGET = "budget"
    STEPS = "steps"
    SCRIPT_ENDED = "script-ended"
    INTERRUPTED = "interrupted"
    CRASHED = "crashed"
    PROBE_FAILED = "probe-failed"
    NOT_KEPT = "not-kept"


class Leg(_Record, frozen=True, kw_only=True):
    """One leg: the mean period of a step under it.

    For L and N `period` is the mean time in which the batches of a step are finished. `drain` is,
    for C, the same of the loader while the step runs beside it. `cpu_s` is CPU time a step of all
    workers (of the loading thread where there are none), `main_cpu_s` that of the training process.
    """

    code: LegCode
    period: Spread
    middle: float
    steps: int
    windows: int
    workers: int
    drain: Spread | None = None
    cpu_s: Spread | None = None
    runqueue_s: Spread | None = None
    main_cpu_s: Spread | None = None
    discarded: int = 0
    drift: float | None = None  # last window's median over the first one's
    start_s: float = 0.0  # L and N: until the first round was there, start of workers included


class EpochFacts(_Record, frozen=True, kw_only=True):
    """Epoch boundaries: what one costs beyond a step inside an epoch, spread over its batches."""

    batches: int | None  # of one epoch; None when the loader has no length
    boundaries: int  # seen while measuring
    edge_s: Spread | None  # of one boundary, validation not included
    start_s: float  # from iter(loader) to its first batch, mean
    validation_s: float = 0.0  # of one boundary, other loaders than the training loader
    mid_validation_s: float = 0.0  # of one batch, other loaders in mid-epoch spread over all
    extrapolated: bool = False  # no boundary was seen: the first epoch's start stands in


class LoaderFacts(_Record, frozen=True, kw_only=True):
    """The training loader as the script made it; `workers` are processes or threads."""

    workers: int
    batch_size: int
    batches_per_step: float = 1.0
    prefetch_factor: int | None = None
    persistent_workers: bool = False
    pin_memory: bool = False
    start_method: str | None = None  # of worker processes; THREADS where it has none
    dataset: str = ""
    iterable: bool = False
    watched: str | None = None  # its name, where it is no loader but marked by stoker.watch
    batch_bytes: int = 0
    batch_objects: int = 0
    samples: int | None = None  # of the data set; None when it has no length
    others: int = 0  # loaders beside the training loader
    # dataset[i] given twice with other random seeds: equal bytes? None: not tried.
    deterministic: bool | None = None
    # Bytes of the files read for a sample over the sample's own, where files hold many samples.
    read_amplification: float | None = None
    native_threads: int | None = None  # of all workers together
    in_order: bool = True  # batches reach the loop in the order of their indices
    random_share: float | None = None  # of the time of a sample, from the first random op on
    random_op: str | None = None  # the first operation whose result other seeds change
    cut: str | None = None  # the transforms by name: packed once, every epoch's, the device's
    packed_bytes: float | None = None  # of a sample where it is cut, as a raw pack keeps it
    sample_s: float | None = None  # one sample, in the training process
    collate_s: float | None = None  # putting one batch together


class Place(_Record, frozen=True, kw_only=True):
    """A line of the script where the training thread spent a share of the step."""

    file: str
    line: int
    function: str
    state: str
    share: float


class StepInside(_Record, frozen=True, kw_only=True):
    """Leg P: where the training thread is inside a step, as shares of it.

    `python`: on a core in the script's own code, or in a library that works on the host alone for
    it (a picture that is written); `library`: on a core in another one; `read_back`: until a result
    of the device is there, on a core or off it; `collective`: in torch.distributed; `blocked`: off
    its core, or waiting for an emulated device to take more.
    """

    samples: int
    python: float = 0.0
    library: float = 0.0
    read_back: float = 0.0
    collective: float = 0.0
    blocked: float = 0.0
    places: tuple[Place, ...] = ()


class StepBySize(_Record, frozen=True, kw_only=True):
    """Leg F: a step on kept batches that are whole, and on the first halves of them, in turn.

    `whole` and `half` are seconds of a step, `samples` and `half_samples` what it takes in.
    """

    samples: int
    half_samples: int
    whole: Spread
    half: Spread


class MemoryGrowth(_Record, frozen=True, kw_only=True):
    """Memory of the workers that nobody shares with them, and how it grows."""

    unique_bytes: int  # of all workers, when last seen
    bytes_per_batch: float
    main_bytes: int  # of the training process; a worker's copies end there
    batches: int  # taken when last seen
    lately: float | None = None  # growth in the last window of leg R over that in the first


class Trial(_Record, frozen=True, kw_only=True):
    """A paired trial: the script itself, with and without one change, in turn."""

    what: str  # "workers"
    value: int
    baseline: Spread  # seconds a step
    variant: Spread
    speedup: Spread


class CandidateTrial(_Record, frozen=True, kw_only=True):
    """A configuration of the loader under `--try`, in turn with the loop as it is.

    `name` is what `stoker run --apply` is given. The times are seconds of a step, with its share
    of the beginning of an epoch where `epochs_seen`; null where `skipped` says why.
    """

    name: str
    workers: int = 0
    depth: int = 0  # batches that may lie ready
    baseline: Spread | None = None
    step: Spread | None = None
    speedup: Spread | None = None
    steps: int = 0
    epochs_seen: bool = False
    more_bytes: int | None = None  # of memory that only its workers hold, than the script's own
    kept_bytes: int = 0  # forecast: what it would keep in memory of the whole data set
    data: str = ""  # what it means for samples and their order
    unfit: str = ""  # why `stoker run` could not apply it
    skipped: str = ""


class BatchTimes(_Record, frozen=True, kw_only=True):
    """What single batches cost one worker: the wall seconds of each, in their order.

    Of a loader of the script's own arguments and number of workers, alone (leg L) and beside the
    step (leg C).
    """

    workers: int
    seconds: tuple[float, ...]


class StageTime(_Record, frozen=True, kw_only=True):
    """One stage of loading, per sample: exclusive wall, CPU, run-queue and blocked time.

    `where`: in the "worker", in the "main" process, or BESIDE the making of samples.
    `deterministic`: it gives the same under any random seed, so that it could be stored; None where
    that is not known.
    """

    stage: str
    where: str
    wall_s: float
    cpu_s: float
    blocked_s: float
    runqueue_s: float
    calls: float
    deterministic: bool | None = None


class StageScaling(_Record, frozen=True, kw_only=True):
    """The stages with another number of workers than the script's, where those are faster."""

    workers: int
    stages: tuple[StageTime, ...]


class Unit(StrEnum):
    """What is counted of what stages decode."""

    FRAME = "frame"  # of a video
    AUDIO_FRAME = "audio-frame"  # a value of each channel
    ROW = "row"  # of a table, or of an array along its first axis
    PIXEL = "pixel"  # of pictures


class Decoded(_Record, frozen=True, kw_only=True):
    """What stages decode for a sample and what of it is used, in one unit; means of leg S.

    Used are the pixels and frames that a finished batch holds, by the shapes of its arrays; of a
    table the rows that its bytes would fill, at least one; of a chunked array the rows that were
    asked for. None: the batch holds nothing that looks like it.
    """

    unit: Unit
    stages: tuple[str, ...]
    decoded: float
    used: float | None = None

    @property
    def times(self) -> float | None:
        """Decoded over used; None where that is not known."""
        return self.decoded / self.used if self.used else None


class SampleCost(_Record, frozen=True, kw_only=True):
    """What one sample cost; `path` and `size` of the file that it came from, if it was one.

    `stage`: the one that took the most of it; `pixels` of the pictures that were decoded for it.
    """

    index: int | str | None
    wall_s: float
    cpu_s: float
    path: str | None = None
    size: int | None = None
    stage: str | None = None
    pixels: int | None = None


class CostTrend(_Record, frozen=True, kw_only=True):
    """What the cost of a sample goes with, over the samples that leg S timed.

    Of bytes and pixels only the one that explains it better has a number. `per_file_s` alone: files
    that differ much in size cost the same.
    """

    samples: int
    spread: float  # 90th percentile over the median
    median_s: float | None = None
    per_file_s: float | None = None  # of its cost, whatever the file's size
    per_byte_s: float | None = None
    per_pixel_s: float | None = None
    index_share: float | None = None  # more at the last indices than at the first, over the median


class ReadCost(_Record, frozen=True, kw_only=True):
    """Leg Q: reads of the files that the loader itself opened.

    Where the loader hardly waits and its files are in memory they were only looked at.
    """

    files: int
    bytes_per_read: float
    cold_s: Spread | None
    warm_s: Spread | None
    open_s: float | None = None
    latency_s: float | None = None
    bytes_per_s: float | None = None
    resident_share: float | None = None  # of their bytes in the page cache, as found
    store: StoreScaling | None = None  # how the rate of cold reads moves with readers and time
    never_cold: str | None = None  # why nothing could be read cold


class HostTruth(_Record, frozen=True, kw_only=True):
    """What the job really owns, and how busy it was."""

    cores_owned: float
    affinity: int
    worker_affinity: int | None = None  # CPUs that the loader's workers may use together
    quota: float | None = None
    scheduler: str | None = None
    ranks: int = 1
    cpus_online: int = 1
    shm_bytes: int | None = None
    shm_free_bytes: int | None = None
    shm_needed_bytes: int | None = None
    memory_limit_bytes: int | None = None
    memory_available_bytes: int | None = None
    throttled_s: float = 0.0
    throttled_share: float = 0.0
    busy_of_owned: float | None = None  # under leg R
    foreign_cores: float | None = None  # that other processes kept busy under leg L
    read_bytes: int | None = None
    rchar_bytes: int | None = None


class DeviceFacts(_Record, frozen=True, kw_only=True):
    """What a device said of itself, seconds a step; a utilisation is a symptom, not a proof.

    Without work: of a CUDA device from the end of a step to the next batch, of an emulated one at
    any time.
    """

    idle_s: Spread | None = None  # leg R: without work
    idle_alone_s: Spread | None = None  # leg D: without work
    behind_s: Spread | None = None  # leg D, CUDA: the host's launches of a step over, to their end
    busy_reported: float | None = None  # leg R: share of the time with any kernel running (NVML)
    clock_share: float | None = None  # of the highest clock, legs R and D
    slowed_by: tuple[str, ...] = ()  # what held the clock down


class Outside(_Record, frozen=True, kw_only=True):
    """A line of the script where its thread spent a share of the loop's time."""

    file: str
    line: int
    function: str
    share: float


class Gap(_Record, frozen=True, kw_only=True):
    """A loop in which no loader was found: what it does between its steps."""

    seconds: Spread  # a step, from the optimizer's step to the next forward pass
    samples: int  # of the training thread's stack
    outside: float  # share of them that are in no forward or backward pass and no optimizer
    places: tuple[Outside, ...] = ()  # of those, where most were


class RankFacts(_Record, frozen=True, kw_only=True):
    """One rank of several, as it measured itself."""

    rank: int
    real_s: float
    device_s: float | None
    loader_s: float | None
    wait_s: float | None = None


class Environment(_Record, frozen=True, kw_only=True):
    """Where it was measured, and what measuring cost."""

    stoker: str
    python: str
    machine: str
    versions: dict[str, str] = {}
    device: str = "cpu"
    emulated: bool = False
    world: int = 1  # processes that train together
    writes: str = "allowed"  # allowed | overlay | no-op
    warmup_discarded: int = 0
    overhead_share: float | None = None
    would_write: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Script(_Record, frozen=True, kw_only=True):
    """The examined script."""

    argv: tuple[str, ...]
    cwd: str
    sha256: str | None = None


class Profile(_Record, frozen=True, kw_only=True):
    """All that was measured in one run."""

    schema: str = SCHEMA
    script: Script
    end: End
    exit_code: int = 0
    legs: dict[str, Leg]
    scaling: tuple[Leg, ...] = ()  # L with other worker counts
    real: Spread | None = None  # mean step, epoch boundaries included
    waits: Spread | None = None  # leg R: time inside next()
    longest_wait_s: float | None = None  # leg R: the longest time inside next()
    ready_share: float | None = None  # leg R: batches that were there when asked for
    loader: LoaderFacts | None = None
    epochs: EpochFacts | None = None
    trials: tuple[Trial, ...] = ()
    candidates: tuple[CandidateTrial, ...] = ()  # of `--try`, in the order in which they were met
    inside: StepInside | None = None
    by_size: StepBySize | None = None
    memory: MemoryGrowth | None = None
    batches: BatchTimes | None = None
    stages: tuple[StageTime, ...] = ()
    stage_scaling: StageScaling | None = None
    slowest: tuple[SampleCost, ...] = ()
    trend: CostTrend | None = None
    decoded: tuple[Decoded, ...] = ()
    reads: ReadCost | None = None
    host: HostTruth
    device: DeviceFacts | None = None
    ranks: tuple[RankFacts, ...] = ()
    gap: Gap | None = None  # in place of all but leg R, where there is no loader
    environment: Environment
    spans: dict[str, Any] = {}

    def leg(self, code: LegCode) -> Leg | None:
        """The leg, or None when it was not run."""
        return self.legs.get(code)

    @property
    def worker_bytes(self) -> int | None:
        """Memory that a worker process of the run held of its own: with its copy of the data set,
        where it was started anew. None where there was none, or it was not read.
        """
        loader, memory = self.loader, self.memory
        if loader is None or memory is None or not loader.workers:
            return None
        if loader.start_method == THREADS:
            return None
        return round(memory.unique_bytes / loader.workers)
