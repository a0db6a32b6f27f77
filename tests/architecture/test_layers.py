"""Imports point down only, as pyproject.toml draws them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_imports_point_down_and_neighbours_do_not_import_each_other() -> None:
    command = Path(sys.executable).with_name("lint-imports")
    ended = subprocess.run(
        [command, "--no-cache", "--no-logo"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
