"""Profile in, Diagnosis out: the whole conclusion, put together once."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from stoker.diagnose.capacity import capacity
from stoker.diagnose.case import Case
from stoker.diagnose.donts import donts
from stoker.diagnose.facts import Facts, facts_of
from stoker.diagnose.gap import judge_gap
from stoker.diagnose.judge import judge, steps_missing, steps_seen
from stoker.diagnose.ladder import Climbed, climb, outlook, queue_outlook
from stoker.diagnose.ledger import account
from stoker.diagnose.queueing import simulate
from stoker.diagnose.ranking import are_promises, rank
from stoker.diagnose.store import most_reads_per_s
from stoker.diagnose.tryout import tryout
from stoker.diagnose.wording import cores
from stoker.errors import InputError
from stoker.records.diagnosis import (
    Diagnosis,
    Dont,
    HostSummary,
    LedgerRow,
    Outlook,
    RankedFix,
    Step,
    Symptom,
    Verdict,
    VerdictCode,
)
from stoker.records.profile import End, HostTruth, LegCode, Profile
from stoker.records.scenario import Scenario
from stoker.stats import Spread
from stoker.theory.calibrate import scenario_from
from stoker.theory.measured import marked
from stoker.zoo.load import Zoo

# Other processes are worth a word from this many cores on.
_TOLD_CORES = 0.2


def diagnose(profile: Profile, zoo: Zoo | None = None) -> Diagnosis:
    """What limits the run, the account of a step, and what to do about it.

    `zoo`: where the next accelerators of the capacity table are looked up; it is read only for a
    profile of a device that has a name.
    """
    facts = facts_of(profile)
    if profile.gap is not None:
        found = judge_gap(profile)
        return _put_together(profile, found[0], None, found[1], found[2], (), None, zoo)
    if facts is None:
        return _put_together(profile, _nothing_seen(profile), None, (), (), (), None, zoo)
    rows = account(facts)
    verdict = judge(facts, rows)
    fixes: tuple[RankedFix, ...] = ()
    dont: tuple[Dont, ...] = ()
    case: Case | None = None
    scenario = scenario_of(profile, facts, verdict.code)
    if scenario is not None:
        is_uneven = verdict.code is VerdictCode.VARIANCE_STALLS
        case = Case(facts, scenario, simulate(facts) if is_uneven else None)
        fixes = rank(case, verdict.code)
        dont = donts(case, verdict.code, fixes)
    return _put_together(profile, verdict, facts, rows, fixes, dont, case, zoo)


def scenario_of(profile: Profile, facts: Facts, verdict: VerdictCode) -> Scenario | None:
    """What fixes change, what repeats and what is random marked in it.

    Without leg L there is nothing to forecast from (None), but there still is a verdict.
    """
    try:
        scenario = marked(profile, scenario_from(profile))
    except InputError:
        return None
    most = most_reads_per_s(facts)
    # Rates that workers do not raise are a store's only where it is the store that they wait for.
    if most is None or verdict is not VerdictCode.STORAGE_BOUND:
        return scenario
    machine = msgspec.structs.replace(scenario.machine, storage_reads_per_s=most)
    return msgspec.structs.replace(scenario, machine=machine)


def _nothing_seen(profile: Profile) -> Verdict:
    legs = ", ".join(profile.legs) or "none"
    return Verdict(
        code=VerdictCode.INCONCLUSIVE,
        sentence=(
            "The model alone could not be timed: batches of this loader can't be served a second "
            "time (the notes say why). What its own steps waited is all that can be told. "
            "Have it give tensors, arrays and plain objects, and measure again."
            if profile.end is End.NOT_KEPT
            else f"The run ended ({profile.end}) before the loop and the model alone were both "
            f"measured (legs: {legs}): {steps_missing(*steps_seen(profile))}. "
            "Give the script more steps or epochs, or measure longer (--budget)."
        ),
        lost_share=Spread(float("nan"), float("-inf"), float("inf")),
    )


def _put_together(
    profile: Profile,
    verdict: Verdict,
    facts: Facts | None,
    rows: tuple[LedgerRow, ...],
    fixes: tuple[RankedFix, ...],
    dont: tuple[Dont, ...],
    case: Case | None,
    zoo: Zoo | None,
) -> Diagnosis:
    needed = facts.cores_needed if facts is not None else None
    # A ladder whose rungs are no promises one by one is none together.
    is_promised = are_promises(fixes)
    climbed = climb(case) if case is not None and is_promised else ()
    host = {name: getattr(profile.host, name) for name in HostTruth.__struct_fields__}
    return Diagnosis(
        script=profile.script,
        symptom=_symptom(profile),
        verdict=verdict,
        step=_step(profile, facts),
        ledger=rows,
        stages=profile.stages,
        host=HostSummary(**host, cores_needed=needed),
        fixes=fixes,
        dont=dont,
        capacity=capacity(case, climbed, zoo),
        profile=profile,
        environment=profile.environment,
        outlook=_outlook(case, climbed, fixes) if is_promised else None,
        tryout=tryout(profile),
    )


def _outlook(case: Case | None, climbed: Climbed, fixes: Sequence[RankedFix]) -> Outlook | None:
    """Fixes together; of a loader that delivers unevenly as its queue was simulated."""
    if case is None or not fixes:
        return None
    if case.queue is None or not case.queue.by_fix:
        return outlook(case, climbed)
    has_number = any(fix.speedup is not None for fix in fixes)
    return queue_outlook(case, case.queue) if has_number else None


def _step(profile: Profile, facts: Facts | None) -> Step:
    def mean(code: LegCode) -> float | None:
        leg = profile.leg(code)
        return leg.period.median if leg is not None else None

    real = profile.leg(LegCode.REAL)
    # Where the model lives on the host there is one leg for both.
    on_host = facts.on_host.median if facts is not None else mean(LegCode.HOST)
    return Step(
        real_s=profile.real.median if profile.real is not None else None,
        real_median_s=real.middle if real is not None else None,
        device_s=mean(LegCode.DEVICE),
        host_s=on_host,
        contended_s=mean(LegCode.CONTENDED),
        loader_s=mean(LegCode.LOADER),
        au=1 - facts.lost_share.median if facts is not None else None,
        batch_size=facts.batch_size if facts is not None else None,
        samples_per_s=facts.batch_size / facts.real.median if facts is not None else None,
    )


def _symptom(profile: Profile) -> Symptom:
    busy = profile.host.busy_of_owned
    foreign = profile.host.foreign_cores
    sentence = ""
    if foreign is not None and foreign >= _TOLD_CORES:
        sentence = f"Other processes kept {cores(foreign)} cores busy meanwhile."
    reported = profile.device.busy_reported if profile.device is not None else None
    return Symptom(host_cpu_busy_of_owned=busy, device_busy_reported=reported, sentence=sentence)
