"""Claim: packing takes at most 300 MB and 64 MB for every worker, whatever the number of photos.

What counts is memory that belongs to the processes (anonymous pages, by smaps_rollup), not the page
cache that they fill. `python -m benchmarks.pack_memory [--photos 4000]`
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import record
from benchmarks.pack import photos

CLAIM = "Packing takes at most 300 MB and 64 MB for every worker."
FIXED_BYTES, WORKER_BYTES = 300e6, 64e6
_POLL_S = 0.1


def own_bytes(pid: int) -> int:
    """Anonymous memory of a process; 0 when it is gone."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    lines = [line.split() for line in text.splitlines()]
    return sum(int(line[1]) * 1024 for line in lines if line[0] == "Anonymous:")


def children(pid: int) -> list[int]:
    """The processes that a process started."""
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return []
    return [int(word) for word in text.split()]


def main() -> int:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=CLAIM)
    parser.add_argument("--photos", type=int, default=4000)
    args = parser.parse_args()
    workers = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as made:
        source = photos(Path(made), args.photos)
        command = [sys.executable, "-m", "stoker", "pack", str(source), f"{made}/packed"]
        options = ["--size", "256", "--quiet", "--workers", str(workers)]
        most = most_main = 0
        with subprocess.Popen([*command, *options], stdout=subprocess.DEVNULL) as running:
            while running.poll() is None:
                in_main = own_bytes(running.pid)
                most_main = max(most_main, in_main)
                most = max(most, in_main + sum(map(own_bytes, children(running.pid))))
                time.sleep(_POLL_S)
        if running.returncode:
            raise SystemExit("packing failed")
    allowed = FIXED_BYTES + workers * WORKER_BYTES
    row = f"{args.photos:,} photos, {workers} workers"
    held = record.write(
        "pack_memory",
        claim=CLAIM,
        columns=("packing", "all processes", "the first of them", "allowed"),
        rows={
            row: (
                row,
                f"{most / 1e6:.0f} MB",
                f"{most_main / 1e6:.0f} MB",
                f"{allowed / 1e6:.0f} MB",
            )
        },
        numbers={row: {"bytes": most, "main_bytes": most_main}},
        passed={row: most <= allowed},
    )
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
