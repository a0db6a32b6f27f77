"""The command as a user has it: a process of its own, judged by its streams and its exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from stoker import __version__
from stoker.records.codec import to_json
from tests.golden.diagnoses import cpu_saturated, inconclusive

_HEAVY = ("torch", "numpy", "rich", "msgspec", "pint")


def _stoker(
    *argv: str, environment: dict[str, str] | None = None, stdin: str | None = None
) -> subprocess.CompletedProcess[str]:
    plain = {
        name: value
        for name, value in os.environ.items()
        if name not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")
    }
    return subprocess.run(
        [sys.executable, "-m", "stoker", *argv],
        capture_output=True,
        encoding="utf-8",
        env={**plain, **(environment or {})},
        input=stdin,
        timeout=60,
        check=False,
    )


@pytest.fixture
def diagnosis_file(tmp_path: Path) -> Path:
    path = tmp_path / "diagnosis.json"
    path.write_text(to_json(cpu_saturated()), encoding="utf-8")
    return path


def test_help_goes_to_stdout_and_lists_the_commands() -> None:
    done = _stoker("--help")

    assert (done.returncode, done.stderr) == (0, "")
    assert "doctor" in done.stdout
    assert "report" in done.stdout


@pytest.mark.parametrize("command", ["doctor", "report"])
def test_every_command_has_its_help(command: str) -> None:
    done = _stoker(command, "--help")

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"usage: stoker {command}")


def test_the_version_is_told() -> None:
    assert _stoker("--version").stdout == f"stoker {__version__}\n"


@pytest.mark.parametrize(
    ("argv", "first_line"),
    [
        ([], "error: no command was named"),
        (["docter"], "error: unknown command 'docter'; did you mean 'doctor'?"),
        (["--versoin"], "error: unknown option '--versoin'; did you mean '--version'?"),
        (["doctor"], "error: no script was named"),
        (["doctor", "--jsn", "x"], "error: unknown option '--jsn'; did you mean '--json'?"),
        (["doctor", "--fail-on", "x", "t.py"], "error: --fail-on: 'x' is not NAME OPERATOR NUMBER"),
        (["report"], "error: the following arguments are required: FILE"),
        (["report", "--html", "d"], "error: unknown option '--html'; did you mean '--help'?"),
    ],
    ids=" ".join,
)
def test_a_command_line_without_sense_exits_with_2_and_says_what_to_run(
    argv: list[str], first_line: str
) -> None:
    done = _stoker(*argv)

    assert (done.returncode, done.stdout) == (2, "")
    first, looked_at, run_next = done.stderr.splitlines()
    assert first == first_line
    assert looked_at.startswith("  looked at: ")
    assert run_next.startswith("  next: stoker ")


def test_a_script_in_the_place_of_a_command_is_answered_with_the_command() -> None:
    assert f"next: stoker doctor {__file__}" in _stoker(__file__).stderr


def test_a_missing_script_is_an_error_and_not_a_traceback() -> None:
    done = _stoker("doctor", "no-such-script.py")

    assert (done.returncode, done.stdout) == (1, "")
    assert "no-such-script.py" in done.stderr.splitlines()[0]
    assert "Traceback" not in done.stderr


def test_a_report_without_a_terminal_is_plain_text_of_80_columns(diagnosis_file: Path) -> None:
    done = _stoker("report", str(diagnosis_file))

    assert (done.returncode, done.stderr) == (0, "")
    assert "cpu-saturated (deterministic)" in done.stdout
    assert "\x1b" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) == 80


def test_columns_makes_a_report_wider(diagnosis_file: Path) -> None:
    done = _stoker("report", str(diagnosis_file), environment={"COLUMNS": "95"})

    assert max(map(len, done.stdout.splitlines())) == 95


def test_a_report_in_an_ascii_locale_is_ascii(diagnosis_file: Path) -> None:
    done = _stoker("report", str(diagnosis_file), environment={"PYTHONIOENCODING": "ascii"})

    assert done.returncode == 0
    assert done.stdout.isascii()
    assert "312 ms (305-320)" in done.stdout


def test_a_report_of_an_inconclusive_run_was_answered_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "d.json").write_text(to_json(inconclusive()), encoding="utf-8")

    assert _stoker("report", str(tmp_path / "d.json")).returncode == 0


def test_json_goes_round_through_pipes_unchanged(diagnosis_file: Path) -> None:
    text = diagnosis_file.read_text(encoding="utf-8")

    done = _stoker("report", "-", "--json", "-", stdin=text)

    assert done.stdout == text


def test_a_report_can_be_copied_while_it_is_shown(diagnosis_file: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.json"

    done = _stoker("report", "--json", str(copy), str(diagnosis_file))

    assert "cpu-saturated" in done.stdout
    assert json.loads(copy.read_text()) == json.loads(diagnosis_file.read_text())


@pytest.mark.parametrize(
    ("content", "happened"),
    [
        (None, "cannot be read: No such file or directory"),
        ("", "is not JSON"),
        ("verdict: bad", "is not JSON"),
        ("[]", "key 'schema' is None, allowed is 'stoker.diagnosis/1'"),
        ('{"schema": "stoker.diagnosis/2"}', "key 'schema' is 'stoker.diagnosis/2', allowed"),
        ('{"schema": "stoker.diagnosis/1", "verdikt": 1}', "key 'verdikt' is unknown"),
        ('{"schema": "stoker.diagnosis/1"}', "missing required field `script`"),
    ],
    ids=["missing", "empty", "yaml", "list", "newer", "unknown key", "incomplete"],
)
def test_a_file_that_is_no_diagnosis_is_refused_by_name(
    tmp_path: Path, content: str | None, happened: str
) -> None:
    path = tmp_path / "d.json"
    if content is not None:
        path.write_text(content)

    done = _stoker("report", str(path))

    assert (done.returncode, done.stdout) == (1, "")
    first, looked_at, run_next = done.stderr.splitlines()
    assert first.startswith(f"error: {path}")
    assert happened in first
    assert str(path) in looked_at
    assert run_next.startswith("  next: ")


def test_a_reader_that_goes_away_is_no_error(diagnosis_file: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "stoker", "report", str(diagnosis_file)],
            stdout=writer,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    finally:
        os.close(writer)

    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("argv", [["--help"], ["doctor", "--help"], ["report", "{file}"]])
def test_a_full_disk_behind_stdout_is_an_error_in_three_parts(
    diagnosis_file: Path, argv: list[str]
) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "stoker", *(word.format(file=diagnosis_file) for word in argv)],
            stdout=full,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            timeout=60,
            check=False,
        )

    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 3
    assert done.stderr.startswith("error: stdout cannot be written: No space left on device")


@pytest.mark.parametrize(
    "code",
    [
        "import stoker",
        "from stoker.cli.main import main; main(['--help'])",
        "from stoker.cli.main import main; main(['--version'])",
        "from stoker.cli.main import main; main(['docter'])",
        "from stoker.cli import commands; [entry.load() for entry in commands.COMMANDS]",
    ],
)
def test_nothing_heavy_is_imported_before_it_is_needed(code: str) -> None:
    probe = f"{code}\nimport sys\nprint([name for name in {_HEAVY} if name in sys.modules])"

    done = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, timeout=60, check=True
    )

    assert done.stdout.splitlines()[-1] == "[]"
