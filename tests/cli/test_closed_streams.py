"""Standard streams that are closed: the work is done, with its exit code and its files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from stoker.records.codec import to_json
from tests.golden.diagnoses import cpu_saturated

CLOSED = ["<&-", ">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"]
SCRIPT = """
import os, sys
print("to stdout", flush=True)
os.write(2, b"to stderr")
open("made", "w").write(sys.stdin.read())
sys.exit(7)
"""


def stoker(closed: str, *argv: str, folder: Path) -> tuple[int, list[str]]:
    """The exit code, and the files that are there afterwards."""
    command = ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-m", "stoker", *argv]
    ended = subprocess.run(
        command, cwd=folder, input=b"", capture_output=True, timeout=60, check=False
    )
    assert b"Traceback" not in ended.stderr
    return ended.returncode, sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("closed", CLOSED)
def test_a_script_under_run_keeps_its_exit_code(closed: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    argv = ("run", "--apply", "overlap", "--json", "account.json", "train.py")
    code, files = stoker(closed, *argv, folder=tmp_path)
    assert (code, files) == (7, ["account.json", "made", "train.py"])
    # It never came to torch, and has an account all the same.
    account = json.loads((tmp_path / "account.json").read_text())
    assert (account["script"], account["loaders"]) == (["train.py"], [])
    assert (tmp_path / "made").read_bytes() == b"", "what was printed went into a file"


@pytest.mark.parametrize("closed", CLOSED)
def test_a_report_and_an_error_have_their_codes(closed: str, tmp_path: Path) -> None:
    (tmp_path / "diagnosis.json").write_text(to_json(cpu_saturated()), encoding="utf-8")
    assert stoker(closed, "report", "diagnosis.json", folder=tmp_path)[0] == 0
    assert stoker(closed, "report", "gone.json", folder=tmp_path)[0] == 1
    assert stoker(closed, "reprot", folder=tmp_path)[0] == 2
