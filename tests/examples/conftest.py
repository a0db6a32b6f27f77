"""A folder like a user's: a training script, photos, the examples, and `stoker` on the PATH."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Doctor runs of a few seconds and imports of torch; a block that takes longer hangs.
TIMEOUT_S = 120

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def made_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the documents speak of: train.py, photos/, examples/, .demo/tiles/ and docs/."""
    folder = tmp_path_factory.mktemp("user")
    shutil.copytree(ROOT / "examples", folder / "examples")
    shutil.copytree(ROOT / "docs", folder / "docs")
    shutil.copy(ROOT / "examples" / "train_images.py", folder / "train.py")
    make = ["make_tiles.py", str(folder / "photos"), "--count", "64", "--size", "256"]
    subprocess.run([sys.executable, *make], cwd=ROOT / "examples", check=True, capture_output=True)
    shutil.copytree(folder / "photos", folder / ".demo" / "tiles")
    return folder


@pytest.fixture
def user_folder(made_folder: Path, tmp_path: Path) -> Path:
    """A copy of it for one test to write in."""
    return shutil.copytree(made_folder, tmp_path / "user")


@pytest.fixture
def run(user_folder: Path) -> Run:
    """Runs a command in the user's folder; fails with its whole output when it fails."""

    def run_there(*command: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONWARNINGS": "error",
        }
        ended = subprocess.run(
            command,
            cwd=user_folder,
            env=environment,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert ended.returncode == 0, f"{command}\n{ended.stdout}\n{ended.stderr}"
        return ended

    return run_there
