"""Real scripts in the sandbox: the real files stay as they are, and the list of writes is right."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from stoker.probe import sandbox

NOBODY = 65534

SCRIPT = """\
import fcntl, multiprocessing, os, pathlib, shutil, sys, tempfile
from multiprocessing import shared_memory


def square(number):
    pathlib.Path(f"from-worker-{number}.txt").write_text(str(number * number))
    return number * number


if __name__ == "__main__":
    here, home = pathlib.Path.cwd(), pathlib.Path.home()
    (here / "best.pt").write_text("the new one, and longer")
    with open("log.txt", "a") as log:
        log.write("another line")
    os.remove("old.txt")
    (here / "runs" / "today").mkdir(parents=True)
    (here / "runs" / "today" / "events").write_bytes(bytes(5000))
    (home / ".settings").write_text("x")
    shutil.rmtree("stale")
    (here / "half.tmp").write_text("checkpoint")
    os.replace("half.tmp", "whole.pt")
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        assert pool.map(square, [3, 4]) == [9, 16]
    block = shared_memory.SharedMemory(create=True, size=64)
    block.buf[:3] = b"abc"
    block.close()
    block.unlink()
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "scratch").write_text("y")
    with open("lock", "w") as first, open("lock", "w") as second:
        fcntl.flock(first, fcntl.LOCK_EX)
        try:
            fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
            sys.exit("two holders of one lock")
        except BlockingIOError:
            pass
    with open("data.bin", "r+b") as unchanged:  # opened to write, never written
        assert unchanged.read() == b"samples"
    assert (here / "best.pt").read_text() == "the new one, and longer"
    assert not (here / "old.txt").exists()
    print("done in", here)
