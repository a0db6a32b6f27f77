"""Which fixes answer a verdict, ranked by what they promise."""

from __future__ import annotations

from stoker.diagnose.case import Case
from stoker.diagnose.fixes import FIXES, Fix
from stoker.diagnose.wording import cores
from stoker.diagnose.worker_counts import best_workers, fewest
from stoker.records.diagnosis import FixCode, RankedFix, VerdictCode
from stoker.stats import Spread
from stoker.theory.pipeline import gain

# Gains this close to each other count as equal: then the smaller effort goes first.
_EQUAL = 0.03
# Below this a fix is not worth recommending: within what two runs of the same script differ by.
_WORTH = 1.03
# Other processes on this share of the cores make a forecast theirs as much as the job's: they come
# and go, and with one of two cores taken 1.8x was forecast where 2.2x was measured without it.
_CROWDED = 0.25

_BY_CODE = {fix.code: fix for fix in FIXES}

# These change nothing that the closed form knows: they are named without a number.
_WITHOUT_NUMBER = frozenset(
    {
        FixCode.FLAT_STORAGE,
        FixCode.SHM_SIZE,
        FixCode.CHECK_CLOCKS,
        FixCode.CHECK_PEER,
        FixCode.PREFETCH_DEPTH,
        FixCode.UNORDERED,
    }
)

# A forecast is of training steps: what fixes give to a validation has no number either.
_WITHOUT_FORECAST = frozenset({VerdictCode.VALIDATION_PHASE})

# Fixes that set workers on the data set.
_WITH_WORKERS = frozenset({FixCode.OVERLAP, FixCode.WORKERS})

# Which fixes answer which verdict; the order settles what gains and effort leave equal.
_ANSWERS: dict[VerdictCode, tuple[FixCode, ...]] = {
    VerdictCode.SERIAL_LOADER: (FixCode.OVERLAP, FixCode.PACK, FixCode.DEVICE_AUGMENT),
    VerdictCode.TOO_FEW_WORKERS: (FixCode.WORKERS,),
    VerdictCode.CPU_SATURATED: (
        FixCode.VECTORISE_COLLATE,
        FixCode.CACHE_RAM,
        FixCode.PACK,
        FixCode.DEVICE_AUGMENT,
    ),
    VerdictCode.STORAGE_BOUND: (FixCode.SHARD, FixCode.CACHE_LOCAL),
    VerdictCode.CPU_ALLOCATION: (FixCode.RESTORE_AFFINITY, FixCode.CPU_ALLOCATION),
    VerdictCode.HANDOFF_BOUND: (FixCode.FEWER_WORKERS, FixCode.SMALLER_PAYLOAD),
    VerdictCode.EPOCH_BOUNDARY: (FixCode.PERSISTENT_WORKERS,),
    VerdictCode.DELIVERY_BOUND: (FixCode.PINNED_ASYNC, FixCode.SMALLER_PAYLOAD),
    VerdictCode.OVERSUBSCRIBED: (FixCode.NATIVE_THREADS,),
    VerdictCode.PER_ITEM_OVERHEAD: (FixCode.BATCHED_FETCH,),
    VerdictCode.READ_AMPLIFICATION: (
        FixCode.REOPEN_HANDLE,
        FixCode.ACCESS_PATTERN,
        FixCode.RECHUNK,
    ),
    VerdictCode.VARIANCE_STALLS: (FixCode.PREFETCH_DEPTH, FixCode.UNORDERED),
    VerdictCode.HOST_SYNC: (FixCode.SYNC_LESS,),
    VerdictCode.HOST_WORK: (FixCode.HOST_WORK_LESS, FixCode.METRIC_ON_DEVICE),
    VerdictCode.VALIDATION_PHASE: (FixCode.METRIC_ON_DEVICE,),
    VerdictCode.OVERHEAD_BOUND: (FixCode.LARGER_BATCH,),
    VerdictCode.MEMORY_RISK: (FixCode.SHM_SIZE, FixCode.FLAT_STORAGE),
    VerdictCode.DEVICE_DRIFT: (FixCode.CHECK_CLOCKS,),
    VerdictCode.PEER_RANK: (FixCode.CHECK_PEER,),
}


