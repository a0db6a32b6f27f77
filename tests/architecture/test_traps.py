"""The table of traps in docs/doctor.md names tests that exist for all but three at most."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TABLE = (ROOT / "docs" / "doctor.md").read_text().partition("## Traps")[2].partition("\n## ")[0]
ROWS = [line for line in TABLE.splitlines() if line.startswith("|")][2:]
MOST_DESCRIBED_ONLY = 3


def test_every_test_that_holds_a_trap_exists() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", TABLE)
    assert len(named) >= len(ROWS) - MOST_DESCRIBED_ONLY
    gone = [
        f"{path}::{test}"
        for path, test in named
        if not (ROOT / path).exists() or f"def {test}(" not in (ROOT / path).read_text()
    ]
    assert gone == []


def test_at_most_three_traps_are_only_described() -> None:
    described = [row for row in ROWS if "::" not in row]
    assert len(described) <= MOST_DESCRIBED_ONLY, described
