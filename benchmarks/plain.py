"""Step times of scripts that nothing was injected into, taken from outside.

Imports nothing of Stoker: these are the numbers that the doctor's are held against.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class PlainStep:
    """Mean seconds of a step, epoch boundaries included; one value for each stretch timed."""

    stretches_s: tuple[float, ...]

    @property
    def mean_s(self) -> float:
        """The mean over all stretches."""
        return sum(self.stretches_s) / len(self.stretches_s)


@dataclass(frozen=True)
class ByEpoch:
    """A script that prints one line an epoch: the time from line to line is an epoch's.

    What comes before the first line (start-up, warm-up, the first epoch) is left out.
    """

    steps: int  # of one epoch
    epochs: int = 3  # timed, after the first
    line: str = "epoch"

    def time(self, script: Path, *arguments: str) -> PlainStep:
        """Run the script with one epoch more than is timed."""
        command = [str(script), *arguments, "--epochs", str(self.epochs + 1)]
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        ended: list[float] = []
        with subprocess.Popen(
            [sys.executable, *command],
            cwd=script.parent,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            lines = (line for line in process.stdout if line.startswith(self.line))
            ended.extend(time.perf_counter() for _ in lines)
        if process.returncode != 0 or len(ended) != self.epochs + 1:
            raise RuntimeError(f"{command}: exit code {process.returncode}, {len(ended)} epochs")
        return PlainStep(tuple((b - a) / self.steps for a, b in itertools.pairwise(ended)))


@dataclass(frozen=True)
class ByLength:
    """A script that takes --steps: two whole runs, and the difference is of the steps between.

    Start-up is the same in both and drops out, and so do the batches loaded ahead.
    """

    short: int
    long: int
    rounds: int = 1

    def time(self, script: Path, *arguments: str) -> PlainStep:
        """Run the script short and long, `rounds` times."""
        stretches = []
        for _ in range(self.rounds):
            short = run_s([str(script), *arguments, "--steps", str(self.short)], script.parent)
            long = run_s([str(script), *arguments, "--steps", str(self.long)], script.parent)
            stretches.append((long - short) / (self.long - self.short))
        return PlainStep(tuple(stretches))


def run_s(command: Sequence[str], cwd: Path) -> float:
    """Wall seconds of a Python command from start to end."""
    started = time.perf_counter()
    subprocess.run([sys.executable, *command], cwd=cwd, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started
