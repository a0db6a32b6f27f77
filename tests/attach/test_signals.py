"""What ends the doctor ends the script, whatever stands between, and nothing is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from stoker.lifetime import is_alive
from stoker.probe import launch, sandbox
from stoker.probe.held_back import TO_END, held_back
from stoker.probe.session import OPTIONS_FILE
from stoker.probe.session_folder import session_folder
from tests.attach.examined import doctor

pytestmark = pytest.mark.usefixtures("in_folder")

PATIENCE_S = 20
_WAITS = """
import os, sys, time
print("up", os.getpid(), file=sys.stderr, flush=True)
time.sleep(30)
"""
_LAUNCHES = "trap 'kill $!; echo told >&2; exit 0' TERM; sleep 30 & echo up $$ >&2; wait"


def _up(process: subprocess.Popen[str]) -> int:
    """The id that the script tells once it runs."""
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("up "):
            return int(line.split()[1])
    pytest.fail("the script was not started")


def _is_ended(pid: int) -> bool:
    end = time.monotonic() + PATIENCE_S
    while is_alive(pid) and time.monotonic() < end:
        time.sleep(0.01)
    return not is_alive(pid)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_what_asks_the_doctor_to_end_ends_the_script_and_leaves_nothing(
    in_folder: Path, number: signal.Signals
) -> None:
    (in_folder / "waits.py").write_text(_WAITS)
    with doctor("--quiet", "waits.py") as process:
        pid = _up(process)
        process.send_signal(number)
        _, errors = process.communicate(timeout=PATIENCE_S)

    assert process.returncode == 128 + number
    assert "interrupted before the training loop of waits.py was seen" in errors
    assert not is_alive(pid)


def test_below_nohup_a_closed_terminal_ends_nothing() -> None:
    noted: list[int] = []
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with held_back(TO_END, noted.append):
            os.kill(os.getpid(), signal.SIGHUP)
            os.kill(os.getpid(), signal.SIGQUIT)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert noted == [signal.SIGQUIT]


@pytest.mark.parametrize("options", [(), ("--allow-writes",)])
def test_a_script_ends_with_a_doctor_that_is_killed(
    in_folder: Path, options: tuple[str, ...]
) -> None:
    (in_folder / "waits.py").write_text(_WAITS)
    with doctor("--quiet", *options, "waits.py") as process:
        pid = _up(process)
        process.kill()
        process.wait(PATIENCE_S)
        assert _is_ended(pid)
    _is_cleared_by_the_next()


def test_a_launcher_is_told_to_end_with_a_doctor_that_is_killed() -> None:
    if sandbox.unavailable() is not None:
        pytest.skip("a launcher is told by the sandbox, and there is none here")
    with doctor("--quiet", "--", "bash", "-c", _LAUNCHES) as process:
        pid = _up(process)
        process.kill()
        _, errors = process.communicate(timeout=PATIENCE_S)
        assert errors == "told\n"
        assert _is_ended(pid)
    _is_cleared_by_the_next()


def test_a_script_that_a_thread_starts_outlives_the_thread() -> None:
    children: list[subprocess.Popen[bytes]] = []

    def start(session: Path) -> None:
        command = [sys.executable, "-c", "import time; time.sleep(0.5)"]
        prepared = launch.prepared(command, session)
        children.append(launch.start(prepared, session, {}))

    with session_folder() as folder:
        thread = threading.Thread(target=start, args=(folder,))
        thread.start()
        thread.join()
        assert children[0].wait(PATIENCE_S) == 0
        assert '"asked_by": null' in (folder / OPTIONS_FILE).read_text()


def _is_cleared_by_the_next() -> None:
    """A doctor that was killed leaves its session, until the next one begins."""
    assert len(list(Path(os.environ["TMPDIR"]).glob("stoker-*"))) == 1
    with session_folder() as folder:
        assert list(Path(os.environ["TMPDIR"]).glob("stoker-*")) == [folder]
