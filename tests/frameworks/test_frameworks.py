"""Each training library's ordinary script: the verdict of the plain loop over the same loader.

They run in an environment of their own (tests/frameworks/setup), which has no stoker.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

PYTHON = Path(__file__).parents[2] / ".venv-frameworks" / "bin" / "python"
LIBRARIES = (
    "plain_loop",
    "stateful_loop",
    "lightning_trainer",
    "transformers_trainer",
    "accelerate_loop",
)
# Eight samples of 4 ms of computing before a step of about 35 ms.
SLOW = ("--sample-ms", "4")
# The same made by a worker in a quarter of the step.
HEALTHY = ("--sample-ms", "1", "--workers", "1")

pytestmark = [pytest.mark.full, pytest.mark.usefixtures("environment")]


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_slow_data_set_without_workers_is_found_through_the_library(
    library: str, examine: Any
) -> None:
    diagnosis = examine(library, *SLOW)

    assert diagnosis["verdict"]["code"] == "serial-loader", diagnosis["verdict"]["sentence"]
    assert diagnosis["fixes"][0]["code"] in ("overlap", "pack")
    step = diagnosis["step"]
    assert step["real_s"] == pytest.approx(step["device_s"] + step["loader_s"], rel=0.25)
    assert 0.3 < diagnosis["verdict"]["lost_share"]["median"] < 0.6


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_healthy_loader_is_not_blamed_through_the_library(library: str, examine: Any) -> None:
    # Where cores share caches or an arithmetic unit, a worker slows the Trainer's own work by 5 to
    # 8 % of the step: to tell that from nothing takes more steps than to find a slow data set.
    diagnosis = examine(library, *HEALTHY, budget_s=30)

    assert diagnosis["verdict"]["code"] == "device-bound", diagnosis["verdict"]["sentence"]
    assert diagnosis["profile"]["loader"]["workers"] == 1


def test_the_scripts_files_stay_away_from_the_users_folder(examine: Any, tmp_path: Path) -> None:
    """Checkpoints and logs that Lightning writes by default."""
    examine("lightning_trainer", *SLOW)
    assert [path.name for path in tmp_path.iterdir()] == ["diagnosis.json"]


def test_the_examined_environment_has_no_stoker() -> None:
    found = subprocess.run(
        [str(PYTHON), "-I", "-c", "import stoker"], capture_output=True, check=False
    )
    assert found.returncode != 0
