"""Claim: being watched costs at most 1 % of a 20 ms step.

The same script plain and under the doctor's hooks (leg R only), in turn; the ratio of the mean
steps of each pair, with its interval over the pairs. `--workers` measures one row.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks import record
from benchmarks.watched import session_environment
from stoker.stats import Spread, bootstrap

CLAIM = "Watching costs at most 1 % of a 20 ms step (plain and watched in turn)."
ALLOWED = 0.01
SUBJECT = Path(__file__).parent / "scripts" / "fixed_step.py"
WATCHED = Path(__file__).with_name("watched.py")
STEPS = 150
SKIPPED = 30  # the queue that was filled before the first step, and the hooks' own warm-up
WORKERS = (0, 2)


def mean_step_s(workers: int, *, is_watched: bool, steps: int = STEPS) -> float:
    """Mean seconds of a step in one run of the script."""
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "steps.json"
        environment = dict(os.environ)
        command = [sys.executable]
        if is_watched:
            environment.update(session_environment(Path(scratch)))
            command.append(str(WATCHED))
        command += [str(SUBJECT), "--workers", str(workers)]
        subprocess.run(
            [*command, "--steps", str(steps), "--out", str(out)],
            env=environment,
            check=True,
            capture_output=True,
        )
        if is_watched and not list(Path(scratch).glob("trainer-*.jsonl")):
            raise RuntimeError("the hooks saw nothing: what was run was not watched")
        return statistics.fmean(json.loads(out.read_text())[SKIPPED:])


def measure(workers: int, rounds: int) -> tuple[Spread, list[float], list[float]]:
    """The watched step over the plain one, and the steps of all runs."""
    plain: list[float] = []
    watched: list[float] = []
    for number in range(rounds):
        # Each comes first in every other round, so that a drift of the machine favours neither.
        for is_watched in (False, True) if number % 2 else (True, False):
            taken = mean_step_s(workers, is_watched=is_watched)
            (watched if is_watched else plain).append(taken)
    return bootstrap([w / p for w, p in zip(watched, plain, strict=True)]), plain, watched


def main() -> int:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=CLAIM)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--workers", type=int, action="append", help="0 or 2; default: both")
    args = parser.parse_args()
    rows, numbers, passed = {}, {}, {}
    for workers in args.workers or WORKERS:
        ratio, plain, watched = measure(workers, args.rounds)
        key = f"{workers} workers"
        rows[key] = [
            key,
            f"{1000 * statistics.fmean(plain):.2f} ms",
            f"{1000 * statistics.fmean(watched):.2f} ms",
            f"{ratio.median - 1:+.2%} ({ratio.low - 1:+.2%} to {ratio.high - 1:+.2%})",
        ]
        numbers[key] = {"plain_s": plain, "watched_s": watched}
        passed[key] = ratio.median - 1 <= ALLOWED
    holds = record.write(
        "watch_cost",
        claim=CLAIM,
        columns=["loader", "plain step", "watched step", "cost"],
        rows=rows,
        numbers=numbers,
        passed=passed,
    )
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
