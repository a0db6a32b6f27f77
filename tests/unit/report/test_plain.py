"""Texts from outside may not steer the terminal that shows them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.report.plain import block, in_ascii, line


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2Jtrain.py", "\\x1b[2Jtrain.py"),
        ("a\x07b", "a\\x07b"),
        ("caf\udce9.py", "caf\\udce9.py"),
        ("abc\u202eyp.niart", "abc\\u202eyp.niart"),
        ("two\n  lines\tand a tab", "two lines and a tab"),
        ("naïve 数据 ✓", "naïve 数据 ✓"),
        ("[red]markup[/red]", "[red]markup[/red]"),
    ],
)
def test_what_would_act_is_shown_as_an_escape(text: str, shown: str) -> None:
    assert line(text) == shown


def test_a_snippet_keeps_its_lines_and_its_indentation() -> None:
    assert block("\nDataLoader(\n\tdata,  \n)\n") == "DataLoader(\n    data,\n)"


@given(st.text())
def test_nothing_that_is_shown_can_steer_a_terminal(text: str) -> None:
    assert line(text).isprintable() or not any(ord(char) < 32 for char in line(text))
    assert "\x1b" not in block(text)


@given(st.text())
def test_an_ascii_terminal_gets_ascii(text: str) -> None:
    assert in_ascii(text).isascii()


def test_symbols_are_spelled_for_an_ascii_terminal() -> None:
    assert in_ascii("80.1 ms (79.6–80.6) ≥ −1 µs") == "80.1 ms (79.6-80.6) >= -1 us"
