"""Claim: what `stoker pack --plan` forecasts comes true: size, time and rate.

Every candidate of the plan is packed for real and read; size within 5 %, time within 20 %, the rate
of reading within 15 %. `python -m benchmarks.pack_plan [--photos 8000]`
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import record
from benchmarks.pack import photos
from stoker.pack import speed
from stoker.pack.build import How, build
from stoker.pack.job import make_job
from stoker.pack.plan import PackCandidate, candidates_for, plan
from stoker.pack.sources.find import list_source

CLAIM = (
    "A plan's forecasts come true: size within 5 %, packing time within 20 %, reading rate within "
    "15 %."
)
SIZE, TIME, RATE = 0.05, 0.20, 0.15


def off(forecast: float, found: float) -> float:
    """How far the forecast was off, as a share of what was found."""
    return forecast / found - 1


def main() -> int:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=CLAIM)
    parser.add_argument("--photos", type=int, default=8000)
    args = parser.parse_args()
    workers = len(os.sched_getaffinity(0))
    rows, numbers, passed = {}, {}, {}
    with tempfile.TemporaryDirectory() as made:
        listing = list_source(str(photos(Path(made), args.photos)))
        ways = candidates_for(256)
        forecast = plan(listing, ways, Path(made) / "packed", workers=workers)
        for number, (way, told) in enumerate(zip(ways, forecast.candidates, strict=True)):
            began = time.perf_counter()
            done = build(make_job(listing, way), Path(made) / str(number), How(workers=workers))
            seconds = time.perf_counter() - began
            assert done.pack is not None, "all was packed"
            size = sum(f.size for s in done.pack.shards for f in s.files)
            rate = speed.reads(done.pack, workers).median
            key = told.tier if told.size is None else f"{told.tier} {told.size}"
            rows[key], numbers[key], passed[key] = _row(key, told, (size, seconds, rate))
    held = record.write(
        "pack_plan",
        claim=CLAIM,
        columns=("tier", "size", "off by", "packing", "off by", "read, samples/s", "off by"),
        rows=rows,
        numbers=numbers,
        passed=passed,
    )
    return 0 if held else 1


def _row(
    key: str, told: PackCandidate, found: tuple[float, float, float]
) -> tuple[tuple[str, ...], dict[str, float], bool]:
    size, seconds, rate = found
    errors = (
        off(told.bytes, size),
        off(told.pack_s.median, seconds),
        off(told.read_samples_per_s.median, rate),
    )
    cells = (
        *(key, f"{size / 1e6:,.0f} MB", f"{errors[0]:+.1%}"),
        *(f"{seconds:.1f} s", f"{errors[1]:+.1%}", f"{rate:,.0f}", f"{errors[2]:+.1%}"),
    )
    kept = {"bytes": size, "pack_s": seconds, "read_samples_per_s": rate}
    is_near = all(abs(e) <= limit for e, limit in zip(errors, (SIZE, TIME, RATE), strict=True))
    return cells, kept, is_near


if __name__ == "__main__":
    sys.exit(main())
