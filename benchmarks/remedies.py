"""Claim: `stoker run --apply auto` gives what it promises, and leaves alone what is well.

Each case is diagnosed, timed as it is and timed under `stoker run`, both from outside by the lines
that it prints. `python -m benchmarks.remedies [CASE ...]`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import record
from benchmarks.plain import run_s
from benchmarks.promises import TIMING_SHARE

CASES = record.ROOT / "tests" / "cases"
CLAIM = (
    "stoker run --apply auto: at least 90 % of the lower end of the gain that each case's author "
    "measured for its first fix; nothing is applied to a control."
)
# Of the lower end that expected.json gives for the first fix.
_SHARE = 0.9
# Of all promises: how many have to hold, and how far off the middle one may be.
_INSIDE, _OFF = 0.8, 0.1


@dataclass(frozen=True)
class ByLine:
    """A script that prints a line every so many steps: the time between lines is theirs.

    The first `skip` lines are start-up, warm-up and the trial of the remedies; the script is ended
    after the last line that is wanted.
    """

    steps: int
    skip: int
    timed: int
    line: str = "epoch"

    def step_s(self, command: list[str], arguments: list[str], cwd: Path) -> float:
        """Mean seconds of a step."""
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        at: list[float] = []
        with subprocess.Popen(
            [*command, *arguments],
            cwd=cwd,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as process:
            assert process.stdout is not None
            for text in process.stdout:
                if re.match(self.line, text):
                    at.append(time.perf_counter())
                if len(at) == self.skip + self.timed + 1:
                    process.terminate()
        if len(at) < self.skip + self.timed + 1:
            raise RuntimeError(f"{command}: {len(at)} lines that begin with {self.line!r}")
        stretches = [b - a for a, b in zip(at[self.skip :], at[self.skip + 1 :], strict=False)]
        return statistics.fmean(stretches) / self.steps


@dataclass(frozen=True)
class ByLength:
    """A script that takes --steps: the difference of a long and a short run."""

    short: int
    long: int

    def step_s(self, command: list[str], arguments: list[str], cwd: Path) -> float:
        """Mean seconds of a step."""
        del arguments
        words = command[1:]
        short = run_s([*words, "--steps", str(self.short)], cwd)
        long = run_s([*words, "--steps", str(self.long)], cwd)
        return (long - short) / (self.long - self.short)


TIMINGS: dict[str, ByLine | ByLength] = {
    "c01": ByLine(steps=100, skip=0, timed=1),
    "c02": ByLine(steps=20, skip=2, timed=4),
    "c05": ByLine(steps=20, skip=3, timed=4, line=r" *\d+ "),
    "c07": ByLine(steps=120, skip=1, timed=2),
    "c10": ByLine(steps=10, skip=2, timed=5),
    "c10b": ByLine(steps=100, skip=0, timed=1),
    "c15": ByLine(steps=1000, skip=2, timed=3),
    "c18": ByLength(short=400, long=1600),
    "c27": ByLine(steps=300, skip=0, timed=1),
    "c31": ByLine(steps=50, skip=2, timed=4),
    "c31b": ByLine(steps=50, skip=2, timed=4),
    "c08b": ByLine(steps=100, skip=0, timed=1),
    "c11": ByLine(steps=50, skip=0, timed=1),
    "c20b": ByLength(short=30, long=150),
    "c28b": ByLine(steps=400, skip=0, timed=1),
}


@dataclass(frozen=True)
class Diagnosed:
    """What the doctor says of a case, what `stoker run` would apply, and how it is run so."""

    diagnosis: dict[str, Any]
    applied: str
    run: list[str]  # the command, without the script


def diagnosed(case: str, folder: Path) -> Diagnosed:
    """Ask the doctor; its answer stays in the folder for the runs to come."""
    arguments = json.loads((CASES / "expected.json").read_text())[case]["argv"]
    script, out = f"{case}.py", folder / "diagnosis.json"
    stoker = [sys.executable, "-m", "stoker"]
    doctor = [*stoker, "doctor", "--quiet", "--json", str(out), script, *arguments]
    subprocess.run(doctor, cwd=CASES, capture_output=True, check=False)
    run = [*stoker, "run", "--diagnosis", str(out)]
    dry = subprocess.run(
        [*run, "--dry-run", script, *arguments],
        cwd=CASES,
        capture_output=True,
        text=True,
        check=True,
    )
    applied = dry.stderr.rpartition("would apply ")[2].strip()
    return Diagnosed(json.loads(out.read_text()), applied, run)


def measure(case: str) -> dict[str, Any]:
    """Diagnose, run as it is, run with what was found."""
    expected = json.loads((CASES / "expected.json").read_text())[case]
    arguments, script, timing = expected["argv"], f"{case}.py", TIMINGS[case]
    with tempfile.TemporaryDirectory() as scratch:
        found = diagnosed(case, Path(scratch))
        before = timing.step_s([sys.executable, script], arguments, CASES)
        after = timing.step_s([*found.run, script], arguments, CASES)
    diagnosis, fixes = found.diagnosis, found.diagnosis["fixes"]
    promise = _promise(fixes, found.applied)
    return {
        "verdict": diagnosis["verdict"]["code"],
        "first_fix": fixes[0]["code"] if fixes else "none",
        "applied": found.applied,
        "promised": promise and [promise[key] for key in ("median", "low", "high")],
        "before_s": before,
        "after_s": after,
        "wanted": expected["expected_speedup_of_first_fix"],
        "is_control": expected["control"],
    }


def _promise(fixes: list[dict[str, Any]], applied: str) -> dict[str, Any] | None:
    """What was forecast of the one fix that is applied; of several together nothing was."""
    name, *others = (word.split("=")[0] for word in applied.split(", "))
    if others:
        return None
    codes = (name, "fewer-workers") if name == "workers" else (name,)
    of_it = (fix for fix in fixes if fix["code"] in codes)
    return next((fix["speedup"] for fix in of_it), None)


def holds(numbers: dict[str, Any]) -> bool:
    """A control is left alone; else most of what its author measured is reached."""
    if numbers["is_control"]:
        return bool(numbers["applied"] == "nothing")
    return bool(numbers["before_s"] / numbers["after_s"] >= _SHARE * numbers["wanted"][0])


def cells(numbers: dict[str, Any]) -> list[str]:
    """One row of the table."""
    promised = "none"
    if numbers["promised"] is not None:
        middle, low, high = numbers["promised"]
        promised = f"{middle:.2f}x ({low:.2f} to {high:.2f})"
    low, high = numbers["wanted"]
    return [
        numbers["verdict"],
        numbers["applied"],
        promised,
        f"{low:g} to {high:g}",
        f"{1000 * numbers['before_s']:.3g} ms",
        f"{1000 * numbers['after_s']:.3g} ms",
        f"{numbers['before_s'] / numbers['after_s']:.2f}x",
    ]


@dataclass(frozen=True)
class Kept:
    """How the promises of `stoker run` and of changes made by hand came true."""

    inside: int
    off: tuple[float, ...]  # of each promise, as a share of the gain
    without: int  # gains that nothing was promised of

    @property
    def holds(self) -> bool:
        """At least 80 % in their interval, half of the promises at most 10 % off."""
        enough = self.inside >= _INSIDE * len(self.off)
        return bool(self.off) and enough and statistics.median(self.off) <= _OFF

    def __str__(self) -> str:
        if not self.off:
            return "no promise was measured yet"
        return (
            f"{self.inside} of {len(self.off)} gains lie in their promised interval (give or take "
            f"the 3 % of timing); the median promise is {statistics.median(self.off):.1%} off; "
            f"nothing was promised of {self.without} more"
        )


def kept_promises() -> Kept:
    """Of all rows measured so far, of `stoker run` and of benchmarks/promises.py."""
    inside, without, off = 0, 0, []
    for name in ("remedies", "promises"):
        path = record.RESULTS / f"{name}.json"
        rows = json.loads(path.read_text())["rows"].values() if path.exists() else ()
        for numbers in (row["numbers"] for row in rows):
            if numbers.get("applied") == "nothing":
                continue
            if numbers["promised"] is None:
                without += 1
                continue
            middle, low, high = numbers["promised"]
            gain = numbers["before_s"] / numbers["after_s"]
            inside += low * (1 - TIMING_SHARE) <= gain <= high * (1 + TIMING_SHARE)
            off.append(abs(middle / gain - 1))
    return Kept(inside, tuple(off), without)


def main() -> int:
    """Measure the cases asked for, all without names."""
    parser = argparse.ArgumentParser(description=CLAIM)
    parser.add_argument("cases", nargs="*", choices=[*TIMINGS, []])
    chosen = parser.parse_args().cases or list(TIMINGS)
    every = True
    for case in chosen:  # written one by one: it is a long way to the last
        found = measure(case)
        every &= record.write(
            "remedies",
            claim=CLAIM,
            columns=["case", "verdict", "applied", "promised", "author's", "as is", "run", "gain"],
            rows={case: [case, *cells(found)]},
            numbers={case: found},
            passed={case: holds(found)},
        )
    kept = kept_promises()
    print(kept)
    return 0 if every and kept.holds else 1


if __name__ == "__main__":
    sys.exit(main())
