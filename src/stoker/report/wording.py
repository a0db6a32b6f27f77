"""What the codes of a diagnosis are called in a report: one phrase a code, and nothing decided."""

from __future__ import annotations

from stoker.records.diagnosis import FixCode, Part, VerdictCode
from stoker.records.profile import End, LegCode

# What a part of the step is, short enough to stand beside its numbers at 80 columns.
PARTS: dict[Part, str] = {
    Part.DEVICE: "the model alone",
    Part.TRANSFER: "copy not overlapped",
    Part.CONTENTION: "workers slow the step",
    Part.SERIAL: "loading inside the step",
    Part.RATE_DEFICIT: "loader slower than step",
    Part.EPOCH_EDGE: "starting epochs",
    Part.JITTER: "rest: order, variance",
}

# What the training loop gets under each leg.
LEGS: dict[LegCode, str] = {
    LegCode.REAL: "its own loader",
    LegCode.DEVICE: "batches kept on the device",
    LegCode.HOST: "batches kept on the host",
    LegCode.CONTENDED: "the same, workers busy",
    LegCode.LOADER: "the loader alone",
    LegCode.NULL: "the hand-off alone",
    LegCode.ONE_THREAD: "the loader, one thread each",
}

ENDS: dict[End, str] = {
    End.CONVERGED: "by itself: the intervals were narrow enough",
    End.BUDGET: "when its time was used up (--budget gives it more)",
    End.STEPS: "after the steps asked for (--steps)",
    End.SCRIPT_ENDED: "when the script ended; a longer run gives narrower intervals",
    End.INTERRUPTED: "by Ctrl-C",
    End.CRASHED: "when the script failed",
    End.PROBE_FAILED: "when the measuring itself broke; the notes say where",
    End.NOT_KEPT: "when no batch could be kept to be served again; the notes say why",
}

WRITES: dict[str, str] = {
    "allowed": "allowed: the script wrote as it always does",
    "overlay": "kept apart and thrown away",
    "no-op": "functions that save were made to do nothing",
}

EFFORTS: dict[int, str] = {1: "a setting", 2: "a few lines", 3: "a change of data or machine"}

NEITHER_IS_PROOF = (
    "Neither number is proof: busy cores may not be the ones that are waited for, and an "
    "accelerator can be “busy” while it starves. What follows was found by experiment."
)

# Where the plain code would not say what one would do.
_ACTIONS: dict[FixCode, str] = {
    FixCode.OVERLAP: "load in workers",
    FixCode.WORKERS: "more workers",
    FixCode.PACK: "pack the data set",
    FixCode.SHARD: "few large files",
    FixCode.CACHE_RAM: "cache in RAM",
    FixCode.CACHE_LOCAL: "cache on a local disk",
    FixCode.DEVICE_AUGMENT: "augment on the device",
    FixCode.LARGER_BATCH: "a larger batch",
    FixCode.SMALLER_MODEL: "a smaller model",
    FixCode.LOWER_RESOLUTION: "a lower resolution",
    FixCode.FASTER_ACCELERATOR: "a faster accelerator",
    FixCode.BIGGER_BATCH: "a bigger batch",
    FixCode.CPU_ALLOCATION: "more cores",
    FixCode.NATIVE_THREADS: "fewer native threads",
}


def action(code: FixCode) -> str:
    """What one would do, in two to four words."""
    return _ACTIONS.get(code, code.value.replace("-", " "))


def tone(code: VerdictCode) -> str:
    """Whether a verdict is good news ("good"), a finding ("finding") or none ("unsure")."""
    if code is VerdictCode.INCONCLUSIVE:
        return "unsure"
    return "good" if code is VerdictCode.DEVICE_BOUND else "finding"
