"""Real scripts under the probe: how the tests here run them, and what must be as before after."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from stoker.probe.attach import Options, Target, examine
from stoker.probe.session import SESSION_VARIABLE
from stoker.records.profile import LegCode, Profile

SCRIPTS = Path(__file__).parent / "scripts"
# Of the data set and the model in scripts/slow_numbers.py: four samples of 2 ms, a step of 6 ms.
LOAD_S = 0.008
STEP_S = 0.006
# What torch, Python and a busy machine add to a step that sleeps: 1 to 2 ms here on idle cores.
WITHIN = 0.35


def script(name: str) -> str:
    return str(SCRIPTS / name)


def watch(name: str, *arguments: object, budget_s: float = 2.0, **options: Any) -> Profile:
    """The profile of a script of this folder."""
    argv = (script(name), *map(str, arguments))
    return examine(Target("script", argv), Options(budget_s=budget_s, **options))


def launch(*argv: str, budget_s: float = 2.0) -> Profile:
    """The profile of what a launcher starts."""
    return examine(Target("launcher", argv), Options(budget_s=budget_s))


@contextmanager
def doctor(*argv: str, stdin: int | None = subprocess.DEVNULL) -> Iterator[subprocess.Popen[str]]:
    """The command as a process of its own, ended if the test fails in between."""
    process = subprocess.Popen(
        [sys.executable, "-m", "stoker", "doctor", *argv],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def answer(*argv: str, timeout_s: float = 60.0) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of `stoker doctor`."""
    with doctor(*argv) as process:
        stdout, stderr = process.communicate(timeout=timeout_s)
        return process.returncode, stdout, stderr


def seconds(profile: Profile, code: LegCode) -> float:
    """Seconds of a step under a leg."""
    leg = profile.leg(code)
    assert leg is not None, (
        f"no leg {code}; there are {list(profile.legs)}; the run ended: {profile.end}, code "
        f"{profile.exit_code}, notes {profile.environment.notes}"
    )
    return leg.period.median


def about(value: float, within: float = WITHIN) -> Any:
    """A time that a machine with other work to do may stretch."""
    return pytest.approx(value, rel=within)


@contextmanager
def nothing_left() -> Iterator[Path]:
    """A folder for temporary files; afterwards no file and no process is there any more."""
    # Short: below a long TMPDIR the probe would not give the script a TMPDIR of its own.
    with tempfile.TemporaryDirectory(prefix="a-", dir="/tmp") as folder:
        yield Path(folder)
        end = time.monotonic() + 1.0
        while (left := _processes_of(folder)) and time.monotonic() < end:
            time.sleep(0.05)
        assert left == [], f"processes left behind: {left}"
        assert list(Path(folder).iterdir()) == [], (
            "files left behind in the folder for temporary files"
        )


def process_of(command: str) -> list[str]:
    """Processes whose command line contains the text."""
    return [text for _, _, text in _processes() if command in text]


def _processes_of(folder: str) -> list[str]:
    mark = f"{SESSION_VARIABLE}={folder}/"
    return [f"{pid}: {text}" for pid, environment, text in _processes() if mark in environment]


def _processes() -> Iterator[tuple[str, str, str]]:
    """Pid, environment and command line of all processes that may be looked at."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                environment = (entry / "environ").read_text(errors="replace")
                command = (entry / "cmdline").read_text(errors="replace").replace("\0", " ")
            except OSError:
                continue  # gone, or somebody else's
            yield entry.name, environment, command
