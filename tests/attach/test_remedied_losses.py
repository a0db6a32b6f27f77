"""A real training on real photos: under remedies the same losses, bit for bit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.attach.remedied import SCRIPT, SLOW_S, plain, remedied

ARGUMENTS = ("--epochs", 2, "--per-photo", 20)


@pytest.fixture(scope="module")
def losses() -> str:
    """What the script prints by itself: losses as hexadecimal, and a hash of its weights."""
    return plain(*ARGUMENTS)


@pytest.mark.parametrize(
    ("remedies", "workers"),
    [
        ("overlap=2,persistent-workers,prefetch-depth=4,native-threads,allocator", 0),
        ("cache-ram=50MB", 0),
        ("overlap=2,pinned-async", 0),
        pytest.param("overlap=2", 0, marks=pytest.mark.full),
        pytest.param("pinned-async", 2, marks=pytest.mark.full),
        pytest.param("persistent-workers", 2, marks=pytest.mark.full),
        pytest.param("prefetch-depth=4", 2, marks=pytest.mark.full),
        pytest.param("workers=0", 2, marks=pytest.mark.full),
        ("workers=3,persistent-workers,cache-ram=50MB", 2),
    ],
)
def test_the_losses_are_the_same_bit_for_bit(
    remedies: str, workers: int, losses: str, tmp_path: Path
) -> None:
    # Copies to the device are of the script's own making, so the losses are those without them.
    arguments = (*ARGUMENTS, *["--link"] * ("pinned-async" in remedies), "--workers", workers)
    ended = remedied(remedies, *arguments, folder=tmp_path, baseline_s=SLOW_S)
    assert ended.stdout == losses
    assert ended.code == 0
    assert ended.account["refused"] == []
    assert ended.account["rolled_back"] is None
    assert ended.account["notes"] == []
    # All steps but those with which an epoch, or another way, begins. Four entries of the sampler
    # are watched first, and workers of the script's own take these at once.
    expected = {"own": 0, "remedied": 2 * 7} if workers else {"own": 3, "remedied": 3 + 7}
    assert ended.account["steps"] == expected


@pytest.mark.full
def test_workers_that_are_started_anew_do_the_same(losses: str, tmp_path: Path) -> None:
    ended = remedied(
        "workers=1,persistent-workers,cache-ram=50MB,native-threads",
        *ARGUMENTS,
        *("--workers", 2, "--start", "spawn"),
        folder=tmp_path,
        baseline_s=SLOW_S,
    )
    assert ended.stdout == losses
    assert ended.account["rolled_back"] is None
    assert ended.account["steps"]["remedied"] == 2 * 7


def test_the_certificate_says_that_the_bytes_are_the_same(losses: str, tmp_path: Path) -> None:
    ended = remedied("overlap=2", *ARGUMENTS, folder=tmp_path, baseline_s=SLOW_S, checked_batches=3)
    assert ended.stdout == losses
    assert ended.account["certificate"].startswith("3 batches compared")
    assert ended.account["certificate"].endswith("the same bytes")


@pytest.mark.full
def test_changing_hands_within_an_epoch_changes_nothing(tmp_path: Path) -> None:
    arguments = ("--epochs", 2, "--per-photo", 48, "--wait-s", 0.001)
    ended = remedied("overlap=2", *arguments, folder=tmp_path, window_s=0.1)
    assert ended.stdout == plain(*arguments)
    steps = ended.account["steps"]
    assert min(steps.values()) > 0, steps  # its own way for a while, then the other


def test_what_works_in_the_training_process_alone_is_rolled_back(
    losses: str, tmp_path: Path
) -> None:
    ended = remedied(
        "overlap=2,persistent-workers",
        *(*ARGUMENTS, "--fails-in-workers", "--children"),
        folder=tmp_path,
        baseline_s=SLOW_S,
    )
    assert ended.stdout == losses
    assert ended.code == 0
    assert "does not work in a worker" in ended.account["rolled_back"]
    assert "rolled back, the script has its own loader again" in ended.stderr
    assert "children 0\n" in ended.stderr


def test_without_a_diagnosis_shared_memory_is_asked_for_room_all_the_same(
    losses: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = os.statvfs("/dev/shm")
    used = (size.f_blocks - size.f_bavail) * size.f_frsize
    monkeypatch.setenv("STOKER_SHM_BYTES", str(used + 3_000_000))  # seven batches or so
    ended = remedied("overlap=8", *ARGUMENTS, folder=tmp_path)
    assert ended.stdout == losses
    assert ended.account["applied"] == []
    assert "MB of shared memory" in ended.account["refused"][0]["reason"]


@pytest.fixture(scope="module")
def failed() -> tuple[int, str]:
    """Exit code and traceback of the script by itself, where one of its samples is broken."""
    command = [sys.executable, str(SCRIPT), *map(str, ARGUMENTS), "--fails-at", "17"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "ValueError: sample 17 is broken" in ended.stderr
    return ended.returncode, ended.stderr


@pytest.mark.parametrize(
    "remedies",
    [
        "overlap=2",
        pytest.param("cache-ram=50MB", marks=pytest.mark.full),
        pytest.param("cache-local=copies:1GB", marks=pytest.mark.full),
        pytest.param("overlap=2,pinned-async", marks=pytest.mark.full),
        pytest.param("workers=2,persistent-workers,prefetch-depth=4", marks=pytest.mark.full),
        pytest.param("overlap=2,native-threads,allocator", marks=pytest.mark.full),
        # Beyond the first batch in any order nobody knows what is missing: the worker's own error.
        pytest.param("workers=2,unordered", marks=pytest.mark.full),
    ],
)
def test_the_scripts_own_error_is_raised_as_the_script_raises_it(
    remedies: str, failed: tuple[int, str], tmp_path: Path
) -> None:
    link = ["--link"] * ("pinned-async" in remedies)
    given = remedies.replace("copies", str(tmp_path / "copies"))
    arguments = (*ARGUMENTS, *link, "--fails-at", 17)
    ended = remedied(given, *arguments, folder=tmp_path, baseline_s=SLOW_S)
    code, traceback = failed
    assert ended.code == code
    if "unordered" in remedies:
        assert "ValueError: sample 17 is broken" in ended.stderr
    else:
        assert traceback in ended.stderr, "frames of ours stand in it"


@pytest.mark.full
def test_remedies_that_do_not_help_are_rolled_back(tmp_path: Path) -> None:
    # Next to nothing to load: workers can't make a step of 20 ms faster.
    arguments = ("--epochs", 1, "--per-photo", 190, "--step-s", 0.02)
    ended = remedied("overlap=1", *arguments, folder=tmp_path, window_s=0.2)
    assert ended.stdout == plain(*arguments)
    assert "no gain" in ended.account["rolled_back"]
