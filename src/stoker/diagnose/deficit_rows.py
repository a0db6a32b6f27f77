"""The rows of evidence that every cause of a slow loader is told with."""

from __future__ import annotations

from stoker.diagnose.facts import Facts
from stoker.diagnose.judgement import row
from stoker.diagnose.wording import cores, ms
from stoker.records.diagnosis import Evidence
from stoker.records.profile import Leg


def deficit_rows(facts: Facts) -> list[Evidence]:
    """The loader's period against the step's, and the cores that its workers use."""
    assert facts.produce is not None
    rows = [
        row(
            "a batch from the loader while the step runs",
            facts.produce,
            f"C {ms(facts.contended)}",
            "C",
        )
    ]
    if facts.cores_busy is not None:
        rows.append(
            row(
                "cores that the workers keep busy"
                if facts.loader.watched is None
                else "cores that this process keeps busy",
                facts.cores_busy,
                f"{cores(facts.cores_usable)} owned",
                "L",
                "cores",
            )
        )
    return rows


def scaling_row(facts: Facts, leg: Leg) -> Evidence:
    """The loader's period with another worker count."""
    assert facts.alone is not None
    return row(
        f"a batch with {leg.workers} workers",
        leg.period,
        f"L {ms(facts.alone.period)} with {facts.workers}",
        f"L{leg.workers}",
    )
