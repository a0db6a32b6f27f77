"""Fixes together: the step after each rung, and which of them reach the device's pace.

Every number is `pipeline.gain` or `pipeline.forecast` of a changed scenario, as for single fixes;
of a loader that delivers unevenly it is what `queueing` simulates.
"""

from __future__ import annotations

from collections.abc import Sequence

from stoker.diagnose.case import Case
from stoker.diagnose.changes import RANDOM_WORTH
from stoker.diagnose.fixes import BY_CODE
from stoker.diagnose.queueing import Queued, Simulation
from stoker.diagnose.wording import cores, percent
from stoker.records.diagnosis import FixCode, Outlook, Rung
from stoker.records.scenario import Scenario
from stoker.theory.pipeline import cores_needed, forecast, gain

# From what costs nothing to what takes a change of data: the order in which one would go.
RUNGS = (
    FixCode.OVERLAP,
    FixCode.WORKERS,
    FixCode.PERSISTENT_WORKERS,
    FixCode.PACK,
    FixCode.DEVICE_AUGMENT,
    FixCode.PINNED_ASYNC,
)
# The order in which they change the scenario: how many workers are best depends on their work.
_MADE = (
    *(FixCode.PACK, FixCode.DEVICE_AUGMENT, FixCode.OVERLAP, FixCode.WORKERS),
    *(FixCode.PERSISTENT_WORKERS, FixCode.PINNED_ASYNC),
)
# A rung below this gain is within what two runs of one script differ by.
_WORTH = 1.03
# Less is no rung of a ladder that is read in whole milliseconds.
_SEEN = 1.005
# This close to the device's own step there is nothing left to win.
_REACHED = 1.03


def compose(case: Case, codes: Sequence[FixCode]) -> Scenario | None:
    """The scenario with all these fixes made; None where one of them does not apply.

    Where there is little work left for them, more workers are none at all.
    """
    scenario = case.scenario
    for code in _MADE:
        if code not in codes:
            continue
        after = BY_CODE[code].after(Case(case.facts, scenario))
        if after is None and code is not FixCode.WORKERS:
            return None
        scenario = after or scenario
    return scenario


Climbed = tuple[tuple[FixCode, Scenario], ...]


def climb(case: Case) -> Climbed:
    """Every rung that is seen on top of those before it, with the scenario there."""
    climbed: list[tuple[FixCode, Scenario]] = []
    now = case.scenario
    for code in RUNGS:
        after = compose(case, [*(below for below, _ in climbed), code])
        if after is not None and gain(now, after).median >= _SEEN:
            climbed.append((code, after))
            now = after
    return tuple(climbed)


def outlook(case: Case, climbed: Climbed) -> Outlook | None:
    """The ladder, and the few rungs that do most; None where no rung helps."""
    helpful = [code for code in RUNGS if _helps(case, code, [one for one, _ in climbed])]
    together = _together(case, helpful)
    if not together:
        return None
    return Outlook(
        ladder=tuple(_rung(case, code, after) for code, after in climbed),
        ceiling_s=case.scenario.workload.device_s,
        together=tuple(together),
        sentence=_sentence(case, together, helpful),
        irreducible=irreducible(case),
    )


def queue_outlook(case: Case, simulation: Simulation) -> Outlook | None:
    """A deeper queue, and any order on top of it, as they were simulated; None where none helps."""
    rungs: list[tuple[FixCode, Queued]] = []
    deep = simulation.by_fix.get(FixCode.PREFETCH_DEPTH)
    if deep is not None and deep.speedup.median >= _WORTH:
        rungs.append((FixCode.PREFETCH_DEPTH, deep))
    loose = simulation.together if rungs else simulation.by_fix.get(FixCode.UNORDERED)
    reached = rungs[-1][1].speedup.median if rungs else 1.0
    if loose is not None and loose.speedup.median >= _WORTH * reached:
        rungs.append((FixCode.UNORDERED, loose))
    if not rungs or simulation.waits is None or simulation.waits_seen is None:
        return None
    step_s, device_s = rungs[-1][1].step_s.median, case.scenario.workload.device_s.median
    return Outlook(
        ladder=tuple(
            Rung(
                code=code,
                title=BY_CODE[code].title_for(case),
                step_s=queued.step_s,
                speedup=queued.speedup,
                cores_per_accelerator=cores_needed(case.scenario),
            )
            for code, queued in rungs
        ),
        ceiling_s=case.scenario.workload.device_s,
        together=tuple(code for code, _ in rungs),
        sentence=(
            f"{_reached([code for code, _ in rungs], step_s, device_s)}. Simulated with "
            f"{simulation.batches} of its own batches, for which the loop waits "
            f"{percent(simulation.waits.median)} of the step in the queue as it is "
            f"({percent(simulation.waits_seen.median)} were measured)."
        ),
        irreducible=irreducible(case),
    )


