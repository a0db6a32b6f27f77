"""How far a measurement is, on stderr: a live line on a terminal, now and then a line elsewhere."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, TextIO

from stoker.cli.bottomline import LEAST_ROWS, BottomLine
from stoker.cli.terminal_guard import guarded
from stoker.spans import Clock, SystemClock

if TYPE_CHECKING:
    from stoker.probe.attach import Progress

Listener = Callable[["Progress"], None]

# Drawing takes CPU from the run that is measured; four times a second is fluent enough.
_LIVE_PERIOD_S = 0.25
# A log wants to know that it goes on, not more.
_LINE_PERIOD_S = 5.0
_BAR_WIDTH = 24
_GREEN, _PLAIN = "\x1b[32m", "\x1b[0m"


@contextmanager
def watched(
    *, quiet: bool, stream: TextIO, clock: Clock | None = None
) -> Iterator[Listener | None]:
    """A listener for the progress of a measurement; None when nothing is to be shown."""
    clock = clock or SystemClock()
    if quiet:
        yield None
    elif _is_drawable(stream):
        with (
            guarded(stream.fileno()),
            BottomLine(stream, lambda: os.get_terminal_size(stream.fileno())) as bottom,
        ):
            yield at_most_every(_LIVE_PERIOD_S, clock, _bar_drawer(bottom, _bar_style(stream)))
    else:
        yield at_most_every(_LINE_PERIOD_S, clock, _line_writer(stream))


def _is_drawable(stream: TextIO) -> bool:
    if not stream.isatty() or os.environ.get("TERM", "dumb") in ("dumb", "unknown"):
        return False
    return os.get_terminal_size(stream.fileno()).lines >= LEAST_ROWS


def at_most_every(period_s: float, clock: Clock, listener: Listener) -> Listener:
    """The listener, called for the first progress and then no sooner than `period_s` later."""
    next_ns = clock.wall_ns()

    def thinned(progress: Progress) -> None:
        nonlocal next_ns
        now = clock.wall_ns()
        if now >= next_ns:
            next_ns = now + round(period_s * 1e9)
            with contextlib.suppress(OSError):  # a terminal that was closed costs no answer
                listener(progress)

    return thinned


def _line_writer(stream: TextIO) -> Listener:
    def write(progress: Progress) -> None:
        left = f", {_left(progress)}" if progress.left_s is not None else ""
        print(f"stoker: {_share(progress):.0%} {_what(progress)}{left}", file=stream, flush=True)

    return write


class _BarStyle(NamedTuple):
    done: str
    to_do: str
    has_color: bool


def _bar_style(stream: TextIO) -> _BarStyle:
    is_unicode = (stream.encoding or "ascii").lower().startswith("utf")
    done, to_do = ("█", "░") if is_unicode else ("#", "-")
    return _BarStyle(done, to_do, has_color=not os.environ.get("NO_COLOR"))


def _bar_drawer(bottom: BottomLine, style: _BarStyle) -> Listener:
    def draw(progress: Progress) -> None:
        share = _share(progress)
        cells = round(share * _BAR_WIDTH)
        words = [f"{share:4.0%}", _left(progress), _what(progress)]
        text = "  ".join(word for word in words if word)[: bottom.columns - _BAR_WIDTH - 1]
        bar = style.done * cells + style.to_do * (_BAR_WIDTH - cells)
        bottom.draw(f"{_GREEN}{bar}{_PLAIN} {text}" if style.has_color else f"{bar} {text}")

    return draw


def _share(progress: Progress) -> float:
    return min(max(progress.fraction, 0.0), 1.0)


def _what(progress: Progress) -> str:
    """The leg and what it is; starting and warming up are no legs."""
    from stoker.records.profile import LegCode

    is_leg = progress.leg in LegCode.__members__.values()
    return f"leg {progress.leg}: {progress.text}" if is_leg else progress.text


def _left(progress: Progress) -> str:
    return "" if progress.left_s is None else f"{max(progress.left_s, 0.0):.0f} s left"
