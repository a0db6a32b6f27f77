"""Which fixes answer a verdict, ranked by what they promise."""

from __future__ import annotations

from collections.abc import Sequence

from stoker.diagnose.case import Case
from stoker.diagnose.facts import Facts
from stoker.diagnose.fixes import BY_CODE, Fix
from stoker.diagnose.queueing import ONLY_A_TRIAL
from stoker.diagnose.store import gives_more, is_elsewhere
from stoker.diagnose.waste import find_waste
from stoker.diagnose.wording import held_by_others
from stoker.diagnose.worker_counts import best_workers, fewest
from stoker.records.diagnosis import FixCode, RankedFix, VerdictCode
from stoker.records.profile import OWN_LOADER, Unit
from stoker.records.scenario import Scenario
from stoker.stats import Spread
from stoker.theory.pipeline import gain

# Gains this close to each other count as equal: then the smaller effort goes first.
_EQUAL = 0.03
# Below this a fix is not worth recommending: within what two runs of the same script differ by.
_WORTH = 1.03
# Other processes on this share of the cores make a forecast theirs as much as the job's: they come
# and go, and with one of two cores taken 1.8x was forecast where 2.2x was measured without it.
_CROWDED = 0.25

# These change nothing that the closed form knows.
_BESIDE_THE_FORM = {
    FixCode.FLAT_STORAGE: "it keeps the run from its end, and makes no step shorter",
    FixCode.SHM_SIZE: "it keeps the run from its end, and makes no step shorter",
    FixCode.CHECK_CLOCKS: "it tells what to mend",
    FixCode.CHECK_PEER: "it tells what to mend",
}
# Of these the form knows no more than that they could help.
_ONLY_POSSIBLE = {
    FixCode.REPLACE_OP: "it depends on what takes its place",
    FixCode.ALLOCATOR: ONLY_A_TRIAL,
    FixCode.GRAPH_CAPTURE: "it depends on what of the step can be recorded",
}
# Why these are named without a number, in every run; they stand behind those that have one.
_NO_NUMBER = _BESIDE_THE_FORM | _ONLY_POSSIBLE

# These have a number where the loader's own batches were simulated.
_SIMULATED = frozenset({FixCode.PREFETCH_DEPTH, FixCode.UNORDERED})

# Measuring longer makes no interval of these narrower.
_WIDE = {
    FixCode.REDUCED_DECODE: "it depends on the pictures: time some of them",
    FixCode.ACCESS_PATTERN: "it depends on how far apart key frames are: time a seek",
}

# A forecast is of training steps: what fixes give to a validation has no number either.
_WITHOUT_FORECAST = frozenset({VerdictCode.VALIDATION_PHASE})
_OF_VALIDATION = "it mends validation, and forecasts are of training steps"

# Fixes that set workers on the data set.
WITH_WORKERS = frozenset({FixCode.OVERLAP, FixCode.WORKERS})
# What only a data set and a DataLoader of the script's own can take.
_OF_DATASETS = frozenset(
    {
        FixCode.UNORDERED,
        FixCode.REPLACE_OP,
        FixCode.BATCHED_FETCH,
        FixCode.VECTORISE_COLLATE,
        FixCode.REOPEN_HANDLE,
    }
)
# What helps where files are waited for, and by itself no service.
_OF_FILES = {
    FixCode.CACHE_LOCAL: "it helps as far as what is waited for can be copied: the files that were "
    "seen are not it",
    FixCode.SHARD: "it helps as far as what is waited for can be asked for in larger pieces: the "
    "files that were seen are not it",
}
# Which fixes answer which verdict; the order settles what gains and effort leave equal.
_ANSWERS: dict[VerdictCode, tuple[FixCode, ...]] = {
    VerdictCode.SERIAL_LOADER: (FixCode.OVERLAP, FixCode.PACK, FixCode.DEVICE_AUGMENT),
    VerdictCode.TOO_FEW_WORKERS: (FixCode.WORKERS,),
    VerdictCode.CPU_SATURATED: (
        FixCode.VECTORISE_COLLATE,
        FixCode.CACHE_RAM,
        FixCode.PACK,
        FixCode.DEVICE_AUGMENT,
        FixCode.FEWER_WORKERS,
        FixCode.REDUCED_DECODE,
        FixCode.REPLACE_OP,
        FixCode.ALLOCATOR,
    ),
    VerdictCode.STORAGE_BOUND: (FixCode.SHARD, FixCode.CACHE_LOCAL, FixCode.WORKERS),
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
    VerdictCode.OVERHEAD_BOUND: (FixCode.LARGER_BATCH, FixCode.GRAPH_CAPTURE),
    VerdictCode.MEMORY_RISK: (FixCode.SHM_SIZE, FixCode.FLAT_STORAGE),
    VerdictCode.DEVICE_DRIFT: (FixCode.CHECK_CLOCKS,),
    VerdictCode.PEER_RANK: (FixCode.CHECK_PEER,),
}


