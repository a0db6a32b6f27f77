"""Claim: the doctor names the known cause of each handed case, each time, and blames no control.

`python -m benchmarks.case_verdicts [--runs N] [--more] [--budget S] [CASE ...]`; "controls" stands
for all healthy cases. Cases run one at a time: those about cores mean nothing on a busy machine.
A case is kept as soon as it is measured.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections import Counter
from typing import Any

from benchmarks import record

CASES = record.ROOT / "tests" / "cases"
CLAIM = "Every run of a case gets an acceptable verdict and first fix; no control is blamed."
TIMEOUT_S = 150.0
EXPECTED: dict[str, dict[str, Any]] = json.loads((CASES / "expected.json").read_text())
CONTROLS = [case for case, entry in EXPECTED.items() if entry["control"]]
# The handed runner stands beside the cases, without types.
run_cases = importlib.import_module("tests.cases.run_cases")
# What stands in for the command `stoker`: the same with a budget of its own.
WITH_BUDGET = (
    "import sys; from stoker.cli.main import main; "
    "sys.exit(main(['doctor', '--budget', sys.argv[1], *sys.argv[3:]]))"
)


def answers(case: str, entry: dict[str, Any], runs: int, budget: str) -> list[dict[str, Any]]:
    """The judged answers of so many runs."""
    found = []
    for number in range(runs):
        command = [sys.executable, "-c", WITH_BUDGET, budget]
        report, problem, seconds = run_cases.call_doctor(command, CASES, case, entry, TIMEOUT_S)
        answer = run_cases.judge(entry, report, problem) | {"seconds": round(seconds, 1)}
        found.append(answer)
        said = f"{answer['verdict']}, {answer['first_fix']} {answer['problem'][:200]}"
        print(f"{case} {number + 1}/{runs}: {said} ({seconds:.0f} s)", file=sys.stderr, flush=True)
    return found


def is_right(answer: dict[str, Any]) -> bool:
    """An acceptable verdict and first fix; a control that is not blamed."""
    if answer["control"]:
        return not answer["blamed"]
    return bool(answer["verdict_ok"] and answer["fix_ok"])


def counted(values: list[str]) -> str:
    """ "pack", or "pack 2, none 1" where runs differ."""
    counts = Counter(values)
    if len(counts) == 1:
        return values[0]
    return ", ".join(f"{value} {count}" for value, count in counts.most_common())


def measure(name: str, cases: list[str], *, runs: int, budget: str, is_more: bool) -> bool:
    """Run the cases, and keep each under that name as soon as it is measured; True if all hold.

    budget: seconds for all legs of a run. is_more: add to the runs recorded at this commit.
    """
    every = True
    for case in cases:
        kept = record.of_this_revision(name, case) if is_more else None
        given = [
            *(kept["runs"] if kept else []),
            *answers(case, EXPECTED[case], runs, budget),
        ]
        every &= record.write(
            name,
            claim=CLAIM,
            columns=["case", "known cause", "verdicts", "first fixes", "right", "seconds a run"],
            rows={case: _cells(case, EXPECTED[case]["verdict"], given)},
            numbers={case: {"runs": given, "budget_s": budget}},
            passed={case: all(map(is_right, given))},
        )
    return every


def main() -> int:
    """Run the cases asked for, all without names."""
    parser = argparse.ArgumentParser(description=CLAIM)
    parser.add_argument("cases", nargs="*", metavar="CASE")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument(
        "--more", action="store_true", help="add to the runs that are recorded at this commit"
    )
    parser.add_argument("--budget", default="30", help="seconds for all legs of a run")
    args = parser.parse_args()
    chosen = [
        case
        for name in args.cases or EXPECTED
        for case in (CONTROLS if name == "controls" else [name])
    ]
    every = measure("case_verdicts", chosen, runs=args.runs, budget=args.budget, is_more=args.more)
    return 0 if every else 1


def _cells(case: str, cause: str, given: list[dict[str, Any]]) -> list[str]:
    return [
        case,
        cause,
        counted([answer["verdict"] for answer in given]),
        counted([answer["first_fix"] for answer in given]),
        f"{sum(map(is_right, given))} of {len(given)}",
        f"{sum(answer['seconds'] for answer in given) / len(given):.0f}",
    ]


if __name__ == "__main__":
    sys.exit(main())
