"""Claim: stoker.Loader reaches what the libraries under it allow, and is ahead of other loaders.

Every contender runs in a process of its own, all of a group in turn, several rounds; ratios are
taken within a round, and the table holds medians. Peers come from environments of their own, made
by benchmarks/contenders/setup; one that is missing or fails is named with the reason. What is
measured is kept after every pass, so a run that is stopped loses nothing:

`python -m benchmarks.loader [--only packed|jpeg|crop] [--data FOLDER] [--peers FOLDER]`
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any

from benchmarks import record
from benchmarks.contenders import data, environments, judged
from benchmarks.contenders.environments import PATIENCE_S, Peers
from benchmarks.contenders.groups import GROUPS, Group, Rival
from stoker import stats

CLAIM = (
    "Each row says how many times as fast as that contender the Loader is that it stands under, "
    "and the least that is claimed. Of CPU, memory and the time to the first batch it takes the "
    "least of all loaders, or its row says why not. Memory is without the pages of mapped files, "
    "which are the page cache's; the time to the first batch is without imports."
)
COLUMNS = (
    "contender",
    "images/s",
    "the Loader is",
    "claimed",
    "CPU-s/1000",
    "MB",
    "first batch s",
)
Passes = list[dict[str, float]]


class Course:
    """The contenders, what is known of them, and why some are not measured."""

    def __init__(self, peers: Peers, seconds: float) -> None:
        self._peers = peers
        self._seconds = seconds
        self._runs: dict[tuple[str, str], Passes] = {}
        self._missing: dict[tuple[str, str], str] = {}

    def prepare(self, group: Group) -> None:
        """Let peers write their own formats, and find out which of them are there."""
        for rival in group.rivals:
            why = self._peers.why_not(rival)
            if why is not None:
                self._missing[group.key, rival.name] = why

    def go(self, group: Group, rival: Rival) -> None:
        """One pass of one contender, and the rows of its group anew."""
        key = group.key, rival.name
        if key in self._missing:
            return
        limit_s = self._seconds + PATIENCE_S
        told, why = self._peers.told(rival, self._seconds, limit_s=limit_s)
        if why is not None:
            self._missing[key] = why
        else:
            self._runs.setdefault(key, []).append(json.loads(told.splitlines()[-1]))
        rate = f"failed: {why}" if why else f"{self._runs[key][-1]['images_per_s']:,.0f} images/s"
        print(f"{group.key}: {rival.name}: {rate}", file=sys.stderr, flush=True)
        self.keep((group,), is_shown=False)

    def keep(self, groups: tuple[Group, ...], *, is_shown: bool) -> bool:
        """Write the rows of what is measured so far; True when all that is claimed holds."""
        rows, numbers = {}, {}
        passed: dict[str, bool | None] = {}
        for group in groups:
            own = self._runs.get((group.key, group.rivals[0].name), [])
            for place, rival in enumerate(group.rivals):
                key = f"{group.key}-{place:02}"
                if (group.key, rival.name) in self._missing:
                    why = self._missing[group.key, rival.name]
                    rows[key] = [rival.name, why, "", _claimed(rival), *[""] * 3]
                    # A peer may not be there; without a Loader of ours nothing is shown.
                    numbers[key], passed[key] = {"why_not": why}, None if place else False
                elif own and (group.key, rival.name) in self._runs:
                    passes = self._runs[group.key, rival.name]
                    rows[key], numbers[key], passed[key] = self._row(group, rival, own, passes)
            _judge(group, rows, numbers, passed)
        return record.write(
            "loader",
            claim=CLAIM,
            columns=COLUMNS,
            rows=rows,
            numbers=numbers,
            passed=passed,
            is_shown=is_shown,
        )

    def _row(
        self, group: Group, rival: Rival, own: Passes, passes: Passes
    ) -> tuple[list[str], dict[str, Any], bool]:
        """The cells, the numbers, and whether what is claimed against this contender holds."""
        rates = [one["images_per_s"] for one in passes]
        middle = {name: statistics.median(one[name] for one in passes) for name in passes[0]}
        is_first = rival is group.rivals[0]
        # The last round may be under way.
        pairs = zip(own, rates, strict=False)
        gain = stats.median_spread([mine["images_per_s"] / other for mine, other in pairs])
        version = self._peers.version(rival)
        cells = [
            f"**{rival.name}**: {group.title}" if is_first else f"{rival.name}{version}",
            f"{middle['images_per_s']:,.0f} ({min(rates):,.0f}–{max(rates):,.0f})",
            "" if is_first else f"{gain.median:.2f}x ({gain.low:.2f}–{gain.high:.2f})",
            _claimed(rival),
            f"{middle['cpu_s_per_1000']:.3f}",
            f"{middle['memory_bytes'] / 1e6:,.0f}",
            f"{middle['first_batch_s']:.2f}",
        ]
        kept = {**middle, "rates": rates, "gain": [gain.median, gain.low, gain.high]}
        return cells, kept, rival.claimed is None or gain.median >= rival.claimed


def _judge(
    group: Group,
    rows: dict[str, list[str]],
    numbers: dict[str, dict[str, Any]],
    passed: dict[str, bool | None],
) -> None:
    """Say in the Loader's row where it is best beside its rate, or why it is not."""
    keys = {f"{group.key}-{place:02}": rival for place, rival in enumerate(group.rivals)}
    own = next(iter(keys))
    measured = {key: found for key, found in numbers.items() if "rates" in found}
    if own in measured:
        others = {
            rival.name: measured[key]
            for key, rival in keys.items()
            if rival.is_other_loader and key in measured
        }
        remarks, passed[own] = judged.best_or_why(measured[own], others)
        own_cells = rows[own][-len(remarks) :]
        rows[own][-len(remarks) :] = [
            f"{cell} ({remark})" for cell, remark in zip(own_cells, remarks.values(), strict=True)
        ]


def _claimed(rival: Rival) -> str:
    return "" if rival.claimed is None else f"{rival.claimed:g}x"


def main() -> int:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description="Compare loaders.")
    parser.add_argument("--only", choices=sorted({group.part for group in GROUPS}))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--peers", type=Path, default=environments.FOLDER)
    parser.add_argument("--data", type=Path, help="kept there for the next run")
    parser.add_argument("--prepare", action="store_true", help="make the data and measure nothing")
    args = parser.parse_args()
    groups = tuple(group for group in GROUPS if args.only in (None, group.part))
    with data.folder(args.data) as folder:
        course = Course(Peers(args.peers, folder), args.seconds)
        for group in groups:
            course.prepare(group)
        if args.prepare:
            return 0
        for _ in range(args.rounds):
            for group in groups:
                for rival in group.rivals:
                    course.go(group, rival)
        return 0 if course.keep(groups, is_shown=True) else 1


if __name__ == "__main__":
    sys.exit(main())
