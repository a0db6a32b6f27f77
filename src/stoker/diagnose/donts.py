"""What people try first, and what it would give here: forecasts, as those of the fixes."""

from __future__ import annotations

from collections.abc import Sequence

from stoker.diagnose.case import Case, with_work
from stoker.diagnose.changes import shard, stored_once
from stoker.diagnose.wording import percent
from stoker.diagnose.worker_counts import with_workers
from stoker.records.diagnosis import Dont, FixCode, RankedFix, VerdictCode
from stoker.records.scenario import Resource, Scenario
from stoker.theory.pipeline import forecast, gain
from stoker.theory.whatif import batch

# What people try first is shown as a don't up to this gain.
_NO_GAIN = 1.1
# Half the resolution each way, as people halve it; twice the batch.
_LOWER_RESOLUTION = 0.25
_BIGGER_BATCH = 2

# Verdicts under which a faster accelerator would only wait longer.
_STARVED = frozenset(
    {
        VerdictCode.SERIAL_LOADER,
        VerdictCode.TOO_FEW_WORKERS,
        VerdictCode.CPU_SATURATED,
        VerdictCode.STORAGE_BOUND,
        VerdictCode.CPU_ALLOCATION,
        VerdictCode.HANDOFF_BOUND,
        VerdictCode.EPOCH_BOUNDARY,
        VerdictCode.OVERSUBSCRIBED,
        VerdictCode.PER_ITEM_OVERHEAD,
        VerdictCode.READ_AMPLIFICATION,
    }
)
# Verdicts under which workers, or their storage, are at their end.
_AT_THEIR_END = frozenset({VerdictCode.CPU_SATURATED, VerdictCode.STORAGE_BOUND})
# Verdicts under which the reads themselves are what is wrong.
_READING = frozenset({VerdictCode.STORAGE_BOUND, VerdictCode.READ_AMPLIFICATION})


def donts(case: Case, verdict: VerdictCode, fixes: Sequence[RankedFix]) -> tuple[Dont, ...]:
    """Only what gains next to nothing, and is none of the fixes."""
    advised = {fix.code for fix in fixes}
    rows = _more_workers(case, verdict)
    if verdict in _STARVED | {VerdictCode.DEVICE_BOUND} and verdict not in _READING:
        rows += _packing(case, verdict)
    if verdict in _STARVED:
        rows += _less_for_the_device(case)
    return tuple(row for row in rows if row is not None and row.code not in advised)


def _row(case: Case, code: FixCode, after: Scenario | None, why: str) -> Dont | None:
    if after is None:
        return None
    speedup = gain(case.scenario, after)
    if speedup.median >= _NO_GAIN:
        return None
    then = forecast(after)
    as_many = case.scenario.workload.batch_size / after.workload.batch_size
    return Dont(code=code, speedup=speedup, why=why, step_s=then.step_s.scaled(as_many), au=then.au)


def _more_workers(case: Case, verdict: VerdictCode) -> list[Dont | None]:
    workers = case.facts.workers
    if not workers or verdict not in _AT_THEIR_END | {VerdictCode.DEVICE_BOUND}:
        return []
    why = f"{2 * workers} find no more to work with than these"
    if verdict is VerdictCode.DEVICE_BOUND:
        why = f"the batches of {workers} are there when they are asked for"
    return [_row(case, FixCode.WORKERS, with_workers(case, 2 * workers), why)]


def _packing(case: Case, verdict: VerdictCode) -> list[Dont | None]:
    """Where the disk keeps up large sequential reads save nothing, and decoded samples may not."""
    if forecast(case.scenario).limit is Resource.STORAGE:
        return []
    reads = shard(case)
    # What the data set itself draws can't be told from what repeats: nothing is known of storing.
    stored = stored_once(case) if case.facts.is_random_apart else None
    if verdict is VerdictCode.DEVICE_BOUND:
        return [_row(case, FixCode.PACK, stored or reads, "the loader keeps up as it is")]
    rows = []
    if stored is not None and case.facts.redone_share is not None:
        why = f"{percent(case.facts.redone_share)} of the work is done anew each time"
        rows.append(_row(case, FixCode.PACK, stored, why))
    waited = percent(_waited_share(case))
    why = f"the disk keeps up: {waited} of the making of a sample is waiting for it"
    return [*rows, _row(case, FixCode.SHARD, reads, why)]


def _waited_share(case: Case) -> float:
    stages = case.scenario.workload.stages
    seconds = sum(stage.per_sample.median for stage in stages)
    waiting = [one.per_sample.median for one in stages if one.resource is Resource.STORAGE]
    return sum(waiting) / seconds if seconds > 0 else 0.0


def _less_for_the_device(case: Case) -> list[Dont | None]:
    """What changes the device's part of a step whose wait for batches is the longer one."""
    device = case.scenario.workload.device_s
    half = with_work(case.scenario, device_s=device.scaled(0.5))
    quarter = with_work(case.scenario, device_s=device.scaled(_LOWER_RESOLUTION))
    larger = batch(case.scenario, case.scenario.workload.batch_size * _BIGGER_BATCH)
    return [
        _row(case, code, after, f"{what}: the wait for batches stays")
        for code, after, what in (
            (FixCode.FASTER_ACCELERATOR, half, "half the device time"),
            (FixCode.SMALLER_MODEL, half, "a model of half the work"),
            (FixCode.LOWER_RESOLUTION, quarter, "a quarter of the pixels in the model"),
            (FixCode.BIGGER_BATCH, larger, f"a batch {_BIGGER_BATCH} times as large"),
        )
    ]
