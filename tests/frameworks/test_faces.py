"""Training libraries take Stoker's faces as they take torch's DataLoader, and see the same samples.

In the environment of the framework tests, with this stoker on PYTHONPATH.
"""

from __future__ import annotations

import json
import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-frameworks" / "bin" / "python"
SCRIPT = Path(__file__).parent / "scripts" / "faces.py"
LIBRARIES = ("accelerate", "lightning", "transformers")
TIMEOUT_S = 120.0
EPOCH = list(range(24))

pytestmark = [pytest.mark.full, pytest.mark.usefixtures("environment")]


@cache
def shown(library: str, face: str) -> dict[str, Any]:
    """What the model was shown."""
    ended = subprocess.run(
        [str(PYTHON), str(SCRIPT), library, face],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    told: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return told


@pytest.mark.parametrize("face", ["threads", "processes"])
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_library_is_shown_the_samples_that_torchs_loader_would_show_it(
    library: str, face: str
) -> None:
    wanted, found = shown(library, "torch"), shown(library, face)
    assert len(wanted["seen"]) == 2 * len(EPOCH)
    assert found["seen"] == wanted["seen"]
    assert found["loss"] == pytest.approx(wanted["loss"])
    makers = {"threads": ["stoker-loader"], "processes": ["worker process"]}[face]
    if library == "accelerate":
        # It builds a loader of its own from the settings of the one that it is given.
        makers = ["worker process"]
    assert found["makers"] == makers


@pytest.mark.parametrize("face", ["loader", "dataset"])
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_pack_goes_through_a_library_sample_by_sample(library: str, face: str) -> None:
    wanted, found = shown("plain", face), shown(library, face)
    assert [sorted(found["seen"][:24]), sorted(found["seen"][24:])] == [EPOCH, EPOCH]
    assert found["seen"][:24] != EPOCH
    if face == "loader":
        assert found["seen"] == wanted["seen"]
