"""Layout: 80 columns are enough, escapes only where they are wanted, numbers are never cut."""

from __future__ import annotations

import io
import re

import pytest
from rich.cells import cell_len

from stoker.report.canvas import Canvas, canvas_for
from stoker.report.terminal import render
from stoker.report.view import view
from tests.golden.diagnoses import ALL, cpu_saturated, serial_loader


class _Stream(io.StringIO):
    """A text stream that says of itself what a test wants it to."""

    def __init__(self, *, is_terminal: bool, encoding: str = "utf-8") -> None:
        super().__init__()
        self._is_terminal = is_terminal
        self._encoding = encoding

    def isatty(self) -> bool:
        return self._is_terminal

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


@pytest.mark.parametrize("width", [72, 80, 100])
@pytest.mark.parametrize("name", ALL)
def test_no_line_is_wider_than_the_canvas(name: str, width: int) -> None:
    text = render(view(ALL[name]()), Canvas(width=width))

    assert max(cell_len(row) for row in text.splitlines()) <= width


@pytest.mark.parametrize("width", [72, 80, 100])
@pytest.mark.parametrize("name", ALL)
def test_nothing_is_cut_off_to_make_it_fit(name: str, width: int) -> None:
    seen = view(ALL[name]())
    text = render(seen, Canvas(width=width))
    words = re.sub(r"\s+", "", text)

    assert text.count("…") <= 1  # the one in a fix's own "docker run --cpus=8 …"
    for row in seen.ledger.lines:
        assert row.time in text
    for card in seen.fixes:
        assert re.sub(r"\s+", "", card.promise) in words
    for stage in seen.stages:
        assert stage.wall in text


def test_the_symptom_comes_before_the_verdict_and_the_verdict_before_the_fixes() -> None:
    text = render(view(serial_loader()), Canvas())
    order = ["Symptom", "Neither number is proof", "serial-loader", "Where one step goes"]
    order += ["Evidence", "Host", "Fixes", "Don't", "Capacity", "Legs", "How this was measured"]

    positions = [text.index(title) for title in order]

    assert positions == sorted(positions)


def test_without_colors_there_is_not_a_single_escape_code() -> None:
    assert "\x1b" not in render(view(cpu_saturated()), Canvas(colors=None))


def test_colors_change_no_character_of_the_text() -> None:
    plain = render(view(cpu_saturated()), Canvas(colors=None))
    colored = render(view(cpu_saturated()), Canvas(colors="standard"))

    stripped = re.sub(r"\x1b\[[0-9;]*m", "", colored)
    assert colored != plain
    assert [row.rstrip() for row in stripped.splitlines()] == plain.splitlines()


def test_the_bar_fills_the_width_and_its_parts_their_shares() -> None:
    text = render(view(serial_loader()), Canvas(width=80))
    bar = next(row for row in text.splitlines() if row.count("█") > 10).strip()

    assert len(bar) == 78
    assert bar.count("█") == pytest.approx(78 * 0.418, abs=1)
    assert bar.count("▒") == pytest.approx(78 * 0.560, abs=1)


def test_an_ascii_terminal_gets_the_same_report_in_ascii_with_its_columns_in_line() -> None:
    text = render(view(cpu_saturated()), Canvas(is_unicode=False))

    assert text.isascii()
    rows = [row for row in text.splitlines() if row.endswith((" R", " D", "H-D", "C-H", "Lc-C"))]
    ledger = [row for row in rows if "%" in row][:4]
    assert len({re.search(r"%\s+\S+$", row).start() for row in ledger}) == 1  # type: ignore[union-attr]


def test_a_file_gets_80_columns_and_no_color() -> None:
    assert canvas_for(_Stream(is_terminal=False)) == Canvas(width=80, colors=None)


def test_columns_sets_the_width_of_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "90")

    assert canvas_for(_Stream(is_terminal=False)).width == 90


@pytest.mark.parametrize(("columns", "width"), [("300", 100), ("20", 72)])
def test_lines_are_kept_between_what_eyes_follow_and_what_numbers_need(
    monkeypatch: pytest.MonkeyPatch, columns: str, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", columns)

    assert canvas_for(_Stream(is_terminal=False)).width == width


def test_a_terminal_gets_color_unless_no_color_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    assert canvas_for(_Stream(is_terminal=True)).colors is not None

    monkeypatch.setenv("NO_COLOR", "1")
    assert canvas_for(_Stream(is_terminal=True)).colors is None


def test_a_dumb_terminal_gets_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")

    assert canvas_for(_Stream(is_terminal=True)).colors is None


def test_a_stream_that_cannot_write_unicode_is_drawn_on_in_ascii() -> None:
    assert not canvas_for(_Stream(is_terminal=False, encoding="latin-1")).is_unicode
