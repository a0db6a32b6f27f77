"""Claim: emulated accelerators under the Loader are in use 99 % of the time where it can feed them.

MLPerf Storage's ResNet-50 scaled to this machine: its batches of 400 samples and its measure (AU:
time of the steps alone over the time they took), its H100 (0.224 s a batch) as the unit of what is
asked for. The accelerator is a clock. torch's DataLoader with two workers stands beside, unless
--no-torch. `python -m benchmarks.accelerators`
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import stoker
from benchmarks import fed, record

CLAIM = (
    "AU of emulated accelerators under the Loader: at least 0.99 up to 90 % of what the Loader "
    "gives when nothing else goes on, and never below torch's DataLoader with two workers."
)
BATCH = 400  # samples, as the benchmark prescribes for ResNet-50
H100_BATCH_S = 0.224  # mlcommons/storage v1.0, configs/dlio/workload/resnet50_h100.yaml
SHARES = (0.5, 0.8, 0.9)
LEAST_AU = 0.99
# Two loops in turn differ by so much on a quiet machine when nothing differs.
NOISE = 0.005
LIMIT_S = 4.0
RUN_S = 6.0


def measure(source: fed.Source, folder: Path, *, rounds: int, has_torch: bool) -> dict[Any, Any]:
    """AU of each loader at each share of what the Loader can give."""
    plain = fed.endless(source.ours(folder, BATCH, None))
    limit_s = statistics.median(fed.limit_s(plain, LIMIT_S) for _ in range(3))
    found: dict[Any, Any] = {}
    for share in SHARES:
        step_s = limit_s / share
        found[share] = {"limit_s": limit_s, "step_s": step_s, "loader_au": [], "torch_au": []}
        accelerator = stoker.EmulatedAccelerator(step_s, link_bytes_per_s=fed.LINK_BYTES_PER_S)
        loaders = {"loader_au": source.ours(folder, BATCH, accelerator)}
        if has_torch:
            loaders["torch_au"] = stoker.feed(source.torchs(folder, BATCH), accelerator)
        for _, (name, loader) in itertools.product(range(rounds), loaders.items()):
            steps = max(8, round(RUN_S / step_s))
            taken_s = fed.step_s(fed.endless(loader), accelerator, steps)
            found[share][name].append(step_s / taken_s)
    return found


def main() -> int:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=CLAIM)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-torch", action="store_true", help="the Loader alone")
    args = parser.parse_args()
    rows, numbers, passed = {}, {}, {}
    with tempfile.TemporaryDirectory() as made:
        fed.make_data(Path(made))
        for name, source in sorted(fed.SOURCES.items()):
            by_share = measure(source, Path(made), rounds=args.rounds, has_torch=not args.no_torch)
            for share, one in by_share.items():
                key = f"{name} at {share:.0%}"
                ours = statistics.median(one["loader_au"])
                torchs = statistics.median(one["torch_au"]) if one["torch_au"] else None
                asked = share * BATCH / one["limit_s"]
                rows[key] = [
                    source.title,
                    f"{asked:,.0f}/s, {share:.0%} of the limit",
                    f"{asked * H100_BATCH_S / BATCH:.2f}",
                    f"{ours:.3f}",
                    "" if torchs is None else f"{torchs:.3f}",
                ]
                numbers[key] = one
                passed[key] = ours >= LEAST_AU and (torchs is None or ours >= torchs - NOISE)
    held = record.write(
        "accelerators",
        claim=CLAIM,
        columns=["data", "asked for", "emulated H100s", "AU, Loader", "AU, torch"],
        rows=rows,
        numbers=numbers,
        passed=passed,
    )
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
