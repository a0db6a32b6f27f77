"""Numbers inside verdict sentences; tables and columns are the report's business."""

from __future__ import annotations

from stoker.stats import Spread


def ms(seconds: Spread | float) -> str:
    """Milliseconds (or seconds from 10 s on) with three significant digits."""
    value = seconds.median if isinstance(seconds, Spread) else seconds
    if abs(value) >= 10:
        return f"{value:.1f} s"
    digits = 0 if abs(value) >= 0.1 else 1 if abs(value) >= 0.01 else 2
    return f"{value * 1000:.{digits}f} ms"


def percent(share: float) -> str:
    """A share in percent; one digit below ten."""
    return f"{share:.0%}" if abs(share) >= 0.1 else f"{share:.1%}"


def cores(count: float) -> str:
    """Cores, or workers, with one digit unless whole."""
    return f"{count:.0f}" if abs(count - round(count)) < 0.05 else f"{count:.1f}"


def held_by_others(foreign: float, owned: float) -> str:
    """That other programs were on the job's cores while it was measured."""
    return f"other processes kept {cores(foreign)} of the {cores(owned)} cores busy"


def count(number: float) -> str:
    """A mean number of things, with one digit unless whole or large."""
    is_whole = number >= 100 or abs(number - round(number)) < 0.05
    return f"{number:,.0f}" if is_whole else f"{number:.1f}"


def with_workers(count: int) -> str:
    """Another number of workers than the script's: "with 4 of them", "without any"."""
    return f"with {count} of them" if count else "without any"


def told(gain: Spread) -> str:
    """A gain with its interval: 2.12x (2.11 to 2.14)."""
    return f"{gain.median:.2f}x ({gain.low:.2f} to {gain.high:.2f})"
