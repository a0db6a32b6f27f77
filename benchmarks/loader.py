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
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks import record
from benchmarks.contenders import data, environments
from benchmarks.contenders.groups import GROUPS, PACKAGES, Group, Rival
from stoker import stats

CLAIM = (
    "Each row says how many times as fast as that contender the Loader is that it stands under, "
    "and the least that is claimed. Memory is without the pages of mapped files, which are the "
    "page cache's; the time to the first batch is without imports."
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
# A contender that hangs is stopped after so long beyond what it is asked to run.
_PATIENCE_S = 60.0

Passes = list[dict[str, float]]


class Course:
    """The contenders, what is known of them, and why some are not measured."""

    def __init__(self, peers: Path, folder: Path, seconds: float) -> None:
        self._peers = peers
        self._folder = folder
        self._seconds = seconds
        self._runs: dict[tuple[str, str], Passes] = {}
        self._missing: dict[tuple[str, str], str] = {}
        self._written: dict[str, str | None] = {}  # by module: why it could not be
        self._versions: dict[str, str] = {}

    def prepare(self, group: Group) -> None:
        """Let peers write their own formats, and find out which of them are there."""
        for rival in group.rivals:
            why = self._why_not(rival)
            if why is not None:
                self._missing[group.key, rival.name] = why

    def go(self, group: Group, rival: Rival) -> None:
        """One pass of one contender, and the rows of its group anew."""
        key = group.key, rival.name
        if key in self._missing:
            return
        command = [rival.name, str(self._folder), str(self._seconds)]
        told, why = self._called(rival, command, self._seconds + _PATIENCE_S)
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
        version = self._versions.get(rival.environment, "")
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

    def _why_not(self, rival: Rival) -> str | None:
        if not rival.environment:
            return None
        home = self._peers / rival.environment
        why = environments.why_not(home)
        if why is not None:
            return why
        if rival.environment not in self._versions:
            package = PACKAGES[rival.environment]
            asked = f"from importlib.metadata import version; print(version({package!r}))"
            ended = _run([str(home / "bin" / "python"), "-c", asked], _PATIENCE_S)
            self._versions[rival.environment] = f" ({package} {ended.stdout.strip()})"
        if rival.module not in self._written:
            self._written[rival.module] = self._write(rival)
        return self._written[rival.module]

    def _write(self, rival: Rival) -> str | None:
        """Let a peer write its own format, once for a folder of data."""
        made = self._folder / f".made-{rival.module}"
        source = record.ROOT / "benchmarks" / "contenders" / f"{rival.module}.py"
        if made.exists() or "\ndef write(" not in source.read_text():
            return None
        _, why = self._called(rival, ["--write", str(self._folder)], 10 * _PATIENCE_S)
        if why is None:
            made.touch()
        return why

    def _called(self, rival: Rival, words: list[str], limit_s: float) -> tuple[str, str | None]:
        """What a contender's process printed, or why it failed."""
        home = self._peers / rival.environment / "bin" / "python"
        python = str(home) if rival.environment else sys.executable
        command = [python, "-m", "benchmarks.contenders.one", rival.module, *words]
        try:
            ended = _run(command, limit_s)
        except subprocess.TimeoutExpired:
            return "", f"no answer within {limit_s:g} s"
        if ended.returncode:
            sys.stderr.write(ended.stderr[-3000:])
            said = ended.stderr.strip().splitlines() or [f"exit code {ended.returncode}"]
            return "", environments.short(said[-1])
        return ended.stdout, None


def _run(command: list[str], limit_s: float) -> subprocess.CompletedProcess[str]:
    quiet = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}  # else TensorFlow's hints hide an error
    return subprocess.run(
        command,
        cwd=record.ROOT,
        env=quiet,
        check=False,
        capture_output=True,
        text=True,
        timeout=limit_s,
    )


def _claimed(rival: Rival) -> str:
    return "" if rival.claimed is None else f"{rival.claimed:g}x"


@contextmanager
def _data(kept: Path | None) -> Iterator[Path]:
    """The folder of the data, kept where one is named."""
    if kept is not None:
        data.make(kept)
        yield kept
        return
    with tempfile.TemporaryDirectory() as made:
        data.make(Path(made))
        yield Path(made)


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
    with _data(args.data) as folder:
        course = Course(args.peers, folder, args.seconds)
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
