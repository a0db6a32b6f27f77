"""An environment with the training libraries, and the doctor for a script in it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PYTHON = Path(__file__).parents[2] / ".venv-frameworks" / "bin" / "python"
SCRIPTS = Path(__file__).parent / "scripts"
TIMEOUT_S = 180.0


@pytest.fixture(scope="session")
def environment() -> None:
    """The libraries, installed when they are not."""
    subprocess.run([str(Path(__file__).parent / "setup")], check=True, timeout=1800)


@pytest.fixture
def examine(tmp_path: Path) -> Any:
    """Runs the doctor on a script in the libraries' environment; gives the diagnosis."""

    def run(library: str, *arguments: str, budget_s: int = 15) -> dict[str, Any]:
        ended = subprocess.run(
            [
                *(sys.executable, "-m", "stoker", "doctor", "--quiet"),
                *("--budget", str(budget_s), "--json", "diagnosis.json", "--"),
                *(str(PYTHON), str(SCRIPTS / f"{library}.py"), *arguments),
            ],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert ended.returncode in (0, 3), ended.stderr
        diagnosis: dict[str, Any] = json.loads((tmp_path / "diagnosis.json").read_text())
        return diagnosis

    return run
