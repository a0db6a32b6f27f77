"""Two real processes under torchrun: measured side by side, judged together, ended together."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

SCRIPT = Path(__file__).parent / "scripts" / "ranks.py"
CASE = Path(__file__).parent.parent / "cases" / "c37.py"
# Three imports of torch, and the budget; a run that hangs is ended.
TIMEOUT_S = 100.0
BUDGET_S = 9


class Run(NamedTuple):
    """One run of the doctor."""

    code: int
    errors: str
    diagnosis: dict[str, Any]

    @property
    def verdict(self) -> str:
        return str(self.diagnosis["verdict"]["code"])

    @property
    def ranks(self) -> list[dict[str, Any]]:
        return list(self.diagnosis["profile"]["ranks"])


def doctor(tmp_path: Path, *words: str | Path) -> Run:
    """Run the doctor on a command; `{}` for a diagnosis that was not written."""
    out = tmp_path / "diagnosis.json"
    command = [sys.executable, "-m", "stoker", "doctor", "--quiet", "--json", out]
    done = subprocess.run(
        [*map(str, command), "--budget", str(BUDGET_S), *map(str, words)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
        cwd=tmp_path,
    )
    diagnosis = json.loads(out.read_text()) if out.exists() else {}
    return Run(done.returncode, done.stderr, diagnosis)


def torchrun(tmp_path: Path, *words: str) -> Run:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    return doctor(tmp_path, "--", *launcher, "--nproc_per_node", "2", SCRIPT, *words)


def test_the_rank_whose_loader_is_slow_is_named(tmp_path: Path) -> None:
    run = torchrun(tmp_path, "--slow", "1")
    assert run.verdict == "peer-rank", run.errors
    assert "Rank 1 waits" in run.diagnosis["verdict"]["sentence"]
    assert run.diagnosis["fixes"][0]["code"] == "check-peer"
    healthy, slow = run.ranks
    # In step, both are given kept batches at the same time: no rank's wait is in another's D.
    for rank in (healthy, slow):
        assert rank["device_s"] < 0.7 * rank["real_s"]
    assert slow["wait_s"] > 5 * healthy["wait_s"]
    assert run.diagnosis["profile"]["end"] != "crashed"
    assert run.code == 0


@pytest.mark.parametrize("dies", ["1", pytest.param("0", marks=pytest.mark.full)])
def test_a_rank_that_dies_ends_the_run_with_its_error(tmp_path: Path, dies: str) -> None:
    run = torchrun(tmp_path, "--dies", dies)  # a hang would meet the time limit
    assert run.code == 1, run.errors  # torchrun's own
    assert run.diagnosis["profile"]["end"] == "crashed"


@pytest.mark.full
def test_ranks_that_load_slowly_alike_get_the_verdict_of_one_process(tmp_path: Path) -> None:
    run = torchrun(tmp_path, "--slow", "0", "1")
    assert run.verdict == "serial-loader", run.errors
    assert len(run.ranks) == 2


@pytest.mark.full
def test_a_slow_rank_is_named_where_workers_load_too(tmp_path: Path) -> None:
    run = torchrun(tmp_path, "--slow", "1", "--workers", "1", "--sample-ms", "7")
    assert run.verdict == "peer-rank", run.errors
    assert {"R", "D", "C", "L"} <= run.diagnosis["profile"]["legs"].keys()
    assert run.code == 0


@pytest.mark.full
def test_healthy_ranks_are_device_bound(tmp_path: Path) -> None:
    run = torchrun(tmp_path)
    assert run.verdict == "device-bound", run.errors
    assert run.diagnosis["host"]["ranks"] == 2


@pytest.mark.full
def test_a_script_that_starts_its_peer_itself_is_seen_whole(tmp_path: Path) -> None:
    run = doctor(tmp_path, CASE, "--epochs", "10")
    assert run.verdict == "peer-rank", run.errors
    assert [rank["rank"] for rank in run.ranks] == [0, 1]
    assert run.diagnosis["profile"]["end"] in ("converged", "budget")
