"""What was concluded: the verdict with its evidence, the ledger, ranked fixes and don'ts.

A Diagnosis as JSON is the file that report, run, pack, predict and plan read.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from stoker.records.profile import Environment, HostTruth, Profile, Script, StageTime
from stoker.stats import Spread

SCHEMA = "stoker.diagnosis/1"


class _Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Shared settings only: frozen and strict about unknown keys."""


class VerdictCode(StrEnum):
    """What limits the run."""

    SERIAL_LOADER = "serial-loader"
    TOO_FEW_WORKERS = "too-few-workers"
    CPU_SATURATED = "cpu-saturated"
    STORAGE_BOUND = "storage-bound"
    READ_AMPLIFICATION = "read-amplification"
    CPU_ALLOCATION = "cpu-allocation"
    OVERSUBSCRIBED = "oversubscribed"
    PER_ITEM_OVERHEAD = "per-item-overhead"
    HANDOFF_BOUND = "handoff-bound"
    EPOCH_BOUNDARY = "epoch-boundary"
    VARIANCE_STALLS = "variance-stalls"
    DELIVERY_BOUND = "delivery-bound"
    HOST_SYNC = "host-sync"
    HOST_WORK = "host-work"
    VALIDATION_PHASE = "validation-phase"
    MEMORY_RISK = "memory-risk"
    DEVICE_BOUND = "device-bound"
    OVERHEAD_BOUND = "overhead-bound"
    DEVICE_DRIFT = "device-drift"
    PEER_RANK = "peer-rank"
    INCONCLUSIVE = "inconclusive"


class FixCode(StrEnum):
    """What can be done about it; the last four appear as don'ts only."""

    OVERLAP = "overlap"
    WORKERS = "workers"
    FEWER_WORKERS = "fewer-workers"
    PACK = "pack"
    REDUCED_DECODE = "reduced-decode"
    CACHE_RAM = "cache-ram"
    CACHE_LOCAL = "cache-local"
    SHARD = "shard"
    DEVICE_AUGMENT = "device-augment"
    REPLACE_OP = "replace-op"
    BATCHED_FETCH = "batched-fetch"
    VECTORISE_COLLATE = "vectorise-collate"
    PERSISTENT_WORKERS = "persistent-workers"
    NATIVE_THREADS = "native-threads"
    CPU_ALLOCATION = "cpu-allocation"
    RESTORE_AFFINITY = "restore-affinity"
    REOPEN_HANDLE = "reopen-handle"
    RECHUNK = "rechunk"
    ACCESS_PATTERN = "access-pattern"
    PREFETCH_DEPTH = "prefetch-depth"
    UNORDERED = "unordered"
    SYNC_LESS = "sync-less"
    HOST_WORK_LESS = "host-work-less"
    METRIC_ON_DEVICE = "metric-on-device"
    PINNED_ASYNC = "pinned-async"
    SMALLER_PAYLOAD = "smaller-payload"
    FLAT_STORAGE = "flat-storage"
    SHM_SIZE = "shm-size"
    ALLOCATOR = "allocator"
    LARGER_BATCH = "larger-batch"
    GRAPH_CAPTURE = "graph-capture"
    CHECK_CLOCKS = "check-clocks"
    CHECK_PEER = "check-peer"
    NONE = "none"
    SMALLER_MODEL = "smaller-model"
    LOWER_RESOLUTION = "lower-resolution"
    FASTER_ACCELERATOR = "faster-accelerator"
    BIGGER_BATCH = "bigger-batch"


class Part(StrEnum):
    """The parts of a step; they add up to the whole."""

    DEVICE = "device"
    TRANSFER = "transfer"
    CONTENTION = "contention"
    SERIAL = "serial"
    RATE_DEFICIT = "rate-deficit"
    EPOCH_EDGE = "epoch-edge"
    JITTER = "jitter"


class LedgerRow(_Record, frozen=True, kw_only=True):
    """Seconds of one step, with the interval and the leg that established them."""

    part: Part
    seconds: float
    low: float
    high: float
    leg: str


class Evidence(_Record, frozen=True, kw_only=True):
    """One reason for the verdict: what was claimed, measured, compared with, from which leg."""

    claim: str
    measured: Spread
    unit: str
    compared_with: str
    leg: str


class Verdict(_Record, frozen=True, kw_only=True):
    """What limits the run, in a word and in a sentence."""

    code: VerdictCode
    sentence: str
    lost_share: Spread
    kind: str | None = None
    evidence: tuple[Evidence, ...] = ()
    secondary: tuple[VerdictCode, ...] = ()


