"""Claim: what `stoker pack --plan` forecasts comes true: size, time and rate.

Every candidate of the plan is packed for real and read, once as the plan reads its sample and once
by stoker.Loader; size within 5 %, time within 20 %, both rates within 15 %. Files that are kept
come to their size in another way in the Loader, so that their rate is the plan's own alone.
`python -m benchmarks.pack_plan [--photos 8000]`
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import stoker
from benchmarks import record
from benchmarks.pack import photos
from stoker.pack import Codec, Pack, speed
from stoker.pack.build import How, build
from stoker.pack.candidates import candidates_for
from stoker.pack.job import make_job
from stoker.pack.manifest import Transform
from stoker.pack.plan import PackCandidate, plan
from stoker.pack.sources.find import list_source
from stoker.probe.cgroup import control_group
from stoker.probe.host import available_memory

CLAIM = (
    "A plan's forecasts come true: size within 5 %, packing time within 20 %, and within 15 % the "
    "rate at which the whole pack is read, in the plan's own way and by stoker.Loader (not of kept "
    "files, which that resizes in a way of its own)."
)
SIZE, TIME, RATE = 0.05, 0.20, 0.15
BATCH = 64
# The first stretch warms up; the Loader settles on its threads in it.
_WARM_S, _LOADER_S = 2.0, 5.0


class Found(NamedTuple):
    """What a pack came to: bytes, seconds, samples a second of a bare read and of the Loader."""

    size: int
    pack_s: float
    read_per_s: float
    loader_per_s: float | None


def loader_rate(pack: Pack, side: int) -> float:
    """Samples a second that stoker.Loader takes out of a cached pack, in shuffled order.

    Whole pictures, and of a crop-jpeg the share of the area that a random crop takes on average.
    """
    crop = None
    if pack.field("image").codec is Codec.CROP_JPEG:
        crop = stoker.augment.RandomCrop(int(side * speed.CROP_SHARE**0.5))
    loader = stoker.Loader(pack, BATCH, shuffle=True, crop=crop, array="numpy", drop_last=True)
    count, began, end = 0, 0.0, time.perf_counter() + _WARM_S
    while True:
        for batch in loader:
            now = time.perf_counter()
            if began and now >= end:
                return count / (now - began)
            if not began and now >= end:
                began, end = now, now + _LOADER_S
            elif began:
                count += len(batch["index"])


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
        asked = Transform(tier="raw", size=256)
        ways = candidates_for(asked, None)
        memory_bytes = available_memory(control_group()) or 0
        forecast = plan(
            listing, ways, Path(made) / "packed", workers=workers, memory_bytes=memory_bytes
        )
        for number, (way, told) in enumerate(zip(ways, forecast.candidates, strict=True)):
            began = time.perf_counter()
            done = build(make_job(listing, way), Path(made) / str(number), How(workers=workers))
            seconds = time.perf_counter() - began
            assert done.pack is not None, "all was packed"
            size = sum(f.size for s in done.pack.shards for f in s.files)
            found = Found(
                size,
                seconds,
                speed.reads(done.pack, workers, fit=asked).median,
                None if way.size is None else loader_rate(done.pack, way.size),
            )
            key = told.tier if told.size is None else f"{told.tier} {told.size}"
            rows[key], numbers[key], passed[key] = _row(key, told, found)
    held = record.write(
        "pack_plan",
        claim=CLAIM,
        columns=(
            *("tier", "size", "off by", "packing", "off by"),
            *("read, samples/s", "off by", "Loader, samples/s", "off by"),
        ),
        rows=rows,
        numbers=numbers,
        passed=passed,
    )
    return 0 if held else 1


def _row(
    key: str, told: PackCandidate, found: Found
) -> tuple[tuple[str, ...], dict[str, float], bool]:
    rate = told.read_samples_per_s.median
    rows = [
        (f"{found.size / 1e6:,.0f} MB", off(told.bytes, found.size), SIZE),
        (f"{found.pack_s:.1f} s", off(told.pack_s.median, found.pack_s), TIME),
        (f"{found.read_per_s:,.0f}", off(rate, found.read_per_s), RATE),
    ]
    if found.loader_per_s is not None:
        rows.append((f"{found.loader_per_s:,.0f}", off(rate, found.loader_per_s), RATE))
    cells = [cell for shown, error, _ in rows for cell in (shown, f"{error:+.1%}")]
    cells += ["", ""] * (4 - len(rows))
    numbers = {name: value for name, value in found._asdict().items() if value is not None}
    return (key, *cells), numbers, all(abs(error) <= limit for _, error, limit in rows)


if __name__ == "__main__":
    sys.exit(main())
