"""`stoker storage` as a user has it: a process of its own, judged by its streams and exit code."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stoker.probe.storage.filesystem import mounted
from stoker.records.codec import from_json
from stoker.records.storage import SCHEMA, StorageReport

KB = 1024
SHORT = ("--seconds", "1", "--bytes", "60MB")


def command(*argv: str) -> list[str]:
    return [sys.executable, "-m", "stoker", "storage", *argv]


def environment(**more: str) -> dict[str, str]:
    hidden = ("NO_COLOR", "FORCE_COLOR", "COLUMNS")
    return {**{k: v for k, v in os.environ.items() if k not in hidden}, **more}


def stoker_storage(*argv: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*argv),
        capture_output=True,
        encoding="utf-8",
        env=environment(**more),
        timeout=60,
        check=False,
    )


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    folder.mkdir()
    for index in range(60):
        (folder / f"{index:02}.jpg").write_bytes(os.urandom(60 * KB))
    return folder


def test_a_folder_gives_a_table_on_stdout_and_progress_on_stderr(photos: Path) -> None:
    done = stoker_storage(*SHORT, str(photos))
    assert done.returncode == 0
    assert "60 files, 3.69 MB" in done.stdout
    assert "small files, whole" in done.stdout
    assert "One read costs" in done.stdout
    assert "\x1b" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert done.stderr.startswith("stoker: ")


def test_colour_is_shown_when_forced_and_never_against_no_color(photos: Path) -> None:
    assert "\x1b" in stoker_storage(*SHORT, str(photos), FORCE_COLOR="1").stdout
    both = stoker_storage(*SHORT, str(photos), FORCE_COLOR="1", NO_COLOR="1")
    assert "\x1b[3" not in both.stdout


def test_json_on_stdout_is_all_there_is_on_stdout(photos: Path) -> None:
    done = stoker_storage(*SHORT, "--quiet", "--json", "-", str(photos))
    assert (done.returncode, done.stderr) == (0, "")
    report = from_json(done.stdout, StorageReport, source="stdout", schema=SCHEMA)
    assert report.files == 60
    assert report.scaling is not None
    assert report.seconds < 5
    assert report.bytes_read <= 60_000_000


def test_json_in_a_file_comes_beside_the_table(photos: Path, tmp_path: Path) -> None:
    out = tmp_path / "storage.json"
    done = stoker_storage(*SHORT, "--quiet", "--json", str(out), str(photos))
    assert "One read costs" in done.stdout
    assert from_json(out.read_bytes(), StorageReport, source="x", schema=SCHEMA).files == 60


def test_the_folder_is_as_before(photos: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in photos.iterdir()}
    stoker_storage(*SHORT, "--allow-write", str(photos))
    assert {path: path.stat().st_mtime_ns for path in photos.iterdir()} == before


def test_a_missing_path_is_told_in_three_parts(tmp_path: Path) -> None:
    done = stoker_storage(str(tmp_path / "none"))
    assert done.returncode == 1
    assert done.stdout == ""
    assert "none cannot be read: No such file or directory" in done.stderr
    assert "looked at:" in done.stderr
    assert "next:" in done.stderr


def test_an_empty_folder_is_told_with_what_may_be_done(tmp_path: Path) -> None:
    done = stoker_storage(str(tmp_path))
    assert done.returncode == 1
    assert "holds nothing to read" in done.stderr
    assert "--allow-write" in done.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_may_not_be_listed_is_told(tmp_path: Path) -> None:
    tmp_path.chmod(0o000)
    try:
        done = stoker_storage(str(tmp_path))
    finally:
        tmp_path.chmod(0o700)
    assert done.returncode == 1
    assert "Permission denied" in done.stderr


@pytest.mark.parametrize(
    "argv",
    [
        ("--seconds", "0", "x"),
        ("--seconds", "soon", "x"),
        ("--bytes", "-5", "x"),
        ("--bytes", "5 images", "x"),
        (),
    ],
)
def test_a_command_line_without_sense_is_a_usage_error(argv: tuple[str, ...]) -> None:
    done = stoker_storage(*argv)
    assert done.returncode == 2
    assert "error: " in done.stderr


def test_files_in_memory_are_said_to_be_never_cold() -> None:
    shm = Path("/dev/shm")
    if not mounted(str(shm)).is_memory or not os.access(shm, os.W_OK):
        pytest.skip("/dev/shm is no memory that can be written to")
    path = shm / f"stoker-test-{os.getpid()}"
    try:
        path.write_bytes(bytes(8 * 1024 * KB))
        done = stoker_storage(*SHORT, str(path))
    finally:
        path.unlink()
    assert done.returncode == 0
    assert "nothing cold was measured: /dev/shm is tmpfs" in " ".join(done.stdout.split())
    assert " cold " not in done.stdout.partition("One reader")[2]


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_however_it_ends_nothing_stays_in_the_folder(tmp_path: Path, end: signal.Signals) -> None:
    scratch_open = f"{tmp_path}/"
    running = subprocess.Popen(
        command("--allow-write", "--seconds", "30", str(tmp_path)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    try:
        _wait_for_scratch(running.pid, scratch_open)
        running.send_signal(end)
        out, _ = running.communicate(timeout=30)
    finally:
        running.kill()
        running.wait()
    assert out == b""
    if end is signal.SIGINT:
        assert running.returncode == 130
    assert list(tmp_path.iterdir()) == []


def _wait_for_scratch(pid: int, folder: str) -> None:
    """Until the process holds a file of the folder open that has no name."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        for handle in Path(f"/proc/{pid}/fd").glob("*"):
            with contextlib.suppress(FileNotFoundError):  # closed since it was listed
                target = str(handle.readlink())
                if target.startswith(folder) and "(deleted)" in target:
                    return
        time.sleep(0.02)
    pytest.fail("no scratch file was seen")
