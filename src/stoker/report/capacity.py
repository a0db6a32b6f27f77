"""The capacity answer as finished strings: a sentence, and cores by rung and accelerator."""

from __future__ import annotations

import math
from collections.abc import Sequence

from stoker.records.diagnosis import SUPPOSED, CoresOn, Diagnosis
from stoker.report import numbers
from stoker.report.plain import line
from stoker.report.shape import CapacityTable
from stoker.stats import Spread


def sentence(diagnosis: Diagnosis) -> str:
    """How many cores one accelerator needs; empty when that isn't known."""
    text, cores = diagnosis.capacity.sentence, diagnosis.capacity.cores_per_accelerator
    if text or cores is None or not math.isfinite(cores):
        return line(text)
    return f"One accelerator of this workload needs {numbers.amount(cores, 'cores')}."


def table(diagnosis: Diagnosis) -> CapacityTable:
    """One column for each accelerator, this one first; one row for each rung."""
    found = diagnosis.capacity.table
    if not found:
        return CapacityTable()
    rows = [
        ("pace", *(numbers.spread(one.times, "x") for one in found)),
        ("model alone", *(numbers.amount(one.step_s.median, "s") for one in found)),
    ]
    for index, rung in enumerate(found[0].rows):
        label = "cores as it is" if rung.after is None else f"+ {rung.after.value}"
        rows.append((label, *(_after(one, index) for one in found)))
    random = [one.irreducible for one in found]
    if all(one is not None for one in random):
        label = "its random part"
        rows.append((label, *(_cores(one) for one in random)))
    if any(one.hosts is not None for one in found):
        rows.append(("the zoo's hosts have", *(_cores(one.hosts) for one in found)))
    return CapacityTable(
        columns=tuple(line(one.accelerator) for one in found),
        rows=tuple(rows),
        remarks=_remarks(diagnosis, found),
    )


def _remarks(diagnosis: Diagnosis, found: Sequence[CoresOn]) -> tuple[str, ...]:
    remarks = [
        f"Other paces from the {line(source)}: a model lies between."
        for source in dict.fromkeys(one.source for one in found[1:])
        if source != SUPPOSED
    ]
    if len(found) > 1 and not remarks:
        remarks.append("The zoo does not know this device: its next ones are supposed paces.")
    if any(one.hosts is not None for one in found):
        remarks.append("What hosts have: physical cores for each accelerator, median and range.")
    # With a ladder this stands below it already.
    told = diagnosis.outlook is not None and diagnosis.outlook.irreducible
    if diagnosis.capacity.irreducible and not told:
        remarks.append(line(diagnosis.capacity.irreducible))
    return tuple(remarks)


def _after(column: CoresOn, rung: int) -> str:
    return _cores(column.rows[rung].cores) if rung < len(column.rows) else ""


def _cores(number: Spread | None) -> str:
    """Cores with a band, to the digit that matters when machines are chosen; empty if unknown."""
    if number is None:
        return ""
    decimals = numbers.decimals_for(number.median, 2)
    inside = numbers.ends(number, numbers.unit_for("", number.median), decimals)
    centre = numbers.fixed(number.median, decimals)
    return f"{centre} ({inside})" if inside else centre
