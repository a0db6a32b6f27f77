"""Claim: packing runs at 0.8 of what decoding, resizing and writing alone allow, ahead of peers.

`python -m benchmarks.pack [--peers FOLDER] [--photos 20000]`: FOLDER holds one environment a peer,
made by benchmarks/contenders/setup; a peer without one is named with the reason. All do the same
work (512² photos to 256² raw pixels) on the same cores, in turn; further rounds go back and forth,
and the best round counts for each. With `--rates FILE` what is measured is kept there line by line,
and a run that was stopped goes on.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks import record
from benchmarks.contenders import environments
from stoker.pack.build import How, build
from stoker.pack.job import make_job
from stoker.pack.manifest import Transform
from stoker.pack.sources.find import list_source

CLAIM = (
    "`stoker pack` (512² photos to 256² raw) reaches 0.8 of the rate of bare processes that decode "
    "with simplejpeg, resize and write, and is faster than other writers doing the same work."
)
ALLOWED = 0.8
# Environment of a peer -> the name that scripts/pack_with.py knows it by.
PEERS = {
    "litdata": "litdata",
    "mosaicml-streaming": "mds",
    "webdataset": "webdataset",
    "ffcv": "ffcv",
}
CONTENDERS = ("limit", "stoker", *PEERS)
SCRIPT = Path(__file__).parent / "scripts" / "pack_with.py"
# Photos that differ; more are links to these, under other names.
DIFFERENT = 2000


class Round(NamedTuple):
    """One measurement: photos a second of wall time, and CPU seconds a photo."""

    photos_per_s: float
    cpu_s: float


def photos(folder: Path, count: int) -> Path:
    """So many photos in class folders."""
    made = folder / "made"
    command = [sys.executable, "make_tiles.py", str(made), "--count", str(min(count, DIFFERENT))]
    subprocess.run(command, cwd=record.ROOT / "examples", check=True, stdout=subprocess.DEVNULL)
    tiles = sorted(made.glob("*/*.jpg"))
    linked = folder / "photos"
    for number in range(count):
        tile = tiles[number % len(tiles)]
        path = linked / tile.parent.name / f"{number:06}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        os.link(tile, path)
    return linked


def ours_s(source: Path, target: Path, workers: int) -> float:
    """Seconds of `stoker pack`, listing and the start of the workers included."""
    began = time.perf_counter()
    job = make_job(list_source(str(source)), Transform(tier="raw", size=256))
    build(job, target, How(workers=workers))
    return time.perf_counter() - began


def theirs_s(python: Path, kind: str, listed: Path, target: Path, workers: int) -> float:
    """Seconds of a peer, without its imports."""
    command = [str(python), str(SCRIPT), kind, str(listed), str(target), str(workers)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    told = [line for line in ended.stdout.splitlines() if line.startswith("seconds ")]
    if ended.returncode or not told:
        sys.stderr.write(f"{kind}: {ended.stdout[-500:]}{ended.stderr[-1500:]}\n")
        said = ended.stderr.strip().splitlines() or [f"exit code {ended.returncode}"]
        raise RuntimeError(environments.short(said[-1]))
    return float(told[-1].split()[1])


def _known(path: Path | None) -> dict[str, list[Round]]:
    """What an earlier run kept."""
    if path is None or not path.exists():
        return {}
    known = json.loads(path.read_text())
    return {name: [Round(*one) for one in rounds] for name, rounds in known.items()}


def _measured(
    names: list[str], peers: Path, count: int, workers: int
) -> Iterator[tuple[str, Round | str]]:
    """Pack with one after the other; of one that fails, why."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        source = photos(folder, count)
        listed = folder / "list.txt"
        listed.write_text("\n".join(str(path) for path in sorted(source.glob("*/*.jpg"))))
        for name in names:
            target = folder / "packed"
            before_s = _cpu_s()
            try:
                if name == "stoker":
                    seconds = ours_s(source, target, workers)
                else:
                    own = peers / name / "bin" / "python"
                    python = Path(sys.executable) if name == "limit" else own
                    seconds = theirs_s(python, PEERS.get(name, name), listed, target, workers)
            except RuntimeError as failed:
                yield name, f"not measured: {failed}"
                continue
            finally:
                spent_s = _cpu_s() - before_s
                shutil.rmtree(target, ignore_errors=True)
            yield name, Round(count / seconds, spent_s / count)


def _cpu_s() -> float:
    """CPU seconds of this process and of all that have ended below it."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def main() -> int:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=CLAIM)
    parser.add_argument("--peers", type=Path, default=environments.FOLDER)
    parser.add_argument("--photos", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--rates", type=Path)
    args = parser.parse_args()
    workers = len(os.sched_getaffinity(0))
    found = _known(args.rates)
    why_not = {name: why for name in PEERS if (why := environments.why_not(args.peers / name))}
    to_do = [
        name
        for number in range(args.rounds)
        for name in (CONTENDERS if number % 2 == 0 else reversed(CONTENDERS))
        if len(found.get(name, [])) <= number and name not in why_not
    ]
    if to_do:
        for name, one in _measured(to_do, args.peers, args.photos, workers):
            if isinstance(one, str):
                why_not[name] = one
                continue
            told = f"{one.photos_per_s:,.0f} photos a second, {one.cpu_s * 1e3:.2f} ms CPU a photo"
            print(f"{name}: {told}", file=sys.stderr)
            found.setdefault(name, []).append(one)
            if args.rates is not None:
                args.rates.write_text(json.dumps(found) + "\n")
    return 0 if _keep(found, why_not, args.photos, workers) else 1


def _keep(found: dict[str, list[Round]], why_not: dict[str, str], count: int, workers: int) -> bool:
    """Print the table and keep it; True when all that is claimed holds."""
    found = {name: rounds for name, rounds in found.items() if name not in why_not}
    best = {name: max(one.photos_per_s for one in rounds) for name, rounds in found.items()}
    rows, numbers = {}, {}
    passed: dict[str, bool | None] = {}
    for name, rate in best.items():
        rows[name] = (
            "bare processes (the limit)" if name == "limit" else name,
            f"{rate:,.0f}",
            " · ".join(f"{one.photos_per_s:,.0f}" for one in found[name]),
            f"{rate / best['limit']:.0%}",
            f"{min(one.cpu_s for one in found[name]) * 1e3:.2f} ms",
        )
        numbers[name] = {"photos": count, "workers": workers, "rounds": found[name]}
        passed[name] = True
        if name == "stoker":
            passed[name] = rate / best["limit"] >= ALLOWED
        elif name != "limit":
            passed[name] = rate < best["stoker"]
    return record.write(
        "pack",
        claim=CLAIM,
        columns=("writer", "photos/s", "rounds", "of the limit", "CPU a photo"),
        rows=rows | {name: (name, why, "", "", "") for name, why in why_not.items()},
        numbers=numbers | {name: {"why_not": why} for name, why in why_not.items()},
        passed=passed | dict.fromkeys(why_not),
    )


if __name__ == "__main__":
    sys.exit(main())
