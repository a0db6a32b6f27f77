"""Claim: `import stoker` takes less than 50 ms and `stoker --help` less than 300 ms.

Fresh interpreters, interleaved with `python -c pass`; the median of each over all rounds.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

from benchmarks import record

ROUNDS = 20
CLAIM = (
    "`import stoker` adds less than 50 ms to Python's start; "
    "`stoker --help` takes less than 300 ms."
)
COMMANDS = {
    "python": [sys.executable, "-c", "pass"],
    "import": [sys.executable, "-c", "import stoker"],
    "help": [sys.executable, "-m", "stoker", "--help"],
}
LIMITS_S = {"import": 0.050, "help": 0.300}


def _seconds(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - started


def main() -> int:
    """Measure, print and keep."""
    taken: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(ROUNDS):
        for name, command in COMMANDS.items():
            taken[name].append(_seconds(command))
    start = statistics.median(taken["python"])
    middle = {
        "import": statistics.median(taken["import"]) - start,
        "help": statistics.median(taken["help"]),
    }
    titles = {"import": "`import stoker`, beyond Python's start", "help": "`stoker --help`, whole"}
    holds = record.write(
        "import_time",
        claim=CLAIM,
        columns=["what", "median", "limit"],
        rows={
            name: [titles[name], f"{1000 * middle[name]:.0f} ms", f"{1000 * limit:.0f} ms"]
            for name, limit in LIMITS_S.items()
        },
        numbers={
            name: {"median_s": middle[name], "python_start_s": start, "runs_s": taken[name]}
            for name in LIMITS_S
        },
        passed={name: middle[name] < limit for name, limit in LIMITS_S.items()},
    )
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
