"""Claim: a step under the Loader takes at most 2 % more than one whose batch lies ready.

The accelerator is emulated (a clock and a link), its step so long that the Loader works at half of
what it can, or a quarter. The same loop gets one batch that stays on the device, and the Loader's,
in turn; the ratio of each pair, with its interval. `python -m benchmarks.resident_step`
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import fed, record
from benchmarks.contenders import stepping
from stoker import EmulatedAccelerator
from stoker.stats import bootstrap

CLAIM = (
    "A step of an emulated accelerator takes at most 2 % longer under the Loader than with a batch "
    "that stays on the device, the 95 % interval of that included, at half of what the Loader can "
    "give or less."
)
ALLOWED = 0.02
SHARES = (0.5, 0.25)
BATCH = {"packed": 256, "files": 64}
RUN_S = 3.0
LIMIT_S = 3.0


def measure(source: str, folder: Path, share: float, rounds: int) -> dict[str, Any]:
    """Steps with a resident batch and under the Loader, one of each a round."""
    make = fed.SOURCES[source].ours
    limit_s = stepping.limit_s(stepping.endless(make(folder, BATCH[source], None)), LIMIT_S)
    accelerator = EmulatedAccelerator(limit_s / share, link_bytes_per_s=stepping.LINK_BYTES_PER_S)
    steps = max(10, round(RUN_S * share / limit_s))
    loader = make(folder, BATCH[source], accelerator)
    resident = next(iter(loader))
    taken: dict[str, list[float]] = {"resident_s": [], "loader_s": []}
    for number in range(rounds):
        # Each comes first in every other round, so that a drift of the machine favours neither.
        for name in sorted(taken, reverse=bool(number % 2)):
            batches = stepping.endless([resident] if name == "resident_s" else loader)
            taken[name].append(stepping.step_s(batches, accelerator, steps))
    return {**taken, "limit_s": limit_s, "step_s": limit_s / share, "batch": BATCH[source]}


def main() -> int:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=CLAIM)
    parser.add_argument("--rounds", type=int, default=8)
    args = parser.parse_args()
    rows, numbers, passed = {}, {}, {}
    with tempfile.TemporaryDirectory() as made:
        fed.make_data(Path(made))
        for source, share in itertools.product(sorted(fed.SOURCES), SHARES):
            found = measure(source, Path(made), share, args.rounds)
            pairs = zip(found["loader_s"], found["resident_s"], strict=True)
            ratio = bootstrap([ours / resident for ours, resident in pairs])
            key = f"{source} at {share:.0%}"
            rows[key] = [
                fed.SOURCES[source].title,
                f"{share:.0%} of {found['batch'] / found['limit_s']:,.0f}/s",
                f"{1000 * statistics.fmean(found['resident_s']):.2f} ms",
                f"{1000 * statistics.fmean(found['loader_s']):.2f} ms",
                f"{ratio.median - 1:+.2%} ({ratio.low - 1:+.2%} to {ratio.high - 1:+.2%})",
            ]
            numbers[key] = found
            passed[key] = ratio.high - 1 <= ALLOWED
    held = record.write(
        "resident_step",
        claim=CLAIM,
        columns=["data", "asked for", "step, batch ready", "step, Loader", "longer by"],
        rows=rows,
        numbers=numbers,
        passed=passed,
    )
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
