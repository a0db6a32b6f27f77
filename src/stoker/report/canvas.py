"""What a report is drawn on, and the drawing of its sections as text."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Literal, NamedTuple, TextIO

from rich.console import Console, RenderableType

from stoker.report.plain import in_ascii

ColorSystem = Literal["auto", "standard", "256", "truecolor", "windows"]

# Lines longer than this are hard to follow with the eye, however wide the window is.
_WIDEST = 100
# Below this the tables would cut numbers; a narrower terminal folds whole lines instead.
_NARROWEST = 72


class Canvas(NamedTuple):
    """What is drawn on: columns, colours (None: not a single escape code), and its characters."""

    width: int = 80
    colors: ColorSystem | None = None
    is_unicode: bool = True


def canvas_for(stream: TextIO) -> Canvas:
    """The canvas that a stream is: its width (80 or COLUMNS for a file) and what it can show.

    NO_COLOR, FORCE_COLOR and TERM=dumb are respected; see no-color.org and force-color.org.
    """
    console = Console(file=stream)
    colors = None if console.no_color else console.color_system
    encoding = (getattr(stream, "encoding", None) or "ascii").lower()
    return Canvas(
        width=max(_NARROWEST, min(console.width, _WIDEST)),
        colors=colors,  # type: ignore[arg-type]
        is_unicode=encoding.startswith("utf"),
    )


def drawn(sections: Iterable[RenderableType], canvas: Canvas) -> str:
    """The sections as text, one below the other, ending in a newline."""
    console = Console(
        file=io.StringIO(),
        width=canvas.width,
        color_system=canvas.colors,
        force_terminal=canvas.colors is not None,
        no_color=False,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
        safe_box=False,
    )
    with console.capture() as captured:
        for section in sections:
            console.print(section)
    rows = (row.rstrip() for row in captured.get().splitlines())
    text = "\n".join(rows).rstrip() + "\n"
    # What the layout itself added (an ellipsis, say) is spelled too.
    return text if canvas.is_unicode else in_ascii(text)
