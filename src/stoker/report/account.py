"""The ledger of one step as finished strings: one unit, one precision, a length in the bar."""

from __future__ import annotations

import math

from stoker.records.diagnosis import Diagnosis, LedgerRow
from stoker.report import numbers, wording
from stoker.report.plain import line
from stoker.report.shape import Ledger, LedgerLine
from stoker.stats import Spread

# Rows and step are rounded apart when they are written; more than this is a wrong account.
_SUM_TOLERANCE = 0.005


def ledger(diagnosis: Diagnosis) -> Ledger:
    """The account of one step: rows in the step's own unit, which add up to it."""
    rows, real = diagnosis.ledger, diagnosis.step.real_s
    summed = sum(row.seconds for row in rows if math.isfinite(row.seconds))
    whole = real if real is not None and math.isfinite(real) else summed
    unit = numbers.unit_for("s", whole)
    decimals = numbers.decimals_for(whole * unit.factor, 4)
    drawn = sum(row.seconds for row in rows if _is_drawn(row))
    lines = tuple(
        LedgerLine(
            part=row.part,
            name=row.part.value,
            meaning=wording.PARTS[row.part],
            time=numbers.fixed(row.seconds * unit.factor, decimals),
            interval=numbers.ends(Spread(row.seconds, row.low, row.high), unit, decimals),
            share=numbers.percent(row.seconds / whole) if whole else "",
            leg=line(row.leg),
            fraction=row.seconds / drawn if _is_drawn(row) else 0.0,
        )
        for row in rows
    )
    return Ledger(
        heading="Where one step goes",
        unit=unit.suffix.strip(),
        lines=lines,
        total=numbers.fixed(whole * unit.factor, decimals),
        total_note="the rows add up to it",
        remarks=_remarks(rows, summed, whole),
    )


def _remarks(rows: tuple[LedgerRow, ...], summed: float, whole: float) -> tuple[str, ...]:
    remarks = []
    negative = [row.part.value for row in rows if row.seconds < 0]
    if negative:
        remarks.append(
            f"Below zero: {', '.join(negative)}. It counts in the sum, and can't be drawn."
        )
    if rows and abs(summed - whole) > _SUM_TOLERANCE * abs(whole):
        remarks.append(
            f"The rows add up to {numbers.amount(summed, 's')}, the step took "
            f"{numbers.amount(whole, 's')}: this account is incomplete."
        )
    return tuple(remarks)


def _is_drawn(row: LedgerRow) -> bool:
    return math.isfinite(row.seconds) and row.seconds > 0
