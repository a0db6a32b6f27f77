"""The project stands alone: its text names no folder of the machine it was written on."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("src", "tests", "docs", "examples", "benchmarks", "scripts", ".ci")
# The folders of the machine at hand: this checkout, what it lies in, and the user's home.
HERE = {ROOT, ROOT.parent, Path.home()} - {Path("/"), Path("/home"), Path("/tmp")}
MACHINE_PATHS = re.compile(
    r"(?<![\w.<{}])(?:" + "|".join(re.escape(str(path)) for path in sorted(HERE)) + r")(?![\w-])"
)
URLS = re.compile(r"https?://\S+")


def _texts() -> list[Path]:
    found = [path for path in ROOT.iterdir() if path.is_file()]
    for folder in FOLDERS:
        found += [path for path in (ROOT / folder).rglob("*") if path.is_file()]
    return [path for path in sorted(found) if "__pycache__" not in path.parts]


def test_no_file_names_a_path_of_one_machine() -> None:
    found = []
    for path in _texts():
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        found += [
            f"{path.relative_to(ROOT)}:{number}: {line.strip()[:80]}"
            for number, line in enumerate(text.splitlines(), start=1)
            if MACHINE_PATHS.search(URLS.sub("", line))
        ]
    assert found == []


def test_pins_name_versions_only() -> None:
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        assert line.startswith("#") or re.fullmatch(r"[A-Za-z0-9_.\-]+==[\w.!]+", line), line


def test_torch_is_pinned_to_the_version_of_the_cases() -> None:
    assert "torch==2.13.0" in (ROOT / "constraints.txt").read_text().splitlines()
