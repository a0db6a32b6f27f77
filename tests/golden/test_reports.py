"""Reports as they were last looked at and found good; README.md says how to store them anew."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stoker.diagnose.fixes import BY_CODE
from stoker.diagnose.ranking import answers
from stoker.report.canvas import Canvas
from stoker.report.terminal import render
from stoker.report.view import view
from tests.golden.diagnoses import ALL

_STORED = Path(__file__).parent / "reports"
_REGENERATE = "STOKER_REGENERATE_GOLDEN"

_CANVASES = {
    "txt": Canvas(width=80),
    "ascii.txt": Canvas(width=80, is_unicode=False),
    "color.txt": Canvas(width=80, colors="standard"),
}
# Every face plainly; the richest one also in ASCII and in colour.
_CASES = [(name, "txt") for name in ALL] + [
    ("cpu-saturated", "ascii.txt"),
    ("cpu-saturated", "color.txt"),
]


@pytest.mark.parametrize(("name", "kind"), _CASES, ids=lambda text: text)
def test_the_report_reads_as_it_was_stored(name: str, kind: str) -> None:
    stored = _STORED / f"{name}.{kind}"
    text = render(view(ALL[name]()), _CANVASES[kind])

    if os.environ.get(_REGENERATE):
        stored.parent.mkdir(exist_ok=True)
        stored.write_text(text, encoding="utf-8")
    assert text == stored.read_text(encoding="utf-8"), (
        f"look at the difference; if it is wanted: {_REGENERATE}=1 python -m pytest tests/golden"
    )


@pytest.mark.parametrize("name", ALL)
def test_a_report_shows_only_fixes_that_a_run_can_give(name: str) -> None:
    diagnosis = ALL[name]()
    for fix in diagnosis.fixes:
        known = BY_CODE[fix.code]
        assert fix.code in answers(diagnosis.verdict.code)
        assert fix.effort == known.effort
        assert fix.costs == known.costs or callable(known.costs)
        assert set(known.preconditions) <= set(fix.preconditions)
        assert fix.speedup is None or (fix.speedup.is_promise and not fix.withheld)


def test_no_stored_report_is_left_without_its_case() -> None:
    expected = {f"{name}.{kind}" for name, kind in _CASES}

    assert {path.name for path in _STORED.iterdir()} == expected
