"""However a remedied script ends, nothing of it is left, and its exit code is its own."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.attach.remedied import SCRIPT, SLOW_S, environment

# Workers end with their parent at once; a busy machine may need a moment to say so.
WITHIN_S = 5.0


def _processes_with(mark: str) -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if mark in (entry / "environ").read_text(errors="replace"):
                    found.append(entry.name)
            except OSError:
                continue
    return found


@pytest.mark.parametrize(
    ("number", "start"),
    [
        (signal.SIGINT, "fork"),
        (signal.SIGKILL, "fork"),
        pytest.param(signal.SIGTERM, "fork", marks=pytest.mark.full),
        pytest.param(signal.SIGKILL, "spawn", marks=pytest.mark.full),
    ],
)
def test_a_signal_ends_the_script_and_its_workers(
    number: signal.Signals, start: str, tmp_path: Path
) -> None:
    arguments = ["--epochs", "9999", "--per-photo", "20", "--step-s", "0.01", "--start", start]
    remedies = "overlap=2,persistent-workers,cache-ram=50MB"
    mark = str(tmp_path / "account.json")
    with subprocess.Popen(
        [sys.executable, str(SCRIPT), *arguments],
        env=environment(remedies, tmp_path / "account.json", baseline_s=SLOW_S),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        for _ in range(2):
            process.stdout.readline()  # an epoch: workers are there, and the cache is full
        assert len(_processes_with(mark)) >= 3
        process.send_signal(number)
        process.wait(WITHIN_S)
    end = time.monotonic() + WITHIN_S
    while (left := _processes_with(mark)) and time.monotonic() < end:
        time.sleep(0.05)
    assert left == []
    assert process.returncode == -number
    account = tmp_path / "account.json"
    assert account.exists() is (number is signal.SIGINT)  # exit hooks run on Ctrl-C alone
    assert [path for path in tmp_path.iterdir() if path != account] == []


def test_a_loop_that_is_left_early_ends_its_workers_and_the_exit_code_is_the_scripts(
    tmp_path: Path,
) -> None:
    command = [
        sys.executable,
        str(SCRIPT),
        "--per-photo",
        "40",
        "--leave-after",
        "3",
        "--exit",
        "7",
    ]
    ended = subprocess.run(
        command,
        env=environment("overlap=2,persistent-workers", tmp_path / "a.json", baseline_s=SLOW_S),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 7, ended.stderr
    assert ended.stdout.startswith("0 3 ")


@pytest.mark.full
def test_what_the_doctors_run_has_read_of_stdin_the_training_reads_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    stoker = [sys.executable, "-m", "stoker", "run", "--budget", "1", "--trial", "0.2"]
    ended = subprocess.run(
        [*stoker, str(SCRIPT.with_name("asked.py"))],
        input="4\nand more\n",
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (0, "told 4\nand more\n"), ended.stderr
    assert "told 4" not in ended.stderr.partition("overlap")[2]
