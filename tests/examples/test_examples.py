"""Every example script runs, with settings that make it short."""

from __future__ import annotations

import ast
import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
Run = Callable[..., "subprocess.CompletedProcess[str]"]
SCRIPTS = sorted((ROOT / "examples").glob("*.py"))
# One line a script; a script without its line fails the first test below.
SHORT = {
    "feed_loader.py": ["photos", "--epochs", "1", "--step-ms", "5"],
    "make_tiles.py": ["more", "--count", "16", "--size", "64"],
    "prove_fix.py": ["diagnosis.json", "--rounds", "1"],
    "train_from_folder.py": ["photos", "--epochs", "1"],
    "train_images.py": ["photos", "--epochs", "1", "--workers", "2", "--step-ms", "1"],
    "train_packed.py": ["packed", "--epochs", "1", "--workers", "2", "--step-ms", "1"],
}


# Of a diagnosis, what prove_fix.py reads.
DIAGNOSIS = {
    "script": {"argv": ["train.py", "photos", "--step-ms", "30"], "cwd": "."},
    "fixes": [
        {
            "code": "overlap",
            "how": "DataLoader(..., num_workers=1)",
            "speedup": {"median": 1.5, "low": 0.1, "high": 100.0},
        }
    ],
}


@pytest.fixture(autouse=True)
def a_diagnosis(user_folder: Path) -> None:
    (user_folder / "diagnosis.json").write_text(json.dumps(DIAGNOSIS))


def test_every_example_is_run_here() -> None:
    assert {script.name for script in SCRIPTS} == set(SHORT)


@pytest.mark.parametrize("name", SHORT)
def test_an_example_runs(name: str, run: Run) -> None:
    if "packed" in SHORT[name]:
        run("stoker", "pack", "photos", "packed", "--size", "256", "--quiet")
    run(sys.executable, f"examples/{name}", *SHORT[name])


def test_the_training_example_says_when_its_step_is_a_sleep(run: Run) -> None:
    slept = run(sys.executable, "train.py", "photos", "--epochs", "1", "--step-ms", "1").stdout
    trained = run(sys.executable, "train.py", "photos", "--epochs", "1").stdout
    assert "each step is a sleep of 1 ms" in slept
    assert "sleep" not in trained and "loss" in trained


def test_the_training_example_knows_nothing_of_stoker() -> None:
    text = (ROOT / "examples" / "train_images.py").read_text()
    imported = {
        name
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module] if isinstance(node, ast.ImportFrom) else [])
        + [alias.name for alias in node.names]
    }
    assert "stoker" not in text and not any(str(name).startswith("stoker") for name in imported)


def test_a_fix_that_is_no_number_of_workers_is_not_proved(run: Run, user_folder: Path) -> None:
    fixes = [{"code": "pack", "how": "stoker pack photos", "speedup": None}]
    (user_folder / "pack.json").write_text(json.dumps({**DIAGNOSIS, "fixes": fixes}))
    printed = run(sys.executable, "examples/prove_fix.py", "pack.json").stdout
    assert "no fix is a number of workers (fixes: pack)" in printed


def test_the_measured_gain_stands_beside_the_promised_one(run: Run) -> None:
    printed = run(sys.executable, "examples/prove_fix.py", "diagnosis.json", "--rounds", "1").stdout
    assert "fix 1 of 1, overlap: --workers 1" in printed
    assert "gain promised: 1.50x (0.10 to 100.00): measured inside" in printed


def _hashes(folder: Path) -> list[str]:
    return [hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.rglob("*.jpg"))]


def test_tiles_all_differ_and_the_same_seed_makes_the_same_ones(
    run: Run, user_folder: Path
) -> None:
    for folder in ("first", "second"):
        run(sys.executable, "examples/make_tiles.py", folder, "--count", "64", "--size", "64")
    first = _hashes(user_folder / "first")
    assert len(set(first)) == 64
    assert first == _hashes(user_folder / "second")


def test_complete_tiles_are_used_again_and_an_unfinished_folder_is_made_anew(
    run: Run, user_folder: Path
) -> None:
    make = (sys.executable, "examples/make_tiles.py", "tiles", "--count", "16", "--size", "64")
    run(*make)
    assert "already" in run(*make).stdout
    (user_folder / "tiles" / "tiles.json").unlink()
    assert "already" not in run(*make).stdout
    assert len(_hashes(user_folder / "tiles")) == 16