def _helps(case: Case, code: FixCode, climbed: Sequence[FixCode]) -> bool:
    """Whether it is a rung, or would be one by itself where it adds nothing to those below."""
    if code in climbed:
        return True
    below = [one for one in climbed if RUNGS.index(one) < RUNGS.index(code)]
    alone = compose(case, [code])
    if alone is None or compose(case, [*below, code]) is None:
        return False
    return gain(case.scenario, alone).median >= _WORTH


def _rung(case: Case, code: FixCode, after: Scenario) -> Rung:
    return Rung(
        code=code,
        title=BY_CODE[code].title_for(case),
        step_s=forecast(after).step_s,
        speedup=gain(case.scenario, after),
        cores_per_accelerator=cores_needed(after),
    )


def _together(case: Case, rungs: Sequence[FixCode]) -> list[FixCode]:
    """The rung that gives most on top of those chosen, until none does or the device is reached."""
    chosen: list[FixCode] = []
    now = case.scenario
    device_s = case.scenario.workload.device_s.median
    while forecast(now).step_s.median > _REACHED * device_s:
        further = []
        for code in rungs:
            after = compose(case, [*chosen, code]) if code not in chosen else None
            if after is not None:
                further.append((gain(now, after).median, code, after))
        if not further:
            break
        # Equal gains: the rung that comes first is the cheaper one.
        most, code, after = max(further, key=lambda one: round(one[0], 2))
        if most < _WORTH:
            break
        chosen.append(code)
        now = after
    return [code for code in RUNGS if code in chosen]


def _sentence(case: Case, together: Sequence[FixCode], rungs: Sequence[FixCode]) -> str:
    after = compose(case, together)
    assert after is not None
    step_s, device_s = forecast(after).step_s.median, case.scenario.workload.device_s.median
    idle = [code.value for code in rungs if code not in together]
    rest = ""
    if idle:
        rest = f"; {', '.join(idle)} add{'s' * (len(idle) == 1)} nothing then"
    return f"{_reached(together, step_s, device_s)}{rest}."


def _reached(together: Sequence[FixCode], step_s: float, device_s: float) -> str:
    """How far these lead."""
    names = " + ".join(code.value for code in together)
    is_there = step_s <= _REACHED * device_s
    end = "the pace of the device" if is_there else f"{device_s / step_s:.0%} of the device's pace"
    return f"{names} reach{'es' * (len(together) == 1)} {end}"


def irreducible(case: Case) -> str:
    """What no rung on the host takes away."""
    loader = case.facts.loader
    if not loader.random_share or loader.random_share < RANDOM_WORTH:
        return ""
    share = case.facts.random_share
    if share is None:
        generated = ""
        if case.facts.profile.reads is None:
            generated = (
                " No file was read for a sample: what is generated anew each time can't be stored, "
                f"and then all {cores(cores_needed(case.scenario))} cores stay."
            )
        return (
            f"{loader.random_op} itself draws random numbers, so the random part of the work on a "
            "sample couldn't be told from the rest: what storing it or moving it to the device "
            "gives is unknown. Put the random operation into a transform and run the doctor again; "
            f"the stages show what each costs.{generated}"
        )
    if share < RANDOM_WORTH:
        return ""
    operation = f" ({loader.random_op} and what follows it)" if loader.random_op else ""
    needed = cores_needed(case.scenario) * share
    return (
        f"{share:.0%} of the work on a sample is random{operation}: it can't be "
        f"stored, and on the host it takes {cores(needed)} cores for each accelerator."
    )
