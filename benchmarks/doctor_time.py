"""Claim: a diagnosis of a script with 100 ms steps takes at most 45 s of wall time.

Steps that are asleep, with loaders that keep up, don't, and load in the training process.
"""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks import record
from benchmarks.doctor import diagnose

CLAIM = "`stoker doctor` on a script with 100 ms steps ends within 45 s, start-up included."
ALLOWED_S = 45.0
SUBJECT = Path(__file__).parent / "scripts" / "fixed_step.py"
LONG_ENOUGH = "100000"  # the doctor ends the script, not the script the doctor
# Workers, and CPU milliseconds of a sample (16 a batch).
SUBJECTS = {
    "serial loader": ("0", "4"),
    "loader keeps up": ("2", "2"),
    "loader too slow": ("2", "20"),
}


def main() -> int:
    """Measure, print and keep."""
    rows, numbers, passed = {}, {}, {}
    for name, (workers, load_ms) in SUBJECTS.items():
        arguments = ["--step-ms", "100", "--workers", workers, "--load-ms", load_ms]
        diagnosis = diagnose(SUBJECT, *arguments, "--steps", LONG_ENOUGH)
        took_s, step = diagnosis["took_s"], diagnosis["step"]
        verdict = diagnosis["verdict"]["code"]
        rows[name] = [name, f"{1000 * step['real_s']:.0f} ms", verdict, f"{took_s:.1f} s"]
        numbers[name] = {"took_s": took_s, "real_s": step["real_s"], "verdict": verdict}
        passed[name] = took_s <= ALLOWED_S
    holds = record.write(
        "doctor_time",
        claim=CLAIM,
        columns=["script", "real step", "verdict", "diagnosis took"],
        rows=rows,
        numbers=numbers,
        passed=passed,
    )
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
