"""Claim: `stoker run --apply auto` leaves what is well as it is, and costs it nothing.

Each control case is diagnosed once; then it runs as it is and under `stoker run`, in turn, timed
from outside. `python -m benchmarks.controls [--rounds N] [CASE ...]`, about 2 minutes a case.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import record
from benchmarks.remedies import CASES, TIMINGS, diagnosed

ALLOWED = 0.02
CLAIM = (
    "stoker run --apply auto applies nothing to a case without a fault, and its steps take at most "
    "2 % longer than without it (median of runs in turn)."
)
EXPECTED: dict[str, Any] = json.loads((CASES / "expected.json").read_text())
CONTROLS = tuple(case for case in TIMINGS if EXPECTED[case]["control"])


def measure(case: str, rounds: int) -> dict[str, Any]:
    """Diagnose once; then `rounds` pairs of runs."""
    script, arguments = f"{case}.py", EXPECTED[case]["argv"]
    plain: list[float] = []
    under: list[float] = []
    with tempfile.TemporaryDirectory() as scratch:
        found = diagnosed(case, Path(scratch))
        for number in range(rounds):
            # Each comes first in every other round, so that a drift of the machine favours neither.
            for is_under in (False, True) if number % 2 else (True, False):
                command = found.run if is_under else [sys.executable]
                taken = TIMINGS[case].step_s([*command, script], arguments, CASES)
                (under if is_under else plain).append(taken)
    return {
        "verdict": found.diagnosis["verdict"]["code"],
        "applied": found.applied,
        "plain_s": plain,
        "under_s": under,
        "slower": statistics.median(u / p for u, p in zip(under, plain, strict=True)) - 1,
    }


def holds(numbers: dict[str, Any]) -> bool:
    """Left alone, in both senses."""
    return bool(numbers["applied"] == "nothing" and numbers["slower"] <= ALLOWED)


def cells(numbers: dict[str, Any]) -> list[str]:
    """One row of the table."""
    return [
        numbers["verdict"],
        numbers["applied"],
        f"{1000 * statistics.median(numbers['plain_s']):.3g} ms",
        f"{1000 * statistics.median(numbers['under_s']):.3g} ms",
        f"{numbers['slower']:+.1%}",
    ]


def main() -> int:
    """Measure the cases asked for, all without names."""
    parser = argparse.ArgumentParser(description=CLAIM)
    parser.add_argument("cases", nargs="*", choices=[*CONTROLS, []])
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    every = True
    for case in args.cases or CONTROLS:  # written one by one: it is a long way to the last
        found = measure(case, args.rounds)
        every &= record.write(
            "controls",
            claim=CLAIM,
            columns=["case", "verdict", "applied", "as is", "under stoker run", "slower"],
            rows={case: [case, *cells(found)]},
            numbers={case: found},
            passed={case: holds(found)},
        )
    return 0 if every else 1


if __name__ == "__main__":
    sys.exit(main())
