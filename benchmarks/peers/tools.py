"""Runs each tool on a case as its documentation describes, and returns what it said."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.peers import adapted, workloads
from benchmarks.peers.environments import python_of
from benchmarks.record import ROOT

CASES = ROOT / "tests" / "cases"
BESIDE = Path(__file__).parent / "beside"
# A case alone takes 25 s or less; loadtune runs it up to seven times.
TIMEOUT_S = 240.0
# SPDL's own advice to its analysis: the first 20 steps are start-up.
START_UP_STEPS = 20
RETURN_CACHES_AFTER = 100
# One pass of the loader in the cached run, long enough for the 500 steps it stops after.
ONE_PASS = {"c03": ("--steps", "500"), "c04": ("--steps", "500")}


@dataclass(frozen=True)
class Said:
    """What a tool answered: its own words, shortened to the finding, and its advice."""

    finding: str
    advice: str = ""
    numbers: dict[str, float] | None = None


class NoAnswerError(Exception):
    """The tool ended without an answer."""


def traceml(case: str, folder: Path) -> Said:
    """`traceml run SCRIPT`; the primary diagnosis of its final summary."""
    script = _put(folder, f"{case}.py", adapted.for_traceml(CASES / f"{case}.py"))
    command = python_of("traceml").parent / "traceml"
    _run([command, "run", script, "--logs-dir", folder / "logs", "--run-name", "case"], folder)
    summary = json.loads((folder / "logs" / "case" / "final_summary.json").read_text())
    primary = summary["primary_diagnosis"]
    return Said(f"{primary['status']}: {primary['summary']}", primary["action"])


def gpuprof(case: str, folder: Path) -> Said:
    """The script with its manual interface; `gpuprof insights` gives the findings, worst first."""
    script = _put(folder, f"{case}.py", adapted.for_gpuprof(CASES / f"{case}.py"))
    python = python_of("gpuprof")
    _run([python, script], folder)
    ask = "import json; from gpuprof.insights import analyze; print(json.dumps(analyze(*{})))"
    said = _run([python, "-c", ask.format(("gpuprof.db", 1))], folder)
    insights: list[dict[str, Any]] = json.loads(said.splitlines()[-1])["insights"]
    worst = next(s for s in ("high", "medium", "low") if any(i["severity"] == s for i in insights))
    told = [i for i in insights if i["severity"] == worst]
    return Said(
        "; ".join(f"[{worst.upper()}] {i['title']}" for i in told),
        " / ".join(i["recommendation"] for i in told),
    )


def loadtune(case: str, folder: Path) -> Said:
    """`loadtune tune WORKLOAD` from the case's own number of workers, 50 steps a trial."""
    file = _put(folder, "workload_file.py", workloads.workload_file(case, CASES / f"{case}.py"))
    workers = str(workloads.PARTS[case].workers)
    python = python_of("loadtune")
    _run(
        [
            *(python.parent / "loadtune", "tune", file, "--workers", workers, "--steps", "50"),
            *("--no-plots", "--out", "report.md", "--save-raw", "raw.json"),
        ],
        folder,
    )
    report = (folder / "report.md").read_text()
    diagnosis = report.partition("## Diagnosis")[2].partition("## Baseline")[0]
    verdict = report.partition("## Verdict")[2]
    baseline = {"workers": float(workers)}
    return Said(_plain(diagnosis), _plain(verdict), baseline)


def spdl(case: str, folder: Path) -> Said:
    """Headspace: a run as it is against one on batches of CacheDataLoader.

    The run as it is counts by its mean, epoch boundaries included, the cached one by its median
    once only cached batches are returned: what SPDL tells its own analysis to compare.
    """
    python = python_of("spdl")
    times = {}
    for kind, arguments in (("plain", ()), ("cached", ONE_PASS.get(case, ("--epochs", "1")))):
        text = adapted.for_spdl(CASES / f"{case}.py", cached=kind == "cached")
        said = _run([python, _put(folder, f"{case}.py", text), *arguments], folder)
        found = re.search(r"STEP_TIMES (.*)", said)
        if found is None:
            raise NoAnswerError(f"the {kind} run printed no times")
        times[kind] = json.loads(found[1])
    plain = times["plain"][START_UP_STEPS:]
    step_s = (plain[-1] - plain[0]) / (len(plain) - 1)
    cached = times["cached"][RETURN_CACHES_AFTER + 1 :]
    cached_s = statistics.median(b - a for a, b in itertools.pairwise(cached))
    headspace = (step_s - cached_s) / step_s
    return Said(
        f"headspace {headspace:.0%}",
        numbers={"step_s": step_s, "cached_step_s": cached_s, "headspace": headspace},
    )


TOOLS: dict[str, Callable[[str, Path], Said]] = {
    "traceml": traceml,
    "spdl": spdl,
    "loadtune": loadtune,
    "gpuprof": gpuprof,
}


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder with what lies beside the cases, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="peer_", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        for file in (CASES / "workload.py", *BESIDE.glob("*.py")):
            shutil.copy(file, folder)
        yield folder


def _put(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def _run(command: Sequence[str | Path], folder: Path) -> str:
    """Its output; NoAnswerError with the end of it where it fails or takes too long."""
    environment = {
        **os.environ,
        "PYTHONPATH": f"{folder}:{ROOT / 'src'}",
        "TMPDIR": str(folder),
        "HOME": str(folder),
    }
    with subprocess.Popen(
        [str(part) for part in command],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            said, _ = process.communicate(timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired as error:
            raise NoAnswerError(f"no end after {TIMEOUT_S:.0f} s") from error
        finally:
            # Its own session: what it left running is ended with it.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    if process.returncode != 0:
        raise NoAnswerError(f"exit code {process.returncode}: {said[-300:].strip()}")
    return said


def _plain(markdown: str) -> str:
    return " ".join(re.sub(r"[*`]", "", markdown).split())
