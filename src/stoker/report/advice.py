"""Fixes and don'ts as finished strings; a gain is promised only by a narrow interval."""

from __future__ import annotations

import math

from stoker.records.diagnosis import Diagnosis, Dont, FixCode, RankedFix, VerdictCode
from stoker.report import numbers, wording
from stoker.report.plain import block, line
from stoker.report.shape import DontLine, FixCard, RungLine
from stoker.stats import Spread

# From here on hours are told.
_MINUTES_TOLD = 120


def card(rank: int, fix: RankedFix) -> FixCard:
    """One fix, `rank` counted from 1."""
    is_promised = fix.speedup is not None and fix.speedup.is_promise
    return FixCard(
        rank=str(rank),
        title=_as_heading(line(fix.title)),
        code=fix.code.value,
        promise="" if fix.code is FixCode.NONE else _promise(fix.speedup, fix.withheld),
        is_promised=is_promised,
        tried=_tried(fix.measured),
        effort=wording.EFFORTS.get(fix.effort, ""),
        how=block(fix.how),
        costs=_costs(fix),
        preconditions=tuple(line(text) for text in fix.preconditions),
    )


def no_fix(diagnosis: Diagnosis) -> str:
    """Why there is no fix; empty when there is one."""
    if diagnosis.fixes:
        return ""
    code = diagnosis.verdict.code
    if code is VerdictCode.INCONCLUSIVE:
        return "None before the cause is known."
    if code is VerdictCode.DEVICE_BOUND:
        lost = diagnosis.verdict.lost_share
        if math.isfinite(lost.high):
            most = numbers.amount(max(lost.high, 0.0), "share")
            return f"Nothing to mend in the loader: a perfect one would win at most {most}."
        return "Nothing to mend in the loader."
    return "None known for this cause."


def dont(row: Dont) -> DontLine:
    """What people try first."""
    gain = numbers.spread(row.speedup, "x") if row.speedup else ""
    then = ""
    if row.step_s is not None and row.au is not None:
        step = numbers.amount(row.step_s.median, "s")
        then = f"step {step}, device in use {numbers.percent(row.au.median)}"
    return DontLine(what=wording.action(row.code), gain=gain, then=then, why=line(row.why))


def together(diagnosis: Diagnosis) -> tuple[str, ...]:
    """Which fixes do most together, and what none of them takes away."""
    found = diagnosis.outlook
    if found is None:
        return ()
    return tuple(line(text) for text in (found.sentence, found.irreducible) if text)


def ladder(diagnosis: Diagnosis) -> tuple[RungLine, ...]:
    """The run as it is, the step after each fix, and the device's own at the end."""
    found, real = diagnosis.outlook, diagnosis.profile.real
    if found is None or real is None:
        return ()
    device_s = found.ceiling_s.median
    now = RungLine(
        code="as it is",
        step=numbers.amount(real.median, "s"),
        gain="",
        cores=numbers.amount(_cores_now(diagnosis), "cores"),
    )
    rungs = [
        RungLine(
            code=f"+ {rung.code.value}",
            step=numbers.amount(rung.step_s.median, "s"),
            gain=numbers.spread(rung.speedup, "x") if rung.speedup.is_promise else "no promise",
            cores=numbers.amount(rung.cores_per_accelerator, "cores"),
        )
        for rung in found.ladder
    ]
    ceiling = RungLine(
        code="the device alone",
        step=numbers.amount(found.ceiling_s.median, "s"),
        gain=f"{real.median / device_s:.2f}x at most" if device_s > 0 else "",
        cores="",
    )
    return (now, *rungs, ceiling)


def _cores_now(diagnosis: Diagnosis) -> float | None:
    """By the same formula as the rungs, where the file has it: workers may share cores badly."""
    table = diagnosis.capacity.table
    if table and table[0].rows:
        return table[0].rows[0].cores.median
    return diagnosis.capacity.cores_per_accelerator


def _costs(fix: RankedFix) -> str:
    """In words, with the bytes and minutes that are known."""
    charged = [
        f"{numbers.amount(float(size), 'bytes')} {where}"
        for size, where in ((fix.memory_bytes, "of memory"), (fix.disk_bytes, "of disk"))
        if size is not None
    ]
    if fix.minutes is not None and math.isfinite(fix.minutes):
        charged.append(_minutes(fix.minutes))
    return line(fix.costs) + (f" (about {', '.join(charged)})" if charged else "")


def _minutes(count: float) -> str:
    if count < 1:
        return "a minute"
    if count < _MINUTES_TOLD:
        return numbers.counted(round(count), "minute")
    return numbers.counted(round(count / 60), "hour")


def _as_heading(text: str) -> str:
    return text[:1].upper() + text[1:]


def _tried(measured: Spread | None) -> str:
    """What a trial in the script itself gave, where it had the steps to tell."""
    if measured is None:
        return ""
    return f"tried here: {numbers.withheld(measured) or numbers.spread(measured, 'x')}"


def _promise(speedup: Spread | None, withheld: str = "") -> str:
    if withheld:
        return f"no promise: {line(withheld)}"
    if speedup is None or math.isnan(speedup.median):
        return "no promise: interval too wide, measure longer"
    if not speedup.is_promise:
        inside = numbers.ends(speedup, numbers.unit_for("x", 1.0), 2)
        return f"no promise: interval too wide ({inside}), measure longer"
    return f"{numbers.spread(speedup, 'x')} forecast"
