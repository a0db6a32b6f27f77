"""Claim: a script without a fault is not blamed, however often it is examined.

`python -m benchmarks.false_alarms [--runs N] [--more]`: the healthy cases, one after another, with
legs of ten seconds in all, which is a third of what the doctor takes when nothing is said: less
time gives wider intervals and so more room for a mistake. About half an hour for twenty runs.
"""

from __future__ import annotations

import argparse
import sys

from benchmarks.case_verdicts import CONTROLS, measure

BUDGET_S = "10"


def main() -> int:
    """Run every control so often."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument(
        "--more", action="store_true", help="add to the runs that are recorded at this commit"
    )
    args = parser.parse_args()
    every = measure("false_alarms", CONTROLS, runs=args.runs, budget=BUDGET_S, is_more=args.more)
    return 0 if every else 1


if __name__ == "__main__":
    sys.exit(main())
