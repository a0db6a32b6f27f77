"""Claim: reading 2,000 small files through the sandbox's layers costs less than 20 µs a file more.

Open, read and close of files of 4 kB in a warm cache, in fresh processes inside and outside of the
sandbox by turns. `python -m benchmarks.sandbox_cost`
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks import record
from stoker.probe import sandbox

CLAIM = "Opening, reading and closing a small file costs at most 20 µs more in the sandbox."
ALLOWED_US = 20.0  # a decoded JPEG takes 2,000 µs and more
FILES = 2_000
ROUNDS = 7
READER = """\
import os, sys, time
names = sorted(os.listdir("."))
def read_all():
    started = time.perf_counter()
    for name in names:
        with open(name, "rb", buffering=0) as file:
            file.read()
    return time.perf_counter() - started
print(read_all(), read_all())
"""


ROWS = ("first time in a process", "second time")


def read_us(command: list[str], folder: Path) -> list[float]:
    """Microseconds a file, the first time in a process and the second time."""
    said = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout
    return [float(text) / FILES * 1e6 for text in said.split()]


def main() -> int:
    """Measure, print and keep."""
    reason = sandbox.unavailable()
    if reason is not None:
        sys.stderr.write(f"not measured: {reason}\n")
        return 1
    reader = [sys.executable, "-c", READER]
    plain, layered = [], []
    # Not below TMPDIR: that stays real.
    with tempfile.TemporaryDirectory(dir=record.ROOT) as made:
        folder = Path(made)
        for number in range(FILES):
            (folder / f"{number:05}").write_bytes(os.urandom(4096))
        for _ in range(ROUNDS):
            plain.append(read_us(reader, folder))
            with tempfile.TemporaryDirectory() as session:
                layered.append(read_us(sandbox.wrap(reader, Path(session)), folder))
                sandbox.discard(Path(session))
    rows, numbers, passed = {}, {}, {}
    for row, without, inside in zip(ROWS, medians(plain), medians(layered), strict=True):
        rows[row] = (row, f"{without:.1f} µs", f"{inside:.1f} µs", f"{inside - without:+.1f} µs")
        numbers[row] = {"without_s": without / 1e6, "inside_s": inside / 1e6}
        passed[row] = inside - without <= ALLOWED_US
    held = record.write(
        "sandbox_cost",
        claim=CLAIM,
        columns=("open, read, close", "without", "in the sandbox", "more"),
        rows=rows,
        numbers=numbers,
        passed=passed,
    )
    return 0 if held else 1


def medians(rounds: list[list[float]]) -> list[float]:
    """The median of each column."""
    return [statistics.median(column) for column in zip(*rounds, strict=True)]


if __name__ == "__main__":
    sys.exit(main())
