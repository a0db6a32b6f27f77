"""Claim: the doctor's step times are those of the plain script, within 10 %.

For each case: the plain script timed from outside, its loop over repeated batches, and the
doctor, one after the other. `python -m benchmarks.doctor_fidelity [CASE …]`
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import record
from benchmarks.doctor import diagnose
from benchmarks.plain import ByEpoch, ByLength

FOLDER = record.ROOT / "tests" / "cases"
CLAIM = (
    "`step.real_s` and `step.host_s` are within 10 % of the plain script's step and of its loop "
    "over repeated batches, and the rows of the ledger sum to `step.real_s`."
)
ALLOWED = 0.10
# Rows are written with more digits than anyone needs; only rounding may part the sum from R.
LEDGER_TOLERANCE = 1e-3
# How the plain script is timed: enough steps for a mean within 2 %, few enough to be done soon.
WAYS: dict[str, ByEpoch | ByLength] = {
    "c01": ByEpoch(steps=100, epochs=1),
    "c11": ByEpoch(steps=100, epochs=1),
    "c04": ByLength(short=10, long=110),
    "c10b": ByEpoch(steps=60, epochs=4),
    "c20b": ByLength(short=20, long=220),
    "c08b": ByEpoch(steps=100, epochs=1),
}
REPEATED_STEPS = 50


def repeated_s(script: Path) -> float:
    """Median seconds of a step on repeated batches."""
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "steps.json"
        runner = Path(__file__).with_name("repeated_batch.py")
        subprocess.run(
            [sys.executable, str(runner), str(out), str(REPEATED_STEPS), script.name],
            cwd=script.parent,
            check=True,
            capture_output=True,
        )
        return float(statistics.median(json.loads(out.read_text())))


def measure(case: str) -> dict[str, Any]:
    """Everything about one case, in seconds."""
    script = FOLDER / f"{case}.py"
    expected = json.loads((FOLDER / "expected.json").read_text())[case]
    plain = WAYS[case].time(script)
    host_s = repeated_s(script)
    diagnosis = diagnose(script, *expected["argv"])
    step = diagnosis["step"]
    return {
        "plain_s": plain.mean_s,
        "plain_stretches_s": plain.stretches_s,
        "repeated_s": host_s,
        "real_s": step["real_s"],
        "host_s": step["host_s"],
        "ledger_s": sum(row["seconds"] for row in diagnosis["ledger"]),
        "doctor_took_s": diagnosis["took_s"],
        "verdict": diagnosis["verdict"]["code"],
    }


def main() -> int:
    """Measure the cases named, or all of them."""
    parser = argparse.ArgumentParser(description=CLAIM)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(WAYS)}")
    args = parser.parse_args()
    unknown = set(args.cases) - set(WAYS)
    if unknown:
        parser.error(f"unknown cases {', '.join(sorted(unknown))}: allowed are {', '.join(WAYS)}")
    rows, numbers, passed = {}, {}, {}
    for case in args.cases or WAYS:
        found = numbers[case] = measure(case)
        off_real = found["real_s"] / found["plain_s"] - 1
        off_host = found["host_s"] / found["repeated_s"] - 1
        off_sum = found["ledger_s"] / found["real_s"] - 1
        rows[case] = [
            case,
            f"{1000 * found['plain_s']:.1f} ms",
            f"{1000 * found['real_s']:.1f} ms",
            f"{off_real:+.1%}",
            f"{1000 * found['repeated_s']:.1f} ms",
            f"{1000 * found['host_s']:.1f} ms",
            f"{off_host:+.1%}",
        ]
        within = abs(off_real) <= ALLOWED and abs(off_host) <= ALLOWED
        passed[case] = within and abs(off_sum) <= LEDGER_TOLERANCE
    holds = record.write(
        "doctor_fidelity",
        claim=CLAIM,
        columns=["case", "plain step", "real_s", "real off", "repeated", "host_s", "host off"],
        rows=rows,
        numbers=numbers,
        passed=passed,
    )
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
