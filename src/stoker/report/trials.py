"""What was tried beside the loop as it is, as finished strings."""

from __future__ import annotations

import shlex

from stoker.records.diagnosis import Diagnosis, Tried, Tryout
from stoker.report import numbers
from stoker.report.plain import line
from stoker.report.shape import Trials, TriedLine
from stoker.stats import Spread


def trials(diagnosis: Diagnosis) -> Trials | None:
    """The table, the loop as it is first; None where nothing was to be tried."""
    found = diagnosis.tryout
    if found is None:
        return None
    tried = [row for row in found.rows if not row.skipped]
    return Trials(
        lines=(_as_it_is(found), *(_tried(row, found) for row in tried)) if tried else (),
        skipped=tuple((line(row.name), line(row.skipped)) for row in found.rows if row.skipped),
        sentence=line(found.sentence),
        command=_command(diagnosis, found),
    )


def _as_it_is(found: Tryout) -> TriedLine:
    return TriedLine(
        name="as it is",
        step=numbers.amount(found.baseline_s.median if found.baseline_s else None, "s"),
        gain="",
        tied="pick" if not found.pick and not found.unsure else "",
        memory="",
        note="",
    )


def _tried(row: Tried, found: Tryout) -> TriedLine:
    is_pick = bool(found.pick) and row.name == found.pick
    return TriedLine(
        name=line(row.name),
        step=numbers.amount(row.step_s.median if row.step_s else None, "s"),
        gain=_gain(row.speedup),
        tied="pick" if is_pick else "tied" if row.is_tied else "",
        memory=_memory(row.memory_bytes),
        note=line(row.costs),
    )


def _gain(gain: Spread | None) -> str:
    """As short as the column is; the sentence below the table says the rest."""
    if gain is None or gain.is_promise:
        return numbers.spread(gain, "x")
    return f"at least {numbers.amount(gain.low, 'x')}" if gain.low > 1 else "too few steps"


def _memory(count: int | None) -> str:
    if count is None:
        return "?"
    return f"{'+' if count > 0 else ''}{numbers.amount(float(count), 'bytes')}"


def _command(diagnosis: Diagnosis, found: Tryout) -> str:
    if not found.pick:
        return ""
    return line(shlex.join(("stoker", "run", "--apply", found.pick, *diagnosis.script.argv)))
