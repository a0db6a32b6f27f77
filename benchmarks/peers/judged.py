"""Holds an answer against the known cause, by one rule for all tools.

Every tool speaks its own words. A phrase of theirs is read as a side (loading, or the step itself),
as the verdicts of ours that it tells from all others, and as the first fix that it advises. A tool
need not know our verdicts: the right side alone counts, as what it is, and silence is not wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

# The verdicts that blame the step and not its loader; all others of the cases run here are loading.
STEP_SIDE = {"device-bound", "overhead-bound", "host-sync", "host-work"}
# Advice about the model: as good as none where nothing is wrong with loading.
ABOUT_THE_MODEL = {"model", "graph-capture", "larger-batch"}


@dataclass(frozen=True)
class Reading:
    """What a phrase says: a side, the verdicts that it singles out, the fixes in its order."""

    side: str = ""
    causes: tuple[str, ...] = ()
    fixes: tuple[str, ...] = ()


HEALTHY = Reading("step", ("device-bound",), ("none",))

# Phrases of the tools' answers, in the order they are looked for; all found count.
PHRASES: dict[str, dict[str, Reading]] = {
    "traceml": {
        # "Increase workers, prefetch, or storage throughput."
        "INPUT-BOUND": Reading("loading", (), ("workers", "prefetch-depth", "cache-local")),
        # "Optimize model compute or reduce step cost."
        "COMPUTE-BOUND": Reading("step", ("device-bound",), ("model",)),
        # "Inspect work outside traced phases, CPU stalls, logging, …"
        "RESIDUAL-HEAVY": Reading(
            "step", ("host-sync", "host-work"), ("sync-less", "host-work-less")
        ),
        "NO CLEAR": Reading("step", ("device-bound",), ("none",)),
    },
    "gpuprof": {
        # "workers are CPU-bound": "Move augmentations to GPU … pre-decoded samples, or reduced
        # JPEG-decode quality can also help."
        "CPU-bound": Reading(
            "loading", ("cpu-saturated",), ("device-augment", "pack", "reduced-decode")
        ),
        # "pack samples …, cache the training set in RAM or a local NVMe tier"
        "I/O-bound": Reading("loading", ("storage-bound",), ("shard", "cache-local", "pack")),
        "Cold cache": Reading("loading", ("storage-bound",), ("cache-local",)),
        "page cache": Reading("loading", ("storage-bound",), ("shard", "cache-ram")),
        # "Increase DataLoader num_workers, set pin_memory …"
        "waiting on the loader": Reading(
            "loading", (), ("workers", "persistent-workers", "prefetch-depth", "device-augment")
        ),
        # "First knob: raise prefetch_factor"
        "Prefetch queue starved": Reading("loading", (), ("prefetch-depth", "persistent-workers")),
        "imbalance": Reading("loading", ("variance-stalls",), ()),
        # "many small ops or Python-side overhead. torch.compile / CUDA graphs"
        "unaccounted": Reading("step", ("overhead-bound", "host-work"), ("graph-capture",)),
    },
    "loadtune": {
        # "more workers cannot help … cheaper transforms, caching decoded samples, or moving
        # augmentation to the accelerator"
        "CPU already saturated": Reading(
            "loading", ("cpu-saturated",), ("replace-op", "pack", "device-augment")
        ),
        "input-bound": Reading("loading"),
        "compute-bound": HEALTHY,
    },
}
# Where none of these was said: words that leave loading alone. gpuprof tells its price estimate in
# place of "No major bottlenecks detected" when no other rule fires.
NOTHING_WRONG = {"gpuprof": ("No major bottlenecks", "Estimated cost")}
# SPDL's own limits: below 5 % loading is "NOT the bottleneck — focus on model optimization
# (torch.compile, CUDA graphs, etc.)", above 10 % "data loading optimization can yield significant
# gains"; in between it says nothing.
SMALL_HEADSPACE, LARGE_HEADSPACE = 0.05, 0.10


def read(tool: str, said: dict[str, Any]) -> Reading:
    """The answer in our words: the side, all causes told apart, the fixes in order of mention."""
    if tool == "stoker":
        verdict = said["verdict"]
        side = "step" if verdict in STEP_SIDE else "loading"
        known = verdict not in ("inconclusive", "error")
        return Reading(side if known else "", (verdict,), (said["first_fix"],))
    if tool == "spdl":
        return _of_headspace(said["numbers"]["headspace"])
    found = [reading for phrase, reading in PHRASES[tool].items() if phrase in said["finding"]]
    sides = [reading.side for reading in found if reading.side]
    if tool == "loadtune":
        # Its diagnosis says which side; what it tried and recommends is its advice, after what the
        # diagnosis itself advises on full cores.
        tried = _of_recommendation(said)
        found.insert(1 if found and found[0].causes == ("cpu-saturated",) else 0, tried)
        sides.append(tried.side)
    if not found and any(words in said["finding"] for words in NOTHING_WRONG.get(tool, ())):
        return HEALTHY
    return Reading(
        sides[0] if sides else "",
        tuple(cause for reading in found for cause in reading.causes),
        tuple(fix for reading in found for fix in reading.fixes),
    )


def _of_headspace(headspace: float) -> Reading:
    if headspace > LARGE_HEADSPACE:
        return Reading("loading")
    if headspace < SMALL_HEADSPACE:
        return Reading("step", ("device-bound", "overhead-bound"), ("graph-capture",))
    return Reading()


def _of_recommendation(said: dict[str, Any]) -> Reading:
    """The settings that loadtune recommends after its trials, as a fix and the cause it mends."""
    if "Recommended config" not in said["advice"]:
        return Reading()
    settings = said["advice"].partition("workers=")[2]
    count, before = int(settings.split(",")[0].split()[0]), int(said["numbers"]["workers"])
    if count > before:
        verdict, fix = (
            ("serial-loader", "overlap") if before == 0 else ("too-few-workers", "workers")
        )
    elif count < before and "persistent" in settings:
        # Two changes in one; keeping the workers is one of them, and may be what pays.
        causes = ("epoch-boundary", "handoff-bound")
        return Reading("loading", causes, ("persistent-workers", "fewer-workers"))
    elif count < before:
        verdict, fix = "handoff-bound", "fewer-workers"
    elif "threads=" in settings:
        verdict, fix = "oversubscribed", "native-threads"
    elif "prefetch=" in settings:
        verdict, fix = "variance-stalls", "prefetch-depth"
    elif "persistent" in settings:
        verdict, fix = "epoch-boundary", "persistent-workers"
    else:
        # torch.compile or mixed precision
        return Reading("step", ("device-bound",), ("model",))
    return Reading("loading", (verdict,), (fix,))


def judge(reading: Reading, entry: dict[str, Any]) -> tuple[str, str]:
    """(what the finding is worth, what the first advice is worth).

    The finding: "cause" where the known one is among those told apart; "side" where only the side
    is right and no other cause is named; "wrong cause", "wrong side", or "none".
    The advice: "right" where the first fix is one of the acceptable; "harmful" where it is one that
    must not stand first; "other"; "none".
    """
    accepted = set(entry["acceptable_verdicts"])
    if not reading.side:
        finding = "none"
    elif accepted & set(reading.causes):
        finding = "cause"
    elif reading.side != ("step" if accepted & STEP_SIDE else "loading"):
        finding = "wrong side"
    else:
        finding = "wrong cause" if reading.causes else "side"
    return finding, _advice(reading.fixes, entry)


def _advice(fixes: tuple[str, ...], entry: dict[str, Any]) -> str:
    if not fixes:
        return "none"
    accepted = set(entry["acceptable_first_fixes"])
    if fixes[0] in accepted or ("none" in accepted and fixes[0] in ABOUT_THE_MODEL):
        return "right"
    return "harmful" if fixes[0] in entry["forbidden_top_fixes"] else "other"
