"""What is shown while measuring: a row of its own on a terminal, few lines elsewhere."""

from __future__ import annotations

import errno
import io
import os

import pytest

from stoker.cli.bottomline import BottomLine
from stoker.cli.progress import at_most_every, watched
from stoker.probe.attach import Progress
from stoker.spans import FakeClock


def _progress(fraction: float, left_s: float | None = 12.0) -> Progress:
    return Progress("D", "the model alone", fraction, left_s)


class _Terminal(io.StringIO):
    encoding = "utf-8"  # type: ignore[assignment]

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return 2


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> _Terminal:
    """A terminal of 60 columns and 20 rows."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(os, "get_terminal_size", lambda _: os.terminal_size((60, 20)))
    return _Terminal()


def test_quiet_shows_nothing() -> None:
    stream = io.StringIO()

    with watched(quiet=True, stream=stream) as listener:
        assert listener is None
    assert stream.getvalue() == ""


def test_a_log_gets_plain_lines_and_not_more_than_one_in_five_seconds() -> None:
    stream, clock = io.StringIO(), FakeClock()

    with watched(quiet=False, stream=stream, clock=clock) as listener:
        assert listener is not None
        for second in range(11):
            listener(_progress(second / 20, 20.0 - second))
            clock.advance(1.0)

    assert stream.getvalue().splitlines() == [
        "stoker: 0% leg D: the model alone, 20 s left",
        "stoker: 25% leg D: the model alone, 15 s left",
        "stoker: 50% leg D: the model alone, 10 s left",
    ]


def test_starting_is_no_leg_and_an_unknown_end_no_time() -> None:
    stream = io.StringIO()

    with watched(quiet=False, stream=stream, clock=FakeClock()) as listener:
        assert listener is not None
        listener(Progress("W", "starting the script", 0.0, None))

    assert stream.getvalue() == "stoker: 0% starting the script\n"


def test_a_terminal_gets_a_bar_the_time_left_and_the_leg(terminal: _Terminal) -> None:
    with watched(quiet=False, stream=terminal, clock=FakeClock()) as listener:
        assert listener is not None
        listener(_progress(0.5))

    assert "█" * 12 + "░" * 12 in terminal.getvalue()
    assert " 50%  12 s left  leg D: the mo" in terminal.getvalue()


def test_the_bar_is_drawn_at_most_four_times_a_second(terminal: _Terminal) -> None:
    clock = FakeClock()

    with watched(quiet=False, stream=terminal, clock=clock) as listener:
        assert listener is not None
        for _ in range(100):
            listener(_progress(0.5))
            clock.advance(0.01)

    assert terminal.getvalue().count("50%") == 4


def test_no_color_is_respected_on_a_terminal(
    terminal: _Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    with watched(quiet=False, stream=terminal, clock=FakeClock()) as listener:
        assert listener is not None
        listener(_progress(0.5))

    assert "\x1b[32m" not in terminal.getvalue()


@pytest.mark.parametrize(("term", "rows"), [("dumb", 20), ("xterm", 4)])
def test_a_terminal_without_room_or_cursor_gets_lines(
    terminal: _Terminal, monkeypatch: pytest.MonkeyPatch, term: str, rows: int
) -> None:
    monkeypatch.setenv("TERM", term)
    monkeypatch.setattr(os, "get_terminal_size", lambda _: os.terminal_size((60, rows)))

    with watched(quiet=False, stream=terminal, clock=FakeClock()) as listener:
        assert listener is not None
        listener(_progress(0.5))

    assert terminal.getvalue() == "stoker: 50% leg D: the model alone, 12 s left\n"


@pytest.mark.parametrize(("fraction", "shown"), [(-0.5, "0%"), (1.7, "100%")])
def test_a_share_out_of_range_is_shown_at_its_end(fraction: float, shown: str) -> None:
    stream = io.StringIO()

    with watched(quiet=False, stream=stream, clock=FakeClock()) as listener:
        assert listener is not None
        listener(_progress(fraction))

    assert f" {shown} " in stream.getvalue()


def test_the_last_row_is_taken_from_the_scrolling_region_and_given_back() -> None:
    stream = io.StringIO()

    with BottomLine(stream, lambda: os.terminal_size((60, 20))) as bottom:
        bottom.draw("first")
        bottom.draw("second")

    text = stream.getvalue()
    assert text.count("\x1b[1;19r") == 1  # reserved once
    assert "\x1b[20;1H\x1b[2Ksecond" in text
    assert text.endswith("\x1b7\x1b[r\x1b[20;1H\x1b[2K\x1b8")  # whole again, cursor where it was


def test_the_row_is_given_back_also_when_measuring_fails() -> None:
    stream = io.StringIO()

    with (
        pytest.raises(KeyboardInterrupt),
        BottomLine(stream, lambda: os.terminal_size((60, 20))) as bottom,
    ):
        bottom.draw("first")
        raise KeyboardInterrupt

    assert "\x1b[r" in stream.getvalue()


def test_nothing_is_given_back_that_was_never_taken() -> None:
    stream = io.StringIO()

    with BottomLine(stream, lambda: os.terminal_size((60, 20))):
        pass

    assert stream.getvalue() == ""


def test_a_window_that_changed_its_size_gets_a_new_region() -> None:
    stream, rows = io.StringIO(), [20]

    with BottomLine(stream, lambda: os.terminal_size((60, rows[0]))) as bottom:
        bottom.draw("first")
        rows[0] = 30
        bottom.draw("second")

    assert "\x1b[1;29r" in stream.getvalue()
    assert "\x1b[30;1H\x1b[2Ksecond" in stream.getvalue()


def test_a_listener_is_called_first_at_once() -> None:
    seen: list[Progress] = []
    listener = at_most_every(5.0, FakeClock(), seen.append)

    listener(_progress(0.1))
    listener(_progress(0.2))

    assert [item.fraction for item in seen] == [0.1]


def test_a_terminal_that_was_closed_costs_no_answer(
    terminal: _Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed(*_: object) -> int:
        raise OSError(errno.EIO, "closed")

    clock = FakeClock()
    with watched(quiet=False, stream=terminal, clock=clock) as listener:
        assert listener is not None
        listener(_progress(0.5))
        monkeypatch.setattr(terminal, "write", closed)
        clock.advance(1.0)
        listener(_progress(0.6))
