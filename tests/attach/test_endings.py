"""Scripts that end early or badly, and input that makes no sense: a clear answer and its code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from stoker.errors import InputError, NoLoopFound
from stoker.probe.attach import Options, Target, examine
from stoker.probe.descendants import descendants
from stoker.records.profile import End
from tests.attach.examined import (
    LOAD_S,
    STEP_S,
    about,
    answer,
    doctor,
    launch,
    process_of,
    script,
    watch,
)

pytestmark = pytest.mark.usefixtures("in_folder")


def _first_lines(stderr: str) -> str:
    """The error message: what happened, what was looked at, what to run next."""
    lines = stderr.splitlines()
    begin = max(n for n, line in enumerate(lines) if line.startswith("error: "))
    assert [line.split(":")[0].strip() for line in lines[begin : begin + 3]] == [
        "error",
        "looked at",
        "next",
    ]
    return lines[begin]


def _profile(path: Path) -> dict[str, Any]:
    diagnosis: dict[str, Any] = json.loads(path.read_text())
    return diagnosis["profile"]  # type: ignore[no-any-return]


# -- what can't be run -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "says"),
    [
        (Target("script", ("nowhere.py",)), "the script 'nowhere.py' does not exist"),
        (Target("script", (".",)), "the script '.' is a directory"),
        (Target("module", ("no.such.module",)), "there is no module 'no.such.module'"),
        (Target("module", ("json.nothing",)), "there is no module 'json.nothing'"),
        (Target("launcher", ("no-such-launcher",)), "there is no program 'no-such-launcher'"),
    ],
    ids=lambda value: " ".join(value.argv) if isinstance(value, Target) else "",
)
def test_a_target_that_is_not_there_is_refused_before_anything_runs(
    target: Target, says: str
) -> None:
    with pytest.raises(InputError) as refused:
        examine(target, Options())

    assert refused.value.happened == says
    assert refused.value.looked_at
    assert refused.value.run_next


def test_looking_for_a_module_does_not_import_its_package(in_folder: Path) -> None:
    package = in_folder / "loud_package"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('imported by the doctor')")

    with pytest.raises(InputError):
        examine(Target("module", ("loud_package.missing",)), Options())


def test_a_launcher_without_an_interpreter_is_refused(in_folder: Path) -> None:
    launcher = in_folder / "launcher"
    launcher.write_text("echo no first line that names a program\n")
    launcher.chmod(0o755)

    with pytest.raises(InputError, match="can't be started"):
        examine(Target("launcher", (str(launcher),)), Options(allow_writes=True))


# -- no loop, or hardly one ------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["no-loop", pytest.param("empty", marks=pytest.mark.full)])
def test_a_script_without_a_loop_is_told_so(how: str) -> None:
    with pytest.raises(NoLoopFound) as told:
        watch("ending.py", how)

    assert "no training loop was seen" in told.value.happened
    assert "no batch was taken" in told.value.looked_at
    assert told.value.run_next


def test_a_script_without_torch_is_told_so_by_the_command(in_folder: Path) -> None:
    (in_folder / "hello.py").write_text("print('hello')")

    code, stdout, stderr = answer("hello.py")

    assert (code, stdout) == (1, "")
    assert "hello\n" in stderr, "what the script prints belongs on stderr"
    assert "no training loop was seen" in _first_lines(stderr)


def test_a_script_that_fails_for_want_of_its_own_python_is_told_how_to_name_one(
    in_folder: Path,
) -> None:
    (in_folder / "breaks.py").write_text("import a_package_of_another_environment")

    code, _, stderr = answer("breaks.py")

    assert code == 1
    assert "stoker doctor -- PYTHON breaks.py" in stderr


def test_three_steps_are_too_few_for_a_verdict_and_are_shown(in_folder: Path) -> None:
    code, _, stderr = answer("--json", "d.json", script("ending.py"), "three-steps")

    assert code == 3, stderr
    profile = _profile(in_folder / "d.json")
    assert profile["end"] == "script-ended"
    assert profile["legs"]["R"]["steps"] <= 3
    assert any("first steps" in note for note in profile["environment"]["notes"])


@pytest.mark.full
def test_a_loader_of_one_batch_has_a_step_of_its_whole_epoch() -> None:
    profile = watch("ending.py", "one-batch")

    assert profile.end is not End.CRASHED
    assert profile.epochs is not None
    assert profile.epochs.batches == 1
    assert profile.real is not None
    assert profile.real.median == about(STEP_S + LOAD_S, 0.5)


@pytest.mark.full
def test_with_all_its_streams_closed_a_doctor_writes_its_answer(in_folder: Path) -> None:
    doctor = [sys.executable, "-m", "stoker", "doctor", "--json", "d.json"]
    command = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *doctor, script("ending.py")]
    ended = subprocess.run([*command, "three-steps"], timeout=60, check=False)

    assert ended.returncode == 3
    assert _profile(in_folder / "d.json")["legs"]["R"]["steps"] <= 3


# -- the script fails ------------------------------------------------------------------------------


def test_a_script_that_raises_shows_its_own_traceback_code_and_a_partial_profile(
    in_folder: Path,
) -> None:
    code, _, stderr = answer("--json", "d.json", script("ending.py"), "raises")

    assert code == 1
    trace = stderr.partition("Traceback (most recent call last):")[2]
    assert "RuntimeError: step 7 is broken" in trace
    assert "stoker" not in trace.partition("RuntimeError")[0].replace("/stoker/", "")
    profile = _profile(in_folder / "d.json")
    assert (profile["end"], profile["exit_code"]) == ("crashed", 1)
    assert 0 < profile["legs"]["R"]["steps"] <= 7


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("worker-raises", "ValueError: sample 30 is broken"),
        ("worker-exits", "exited unexpectedly"),
        pytest.param("worker-is-killed", "is killed by signal: Killed", marks=pytest.mark.full),
    ],
)
def test_a_worker_that_fails_ends_the_script_as_it_does_without_us(
    how: str, says: str, capfd: pytest.CaptureFixture[str]
) -> None:
    profile = watch("ending.py", how)

    stderr = capfd.readouterr().err
    assert says in stderr
    assert "stoker/probe" not in stderr, "frames of ours stand in the script's traceback"
    assert (profile.end, profile.exit_code) == (End.CRASHED, 1)


@pytest.mark.parametrize(
    ("how", "expected"), [("exits", 3), pytest.param("exits-at-once", 5, marks=pytest.mark.full)]
)
def test_the_exit_code_of_the_script_is_passed_on(how: str, expected: int, in_folder: Path) -> None:
    code, _, _ = answer("--json", "d.json", "--budget", "60", script("ending.py"), how)

    assert code == expected
    profile = _profile(in_folder / "d.json")
    assert (profile["end"], profile["exit_code"]) == ("crashed", expected)
    assert "R" in profile["legs"]


@pytest.mark.full
def test_a_script_that_swallows_the_stop_is_ended_all_the_same(
    capfd: pytest.CaptureFixture[str],
) -> None:
    profile = watch("stubborn.py")

    assert profile.exit_code == 0
    assert profile.end in (End.BUDGET, End.CONVERGED)
    assert "the loop begins" in capfd.readouterr().err, "what it had printed is lost"


@pytest.mark.full
def test_a_code_that_the_script_gives_our_stop_is_no_failure_of_it() -> None:
    profile = watch("stubborn.py", "exit")

    assert profile.exit_code == 0
    assert profile.end in (End.BUDGET, End.CONVERGED)
    assert any("ended with code 1 when it was stopped" in n for n in profile.environment.notes)


# -- signals ---------------------------------------------------------------------------------------


def _wait_for(leg: str, pid: int, within_s: float = 30.0) -> int:
    """Waits until a leg is begun; the pid of the training process."""
    session = Path(os.environ["TMPDIR"])
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        for file in session.glob("stoker-*/trainer-*.jsonl"):
            if f'"leg":"{leg}"' in file.read_text():
                return int(file.stem.split("-")[1])
        time.sleep(0.05)
    pytest.fail(f"leg {leg} was not begun in {within_s} s; processes: {descendants(pid)}")


def test_ctrl_c_ends_the_script_and_shows_what_was_seen_so_far(in_folder: Path) -> None:
    call = ("--json", "d.json", "--budget", "60", script("plain_for.py"), "2")
    with doctor(*call) as process:
        _wait_for("R", process.pid)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=40)

    assert process.returncode == 130
    assert "KeyboardInterrupt" in stderr, "the script was not asked to end by itself"
    profile = _profile(in_folder / "d.json")
    assert profile["end"] == "interrupted"
    assert profile["legs"]["R"]["steps"] > 10


@pytest.mark.full
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_termination_of_the_doctor_ends_the_script_and_shows_what_was_seen(
    in_folder: Path, number: signal.Signals
) -> None:
    call = ("--json", "d.json", "--budget", "60", script("plain_for.py"), "2")
    with doctor(*call) as process:
        _wait_for("D", process.pid)
        process.send_signal(number)
        process.communicate(timeout=40)

    assert process.returncode == 128 + number
    assert _profile(in_folder / "d.json")["legs"]["R"]["steps"] > 10


@pytest.mark.full
def test_a_signal_reaches_a_script_behind_a_launcher_that_keeps_it_to_itself() -> None:
    shell = f"trap : INT; {sys.executable} {script('plain_for.py')}; exit 0"
    with doctor("--budget", "60", "--", "bash", "-c", shell) as process:
        _wait_for("R", process.pid)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=40)

    assert process.returncode == 130
    assert "KeyboardInterrupt" in stderr


def test_a_training_process_that_is_killed_leaves_its_profile_and_no_workers(
    in_folder: Path,
) -> None:
    call = ("--json", "d.json", "--budget", "6", script("plain_for.py"), "2")
    with doctor(*call) as process:
        trainer = _wait_for("D", process.pid)
        os.kill(trainer, signal.SIGKILL)
        process.communicate(timeout=40)

    assert process.returncode == 128 + signal.SIGKILL
    profile = _profile(in_folder / "d.json")
    assert (profile["end"], profile["exit_code"]) == ("crashed", 137)
    assert profile["legs"]["R"]["steps"] > 10


# -- what the script writes, reads and prints ------------------------------------------------------


def test_stdin_is_the_script_s_its_stdout_goes_to_stderr_and_its_files_stay_as_they_were(
    in_folder: Path,
) -> None:
    checkpoint = in_folder / "model.pt"
    checkpoint.write_bytes(b"the best one so far")
    call = ("--budget", "2", "--json", "-", script("checkpoints.py"))
    with doctor(*call, stdin=subprocess.PIPE) as process:
        stdout, stderr = process.communicate("number 17\n", timeout=60)

    assert "run number 17" in stderr
    profile = json.loads(stdout)["profile"]
    assert profile["exit_code"] == 0
    if profile["environment"]["writes"] == "overlay":
        wrote = " ".join(profile["environment"]["would_write"])
        assert "model.pt" in wrote
        assert "log.txt" in wrote
        assert not (in_folder / "log.txt").exists()
    assert checkpoint.read_bytes() == b"the best one so far"


@pytest.mark.full
def test_with_allow_writes_the_script_writes_its_files(in_folder: Path) -> None:
    (in_folder / "model.pt").write_bytes(b"old")
    call = ("--budget", "2", "--quiet", "--allow-writes", script("checkpoints.py"))
    with doctor(*call, stdin=subprocess.PIPE) as process:
        process.communicate("number 18\n", timeout=60)

    assert (in_folder / "model.pt").stat().st_size > 100
    assert (in_folder / "log.txt").read_text() == "number 18"


@pytest.mark.full
def test_what_a_script_leaves_running_is_ended(in_folder: Path) -> None:
    daemon = "import time; time.sleep(300)"
    shell = f"{sys.executable} -c '{daemon}' & exec {sys.executable} {script('plain_for.py')}"
    launch("bash", "-c", shell, budget_s=2)

    assert process_of(daemon) == []
