"""Leg Q in a script: the files that its loader opens are read again where reads matter."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stoker.probe.storage.filesystem import mounted
from tests.attach.examined import watch

pytestmark = pytest.mark.usefixtures("in_folder")
SIZE = 60_000


@pytest.fixture
def folder(in_folder: Path) -> Path:
    """Eighty files of 60 kB, all in memory, as they were just written."""
    made = in_folder / "files"
    made.mkdir()
    for number in range(80):
        (made / f"{number:02}.bin").write_bytes(os.urandom(SIZE))
    return made


@pytest.mark.parametrize("kind", ["map", "stream"])
def test_the_files_of_a_loader_that_waits_are_read_cold_and_warm(folder: Path, kind: str) -> None:
    profile = watch("files.py", folder, 2, kind, budget_s=3)

    reads = profile.reads
    assert reads is not None, profile.environment.notes
    assert reads.files >= 16
    assert reads.bytes_per_read == SIZE
    assert reads.resident_share is not None
    assert reads.warm_s is not None
    if mounted(str(folder)).never_cold is None:
        assert reads.never_cold is None
        assert reads.cold_s is not None
        assert reads.cold_s.median > reads.warm_s.median
        assert reads.store is not None


@pytest.mark.full
def test_files_in_memory_of_a_loader_that_does_not_wait_are_left_there(folder: Path) -> None:
    profile = watch("files.py", folder, 0, budget_s=3)

    reads = profile.reads
    assert reads is not None, profile.environment.notes
    assert reads.resident_share == pytest.approx(1.0, abs=0.01)
    assert (reads.cold_s, reads.warm_s, reads.store) == (None, None, None)
