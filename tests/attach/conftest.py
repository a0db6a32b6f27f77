"""For the tests that examine scripts: a folder of their own, and nothing left behind in it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attach.examined import nothing_left


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The working directory of the script; fails the test that leaves files or processes."""
    monkeypatch.chdir(tmp_path)
    with nothing_left() as folder:
        monkeypatch.setenv("TMPDIR", str(folder))
        monkeypatch.setattr(tempfile, "tempdir", str(folder))
        yield tmp_path