# What comes first whatever else would give: a setting, on which all other fixes of it build.
_FIRST = {VerdictCode.SERIAL_LOADER: FixCode.OVERLAP}


def answers(verdict: VerdictCode) -> tuple[FixCode, ...]:
    """The fixes that may answer a verdict, whatever the run."""
    return _ANSWERS.get(verdict, ())


def rank(case: Case, verdict: VerdictCode) -> tuple[RankedFix, ...]:
    """The fixes that answer a verdict, the largest gain first; equal gains by effort.

    A fix whose interval is too wide to promise anything keeps its place but has no speedup; one
    that never has a number comes behind all that may.
    """
    ranked: list[tuple[float, int, RankedFix]] = []
    for place, code in enumerate(answers(verdict)):
        fix = BY_CODE[code]
        if verdict in _WITHOUT_FORECAST:
            ranked.append((1.0, place, _ranked(case, fix, None, _OF_VALIDATION)))
            continue
        after = fix.after(case) if _is_asked(case, verdict, code) else None
        if after is None:
            continue
        speedup, why_not = _forecast(case, code, after)
        if speedup is None:
            ranked.append((1.0, place, _ranked(case, fix, None, why_not)))
        elif speedup.median >= _WORTH or code in _BESIDE_THE_FORM:
            ranked.append((speedup.median, place, _ranked(case, fix, speedup)))
    ranked.sort(key=lambda entry: -entry[0])
    ordered = [entry[2] for entry in _by_effort(ranked)]
    first = _FIRST.get(verdict)
    return tuple(sorted(ordered, key=lambda fix: (fix.code is not first, _is_numberless(fix))))


def are_promises(fixes: Sequence[RankedFix]) -> bool:
    """False where something in this run keeps a fix, and so all together, from a number."""
    never = {*_NO_NUMBER, *_WIDE, *_OF_FILES, *_SIMULATED}
    return not any(fix.withheld for fix in fixes if fix.code not in never)


def _is_numberless(fix: RankedFix) -> bool:
    """Whatever the run, or because this one gave nothing to simulate."""
    return fix.code in _NO_NUMBER or (fix.code in _SIMULATED and fix.speedup is None)


def _forecast(case: Case, code: FixCode, after: Scenario) -> tuple[Spread | None, str]:
    """The gain, or None and why there is none."""
    if code not in _SIMULATED:
        return gain(case.scenario, after), ""
    if case.queue is None or code not in case.queue.by_fix:
        return None, case.queue.why_not if case.queue is not None else ONLY_A_TRIAL
    return case.queue.by_fix[code].speedup, ""


def _is_asked(case: Case, verdict: VerdictCode, code: FixCode) -> bool:
    """Whether it could be an answer here at all.

    More readers are none to a store that gives them no more; a stoker.Loader has no data set of the
    user's, and its decoder is the fast one.
    """
    if code in _OF_DATASETS and case.facts.loader.dataset == OWN_LOADER:
        return False
    if verdict is not VerdictCode.STORAGE_BOUND or code is not FixCode.WORKERS:
        return True
    return gives_more(case.facts)


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


def _ranked(case: Case, fix: Fix, speedup: Spread | None, why_not: str = "") -> RankedFix:
    failed = case.facts.workers_failed if fix.code in WITH_WORKERS else None
    is_promise = speedup is not None and speedup.is_promise
    withheld = _NO_NUMBER.get(fix.code, why_not)
    if fix.code in _OF_FILES and is_elsewhere(case.facts):
        withheld = _OF_FILES[fix.code]
    elif not withheld:
        withheld = why_withheld(case.facts, fix.code) if is_promise else _wide(case, fix.code)
    charged = fix.charge(case)
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
        speedup=speedup if is_promise and not withheld else None,
        measured=_measured(case, fix),
        how=fix.how_for(case),
        costs=fix.costs_for(case),
        memory_bytes=charged.memory_bytes,
        disk_bytes=charged.disk_bytes,
        minutes=charged.minutes,
        preconditions=(*first, *fix.preconditions),
        effort=fix.effort,
        withheld=withheld,
    )


def _wide(case: Case, code: FixCode) -> str:
    """Why measuring longer would make its interval no narrower; empty where it would."""
    if code is FixCode.ACCESS_PATTERN:
        waste = find_waste(case.facts)
        if waste is None or waste.found.unit is not Unit.FRAME:
            return ""
    return _WIDE.get(code, "")


def why_withheld(facts: Facts, code: FixCode) -> str:
    """Why a narrow interval of this fix is still no promise in this run; empty where it is one."""
    if code in WITH_WORKERS and facts.workers_failed is not None:
        return "workers failed on this data set here"
    foreign, owned = facts.foreign_cores, facts.host.cores_owned
    if foreign >= _CROWDED * owned:
        return (
            f"{held_by_others(foreign, owned)}, and what it gives depends on them: measure on an "
            "idle machine"
        )
    return ""
