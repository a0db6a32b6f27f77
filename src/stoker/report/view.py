"""A Diagnosis as finished strings: wording, rounding and order are decided here, once.

Every kind of report shows this view and nothing else, so that two reports cannot disagree. It
formats; it measures, concludes and adds up nothing of its own.
"""

from __future__ import annotations

import math
from typing import TypeGuard

from stoker.errors import EXIT_INTERRUPTED
from stoker.records.diagnosis import Diagnosis, Evidence
from stoker.records.profile import End, Leg, LegCode, Profile, StageTime
from stoker.report import (
    account,
    advice,
    capacity,
    numbers,
    samples,
    surroundings,
    trials,
    wording,
)
from stoker.report.plain import line
from stoker.report.shape import EvidenceLine, LegLine, StageLine, View
from stoker.stats import Spread


def view(diagnosis: Diagnosis) -> View:
    """The finished strings of a diagnosis. Never raises on numbers that aren't finite."""
    verdict = diagnosis.verdict
    kind = f" ({line(verdict.kind)})" if verdict.kind else ""
    return View(
        script=line(" ".join(diagnosis.script.argv)),
        alerts=_alerts(diagnosis),
        symptom=_symptom(diagnosis),
        symptom_sentence=line(diagnosis.symptom.sentence),
        symptom_caution=wording.NEITHER_IS_PROOF,
        tone=wording.tone(verdict.code),
        verdict=f"{verdict.code.value}{kind}",
        sentence=line(verdict.sentence),
        step=_step(diagnosis),
        ledger=account.ledger(diagnosis),
        evidence=tuple(_evidence(row) for row in verdict.evidence),
        host=surroundings.cores(diagnosis.host),
        host_remarks=surroundings.host_remarks(diagnosis.host),
        stages=tuple(_stage(row) for row in diagnosis.stages),
        samples=samples.dearest(diagnosis.profile),
        sample_remarks=samples.remarks(diagnosis.profile),
        fixes=tuple(advice.card(rank, fix) for rank, fix in enumerate(diagnosis.fixes, 1)),
        no_fix=advice.no_fix(diagnosis),
        donts=tuple(advice.dont(row) for row in diagnosis.dont),
        capacity=capacity.sentence(diagnosis),
        capacity_table=capacity.table(diagnosis),
        together=advice.together(diagnosis),
        ladder=advice.ladder(diagnosis),
        trials=trials.trials(diagnosis),
        also=", ".join(code.value for code in verdict.secondary),
        legs=_legs(diagnosis.profile),
        facts=surroundings.facts(diagnosis),
    )


def _alerts(diagnosis: Diagnosis) -> tuple[str, ...]:
    """What must be known before any number is believed."""
    alerts = []
    profile = diagnosis.profile
    if profile.end is End.INTERRUPTED:
        how = "by Ctrl-C" if profile.exit_code in (0, EXIT_INTERRUPTED) else "by a signal"
        alerts.append(f"Interrupted {how}: this is what was seen until then.")
    if profile.end is End.CRASHED:
        alerts.append(
            f"The script failed (exit code {profile.exit_code}): this is what was seen before."
        )
    if profile.environment.emulated:
        alerts.append(
            "The accelerator is emulated: its times come from a clock, not from hardware."
        )
    return tuple(alerts)


def _symptom(diagnosis: Diagnosis) -> str:
    busy = diagnosis.symptom.host_cpu_busy_of_owned
    device = diagnosis.symptom.device_busy_reported
    cores = numbers.amount(diagnosis.host.cores_owned, "cores")
    host = f"{numbers.percent(busy)} of the {cores} owned" if _is_known(busy) else numbers.UNKNOWN
    accelerator = numbers.percent(device) if _is_known(device) else "not reported"
    return f"CPU busy: {host}  ·  accelerator busy: {accelerator}"


def _step(diagnosis: Diagnosis) -> tuple[str, ...]:
    """The step as people compare it, and how much of it the accelerator works."""
    step = diagnosis.step
    words = [f"One step: {numbers.spread(diagnosis.profile.real or _exact(step.real_s), 's')}"]
    if _is_known(step.real_median_s):
        words.append(f"median {numbers.amount(step.real_median_s, 's')}")
    if _is_known(step.samples_per_s):
        words.append(numbers.amount(step.samples_per_s, "samples/s"))
    lost = numbers.spread(diagnosis.verdict.lost_share, "share")
    use = [f"Accelerator in use: {numbers.percent(step.au)}", f"lost: {lost}"]
    if step.batch_size is not None:
        use.append(f"batch of {step.batch_size:,}")
    return "  ·  ".join(words), "  ·  ".join(use)


def _evidence(row: Evidence) -> EvidenceLine:
    return EvidenceLine(
        claim=line(row.claim),
        measured=numbers.spread(row.measured, line(row.unit)),
        compared_with=line(row.compared_with),
        leg=line(row.leg),
    )


def _stage(row: StageTime) -> StageLine:
    repeats = {True: "repeats", False: "random", None: ""}
    times = (row.wall_s, row.cpu_s, row.blocked_s, row.runqueue_s)
    wall, cpu, blocked, runqueue = numbers.alike(times, "s")
    return StageLine(
        stage=line(row.stage),
        where=line(row.where),
        wall=wall,
        cpu=cpu,
        blocked=blocked,
        runqueue=runqueue,
        calls=numbers.amount(row.calls, ""),
        repeats=repeats[row.deterministic],
    )


def _legs(profile: Profile) -> tuple[LegLine, ...]:
    """Every leg in the order of the schedule, other numbers of workers below the loader's own."""
    lines = []
    for code in LegCode:
        if code in profile.legs:
            lines.append(_leg(wording.LEGS[code], profile.legs[code]))
        if code is LegCode.LOADER:
            lines.extend(
                _leg(f"{wording.LEGS[code]}, {surroundings.workers(leg.workers)}", leg)
                for leg in profile.scaling
            )
    return tuple(lines)


def _leg(gets: str, leg: Leg) -> LegLine:
    return LegLine(
        leg=leg.code.value,
        gets=gets,
        period=numbers.spread(leg.period, "s"),
        steps=f"{leg.steps:,}",
        windows=f"{leg.windows:,}",
    )


def _exact(value: float | None) -> Spread | None:
    return Spread.exact(value) if value is not None else None


def _is_known(value: float | None) -> TypeGuard[float]:
    return value is not None and math.isfinite(value)