"""


class Place(NamedTuple):
    """A project and a home to write into, and a session beside them."""

    project: Path
    home: Path
    session: Path

    def snapshot(self) -> dict[str, tuple[int, bytes]]:
        return {
            str(path): (path.lstat().st_mode, path.read_bytes() if path.is_file() else b"")
            for root in (self.project, self.home)
            for path in sorted(root.rglob("*"))
        }


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path / "project", tmp_path / "home", tmp_path / "session")
    for folder in made:
        folder.mkdir()
    for name, text in {
        "best.pt": "the old one",
        "log.txt": "a line",
        "old.txt": "going",
        "data.bin": "samples",
        "train.py": SCRIPT,
    }.items():
        (made.project / name).write_text(text)
    (made.project / "stale").mkdir()
    (made.project / "stale" / "a.txt").write_text("a")
    return made


@pytest.fixture(scope="module")
def allowed() -> None:
    reason = sandbox.unavailable()
    if reason is None:
        return
    # Anything else is a fault of ours, not a right that is missing here.
    assert "does not let user" in reason or "the kernel refused every layer" in reason, reason
    pytest.skip(f"no sandbox on this machine: {reason}")


def run(
    place: Place, command: Sequence[str], *, python: str = sys.executable, user: int | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [python, *sandbox.wrap(command, place.session)[1:]],
        cwd=place.project,
        env={**os.environ, "HOME": str(place.home)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        user=user,
        group=user,
        extra_groups=None if user is None else [],
    )


def expected_writes(place: Place) -> set[str]:
    project = place.project
    return {
        f"overwrites {project}/best.pt (23 bytes)",
        f"overwrites {project}/log.txt (18 bytes)",
        f"deletes {project}/old.txt",
        f"deletes {project}/stale",
        f"makes folder {project}/runs",
        f"makes folder {project}/runs/today",
        f"creates {project}/runs/today/events (5.0 kB)",
        f"creates {project}/whole.pt (10 bytes)",
        f"creates {project}/from-worker-3.txt (1 bytes)",
        f"creates {project}/from-worker-4.txt (2 bytes)",
        f"creates {project}/lock (0 bytes)",
        f"creates {place.home}/.settings (1 bytes)",
    }


@pytest.mark.usefixtures("allowed")
def test_no_write_of_the_script_is_real_and_the_list_names_each(place: Place) -> None:
    before = place.snapshot()
    ended = run(place, [sys.executable, "train.py"])
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == f"done in {place.project}\n"
    assert place.snapshot() == before
    listed = sandbox.would_have_written(place.session)
    assert {line for line in listed if str(place.project.parent) in line} == expected_writes(place)
    sandbox.discard(place.session)
    assert list(place.session.iterdir()) == []


@pytest.mark.usefixtures("allowed")
def test_an_ordinary_user_gets_the_same(place: Place) -> None:
    if os.geteuid() != 0:
        pytest.skip("the test above already ran as an ordinary user")
    python = _python_of_everybody(place)
    for path in (*place, *place.project.rglob("*"), *place.home.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    before = place.snapshot()
    ended = run(place, [python, "train.py"], python=python, user=NOBODY)
    assert ended.returncode == 0, ended.stderr
    assert place.snapshot() == before
    listed = sandbox.would_have_written(place.session)
    assert {line for line in listed if str(place.project.parent) in line} == expected_writes(place)
    sandbox.discard(place.session)
    assert list(place.session.iterdir()) == []


def _python_of_everybody(place: Place) -> str:
    """An interpreter that another user may run, with the way to the test folder opened for it."""
    for folder in place.project.parents:
        if folder.stat().st_mode & 0o5 != 0o5:
            folder.chmod(folder.stat().st_mode | 0o5)
    for python in (sys.executable, "/usr/bin/python3"):
        try:
            asked = subprocess.run(
                [python, "-c", "import sys; print(sys.version_info >= (3, 11))"],
                capture_output=True,
                text=True,
                check=False,
                user=NOBODY,
                group=NOBODY,
                extra_groups=[],
            )
        except OSError:
            continue
        if asked.stdout == "True\n":
            return python
    pytest.skip("no Python 3.11 or newer that user nobody may run")


@pytest.mark.usefixtures("allowed")
def test_the_trial_leaves_nothing_behind(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    before = place.snapshot()
    monkeypatch.setenv("HOME", str(place.home))
    monkeypatch.chdir(place.project)
    assert sandbox.unavailable(place.session) is None
    assert place.snapshot() == before
    assert list(place.session.iterdir()) == []


def test_where_the_session_takes_no_folder_the_trial_says_so(place: Place) -> None:
    reason = sandbox.unavailable(place.session / "gone")
    assert reason == "no folder for the trial can be made: No such file or directory"


@pytest.mark.usefixtures("allowed")
def test_a_session_inside_the_working_directory_is_refused_with_the_way_out(place: Place) -> None:
    inside = place._replace(session=place.project / "session")
    inside.session.mkdir()
    ended = run(inside, [sys.executable, "train.py"])
    assert ended.returncode == sandbox.EXIT_NO_SANDBOX
    assert "set TMPDIR to a folder outside it" in ended.stderr
    assert (place.project / "old.txt").exists()


@pytest.mark.usefixtures("allowed")
def test_the_exit_code_of_the_program_passes_through(place: Place) -> None:
    assert run(place, ["sh", "-c", "exit 42"]).returncode == 42


def up(place: Place, command: list[str]) -> subprocess.Popen[str]:
    """A program in the sandbox that has said that it is up."""
    program = subprocess.Popen(
        sandbox.wrap(command, place.session),
        cwd=place.project,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert program.stdout is not None
    assert program.stdout.readline() == "up\n"
    return program


@pytest.mark.usefixtures("allowed")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_program_as_if_it_stood_alone(
    place: Place, number: signal.Signals
) -> None:
    with up(place, ["sh", "-c", "echo up; exec sleep 60"]) as program:
        program.send_signal(number)
        assert program.wait(timeout=10) == -number


@pytest.mark.usefixtures("allowed")
def test_a_script_can_catch_a_signal_and_choose_its_own_code(place: Place) -> None:
    script = (
        "import signal, sys\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))\n"
        "print('up', flush=True)\n"
        "signal.pause()\n"
    )
    with up(place, [sys.executable, "-c", script]) as program:
        program.terminate()
        assert program.wait(timeout=10) == 7


@pytest.mark.usefixtures("allowed")
def test_a_missing_program_is_code_127_and_says_what_to_do(place: Place) -> None:
    ended = run(place, ["no-such-launcher", "train.py"])
    assert ended.returncode == sandbox.EXIT_NOT_FOUND == 127
    assert "'no-such-launcher'" in ended.stderr
    assert "next: check its spelling" in ended.stderr


@pytest.mark.usefixtures("allowed")
def test_a_file_that_is_no_program_is_code_126(place: Place) -> None:
    ended = run(place, ["./data.bin"])
    assert ended.returncode == sandbox.EXIT_NOT_EXECUTABLE == 126


def test_wrong_arguments_are_usage(place: Place) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "stoker.probe.sandbox", "--session"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 2
    assert "usage:" in ended.stderr


@pytest.mark.usefixtures("allowed")
def test_a_socket_of_another_program_still_answers(place: Place) -> None:
    path = place.project / "server"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        script = f"import socket; socket.socket(socket.AF_UNIX).connect({str(path)!r})"
        ended = run(place, [sys.executable, "-c", script])
    assert ended.returncode == 0, ended.stderr


@pytest.mark.usefixtures("allowed")
def test_a_socket_in_a_folder_of_another_user_is_no_obstacle(place: Place) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs a folder that this user may not look into")
    python = _python_of_everybody(place)
    closed = place.project.parent / "closed"
    closed.mkdir(mode=0o700)
    for path in place:
        os.chown(path, NOBODY, NOBODY)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(closed / "server"))
        server.listen()
        ended = run(place, [python, "-c", "print('ran')"], python=python, user=NOBODY)
    assert (ended.returncode, ended.stdout) == (0, "ran\n"), ended.stderr
