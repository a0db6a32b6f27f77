"""What runs inside a script's own process imports nothing but the standard library."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import stoker

SRC = Path(stoker.__file__).parents[1]
# Everything that `stoker run` and `stoker doctor` load there, the feed of the remedies included.
INSIDE = ("stoker.remedy.loaders", "stoker.remedy.bootstrap", "stoker.probe.bootstrap")


@pytest.mark.parametrize("module", INSIDE)
def test_a_script_needs_no_library_for_our_sake(module: str) -> None:
    # -S: without the folders of installed packages, as in a Python that has no stoker.
    code = f"import sys; sys.path.insert(0, {str(SRC)!r}); import {module}"
    ended = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