# What comes first whatever else would give: a setting, on which all other fixes of it build.
_FIRST = {VerdictCode.SERIAL_LOADER: FixCode.OVERLAP}


def rank(case: Case, verdict: VerdictCode) -> tuple[RankedFix, ...]:
    """The fixes that answer a verdict, the largest gain first; equal gains by effort.

    A fix whose interval is too wide to promise anything keeps its place but has no speedup.
    """
    ranked: list[tuple[float, int, RankedFix]] = []
    for place, code in enumerate(_ANSWERS.get(verdict, ())):
        fix = _BY_CODE[code]
        if verdict in _WITHOUT_FORECAST:
            ranked.append((1.0, place, _ranked(case, fix, None)))
            continue
        after = fix.after(case)
        if after is None:
            continue
        speedup = gain(case.scenario, after)
        if speedup.median < _WORTH and code not in _WITHOUT_NUMBER:
            continue
        ranked.append((speedup.median, place, _ranked(case, fix, speedup)))
    ranked.sort(key=lambda entry: -entry[0])
    ordered = [entry[2] for entry in _by_effort(ranked)]
    first = _FIRST.get(verdict)
    return tuple(sorted(ordered, key=lambda fix: fix.code is not first))


def _by_effort(ranked: list[tuple[float, int, RankedFix]]) -> list[tuple[float, int, RankedFix]]:
    """Within runs of equal gains the smaller effort first, then the order of the answers."""
    ordered: list[tuple[float, int, RankedFix]] = []
    while ranked:
        best = ranked[0][0]
        equal = [entry for entry in ranked if entry[0] >= best * (1 - _EQUAL)]
        ordered += sorted(equal, key=lambda entry: (entry[2].effort, entry[1]))
        ranked = ranked[len(equal) :]
    return ordered


def _measured(case: Case, fix: Fix) -> Spread | None:
    """What a paired trial in the script itself gave, where one was made of just this."""
    if fix.code not in (FixCode.OVERLAP, FixCode.WORKERS, FixCode.FEWER_WORKERS):
        # A name with a comma is more than one change.
        tried = [one for one in case.facts.profile.candidates if not one.unfit]
        return next((one.speedup for one in tried if one.name.partition("=")[0] == fix.code), None)
    is_fewer = fix.code is FixCode.FEWER_WORKERS
    trials = [
        trial
        for trial in case.facts.profile.trials
        if trial.what == "workers" and (trial.value < case.facts.workers) == is_fewer
    ]
    if not trials:
        return None
    count = fewest(case) if is_fewer else best_workers(case)
    return min(trials, key=lambda trial: abs(trial.value - count)).speedup


def _ranked(case: Case, fix: Fix, speedup: Spread | None) -> RankedFix:
    failed = case.facts.workers_failed if fix.code in _WITH_WORKERS else None
    is_promise = speedup is not None and speedup.is_promise
    has_number = is_promise and fix.code not in _WITHOUT_NUMBER
    withheld = _withheld(case, failed) if has_number else ""
    if speedup is None:
        withheld = "it mends validation, and forecasts are of training steps"
    # A handle that was opened before the fork has one position for all workers.
    first = (
        ()
        if failed is None
        else (
            f"workers failed on this data set here ({failed}): files and archives must be opened "
            "in each worker, not before",
        )
    )
    return RankedFix(
        code=fix.code,
        title=fix.title_for(case),
        speedup=speedup if has_number and not withheld else None,
        measured=_measured(case, fix),
        how=fix.how if isinstance(fix.how, str) else fix.how(case),
        costs=fix.costs,
        preconditions=(*first, *fix.preconditions),
        effort=fix.effort,
        withheld=withheld,
    )


def _withheld(case: Case, failed: str | None) -> str:
    """Why a narrow interval is still no promise; empty where it is one."""
    if failed is not None:
        return "workers failed on this data set here"
    foreign, owned = case.facts.foreign_cores, case.facts.host.cores_owned
    if foreign >= _CROWDED * owned:
        return (
            f"other processes kept {cores(foreign)} of the {cores(owned)} cores busy, and what it "
            "gives depends on them: measure on an idle machine"
        )
    return ""