class Step(_Record, frozen=True, kw_only=True):
    """The step times of the legs, in seconds; null where a leg was not run."""

    real_s: float | None
    real_median_s: float | None
    device_s: float | None
    host_s: float | None
    contended_s: float | None
    loader_s: float | None
    au: float | None
    batch_size: int | None
    samples_per_s: float | None = None


class Symptom(_Record, frozen=True, kw_only=True):
    """The two numbers that people see first; neither is proof."""

    host_cpu_busy_of_owned: float | None
    device_busy_reported: float | None
    sentence: str = ""


class HostSummary(HostTruth, frozen=True, kw_only=True):
    """Host truth, with what the device's pace would need."""

    cores_needed: float | None = None


class RankedFix(_Record, frozen=True, kw_only=True):
    """A fix with the gain it promises and what it costs.

    speedup null: no promise, for the reason `withheld` gives; empty, the interval is too wide.
    Memory is more than now, disk is taken once, minutes are until it is made; each a forecast, null
    where it costs none or nobody knows.
    """

    code: FixCode
    title: str
    speedup: Spread | None
    how: str
    costs: str
    measured: Spread | None = None
    preconditions: tuple[str, ...] = ()
    effort: int = 1  # 1 a setting, 2 a few lines, 3 a change of data or machine
    withheld: str = ""
    memory_bytes: int | None = None
    disk_bytes: int | None = None
    minutes: float | None = None


class Dont(_Record, frozen=True, kw_only=True):
    """What people try first and what it would give here.

    `step_s`: wall time for as many samples as one step takes now; `au`: the device in use then.
    """

    code: FixCode
    speedup: Spread | None
    why: str
    step_s: Spread | None = None
    au: Spread | None = None


class CoresAfter(_Record, frozen=True, kw_only=True):
    """Cores for one accelerator after a rung of the ladder; None: as it is."""

    after: FixCode | None
    cores: Spread


# The source of a pace that no accelerator of the zoo stands behind.
SUPPOSED = "supposed"


class CoresOn(_Record, frozen=True, kw_only=True):
    """Cores for one accelerator of a pace: now, and after each rung.

    `times`: how many times as fast as the present one; `irreducible`: what the random part of the
    work alone takes; `hosts`: physical cores for each accelerator of the zoo's hosts with it,
    median and range. None where they are not known.
    """

    accelerator: str
    title: str
    times: Spread
    source: str
    step_s: Spread
    rows: tuple[CoresAfter, ...]
    irreducible: Spread | None = None
    hosts: Spread | None = None


class Capacity(_Record, frozen=True, kw_only=True):
    """How many cores one accelerator of this workload needs; the present one first in `table`."""

    cores_per_accelerator: float | None
    sentence: str
    table: tuple[CoresOn, ...] = ()
    irreducible: str = ""  # what stays on the host whatever is stored


class Rung(_Record, frozen=True, kw_only=True):
    """A rung: this fix on top of all before it; `speedup` is over the run as it is."""

    code: FixCode
    title: str
    step_s: Spread
    speedup: Spread
    cores_per_accelerator: float


class Outlook(_Record, frozen=True, kw_only=True):
    """Fixes together: how far each rung leads, and the few that do most."""

    ladder: tuple[Rung, ...]
    ceiling_s: Spread  # the device's own step, which no rung goes below
    together: tuple[FixCode, ...]
    sentence: str
    irreducible: str = ""  # what stays on the host whatever is stored


class Tried(_Record, frozen=True, kw_only=True):
    """A candidate of `--try`, judged; `is_tied` with the best one, as far as could be told."""

    name: str
    step_s: Spread | None
    speedup: Spread | None
    is_tied: bool
    memory_bytes: int | None  # more than the loop as it is; forecast for what is kept of the data
    costs: str
    skipped: str = ""


class Tryout(_Record, frozen=True, kw_only=True):
    """What trials in the script itself gave, and the cheapest of the best ones.

    `pick` is what `stoker run --apply` is given, "" where nothing is better than the loop as it is;
    `unsure` names those that might be, and were not seen for long enough.
    """

    baseline_s: Spread | None
    rows: tuple[Tried, ...]
    pick: str
    sentence: str
    unsure: tuple[str, ...] = ()


class Diagnosis(_Record, frozen=True, kw_only=True):
    """The whole answer of `stoker doctor`."""

    schema: str = SCHEMA
    script: Script
    symptom: Symptom
    verdict: Verdict
    step: Step
    ledger: tuple[LedgerRow, ...]
    stages: tuple[StageTime, ...]
    host: HostSummary
    fixes: tuple[RankedFix, ...]
    dont: tuple[Dont, ...]
    capacity: Capacity
    profile: Profile
    environment: Environment
    outlook: Outlook | None = None
    tryout: Tryout | None = None
