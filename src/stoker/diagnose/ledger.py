"""The account of one step: what every part of it costs, adding up to the whole.

W ≥ 1: R = D + (H − D) transfer + (C − H) contention + max(0, Lc − C) rate deficit + epoch edge +
jitter. W = 0: R = D + (H − D) transfer + the wait inside next() + epoch edge + jitter. Jitter is
the rest, so the rows sum to R exactly; differences may be negative and stay so.
"""

from __future__ import annotations

from stoker.diagnose.facts import Facts
from stoker.records.diagnosis import LedgerRow, Part
from stoker.stats import Spread, difference


def account(facts: Facts) -> tuple[LedgerRow, ...]:
    """The rows, device first, jitter last."""
    rows = [_row(Part.DEVICE, facts.device, "D")]
    if facts.on_host is not facts.device:
        rows.append(_row(Part.TRANSFER, difference(facts.on_host, facts.device), "H-D"))
    if facts.workers == 0:
        rows.append(_row(Part.SERIAL, facts.waits, "R"))
    else:
        rows.append(_row(Part.CONTENTION, difference(facts.contended, facts.on_host), "C-H"))
        rows.append(_row(Part.RATE_DEFICIT, _deficit(facts), "C"))
    rows.append(_row(Part.EPOCH_EDGE, facts.edge, "R"))
    explained = sum(row.seconds for row in rows)
    rest = facts.real.median - explained
    slack = max(facts.real.high - facts.real.median, facts.real.median - facts.real.low)
    rows.append(
        LedgerRow(part=Part.JITTER, seconds=rest, low=rest - slack, high=rest + slack, leg="R")
    )
    return tuple(rows)


def part(rows: tuple[LedgerRow, ...], name: Part) -> float:
    """Seconds of one part; 0 when the account has no such row."""
    return next((row.seconds for row in rows if row.part is name), 0.0)


def _row(name: Part, seconds: Spread, leg: str) -> LedgerRow:
    return LedgerRow(part=name, seconds=seconds.median, low=seconds.low, high=seconds.high, leg=leg)


def _deficit(facts: Facts) -> Spread:
    """By how much the loader's period exceeds the step that it runs beside."""
    if facts.produce is None:
        return Spread.exact(0.0)
    raw = difference(facts.produce, facts.contended)
    return Spread(max(0.0, raw.median), max(0.0, raw.low), max(0.0, raw.high), raw.count)
