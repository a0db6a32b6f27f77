"""Numbers as text: units that fit, digits that the interval justifies, intervals beside the number.

Formatting only. A number that isn't known is said to be unknown, never shown as zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from stoker.stats import Spread

UNKNOWN = "not measured"
_MINUS = "−"
# A reader compares three digits at a glance; more are shown only where an interval is narrower.
_DIGITS = 3
_MOST_DIGITS = 4
_FEWEST_DIGITS = 2
# From here on digits are not read but counted.
_READABLE = 1e9


class Unit(NamedTuple):
    """How a stored number is shown: multiplied by `factor`, followed by `suffix`."""

    factor: float
    suffix: str


# Thresholds in the stored unit, largest first; the last one takes everything below.
_SCALES: dict[str, tuple[tuple[float, Unit], ...]] = {
    "s": (
        (1.0, Unit(1.0, " s")),
        (1e-3, Unit(1e3, " ms")),
        (1e-6, Unit(1e6, " µs")),
        (0.0, Unit(1e9, " ns")),
    ),
    "bytes": (
        (1e12, Unit(1e-12, " TB")),
        (1e9, Unit(1e-9, " GB")),
        (1e6, Unit(1e-6, " MB")),
        (1e3, Unit(1e-3, " kB")),
        (0.0, Unit(1.0, " B")),
    ),
    "bytes/s": (
        (1e9, Unit(1e-9, " GB/s")),
        (1e6, Unit(1e-6, " MB/s")),
        (0.0, Unit(1e-3, " kB/s")),
    ),
    "share": ((0.0, Unit(100.0, "%")),),
    "x": ((0.0, Unit(1.0, "x")),),
    "": ((0.0, Unit(1.0, "")),),
}


def unit_for(kind: str, magnitude: float) -> Unit:
    """The unit in which a number of this kind and size reads best.

    `kind` is "s", "bytes", "bytes/s", "share", "x" or the unit's own name ("cores", "samples/s").
    """
    scales = _SCALES.get(kind)
    if scales is None:
        return Unit(1.0, f" {kind}")
    size = abs(magnitude) if math.isfinite(magnitude) else 1.0
    if size == 0.0:
        return _SCALES["s"][1][1] if kind == "s" else scales[-1][1]
    for threshold, unit in scales:
        # 0.9996 s would round to 1000 ms: it already belongs to the larger unit.
        if size * (1 + 0.5 * 10**-_DIGITS) >= threshold:
            return unit
    return scales[-1][1]


def decimals_for(shown: float, digits: int = _DIGITS) -> int:
    """Decimals that give a shown number this many significant digits."""
    if shown == 0.0 or not math.isfinite(shown):
        return 0
    # The exponent after rounding: 0.9998 has the decimals of 1.00.
    exponent = int(f"{shown:.{digits - 1}e}".partition("e")[2])
    return max(0, digits - 1 - exponent)


def fixed(shown: float, decimals: int) -> str:
    """A number with fixed decimals and a true minus sign; a rounded zero has no sign."""
    if not math.isfinite(shown):
        return "∞" if shown == math.inf else f"{_MINUS}∞" if shown == -math.inf else "?"
    if abs(shown) >= _READABLE:
        return f"{shown:.1e}".replace("-", _MINUS)
    text = f"{shown:,.{decimals}f}"
    if round(shown, decimals) == 0.0:
        return text.lstrip("-")
    return text.replace("-", _MINUS)


def amount(value: float | None, kind: str) -> str:
    """A number without an interval: "312 ms", "25.6%", "1.94x", "7.5 cores"."""
    if value is None or math.isnan(value):
        return UNKNOWN
    unit = unit_for(kind, value)
    shown = value * unit.factor
    return fixed(shown, _usual_decimals(shown, kind)) + unit.suffix


def counted(number: int, noun: str) -> str:
    """A number of things: "1 shard", "1,200 shards"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def percent(share: float | None) -> str:
    """A share as a whole percentage, but 0.4% and 99.6% keep what tells them from none and all."""
    if share is None or math.isnan(share):
        return UNKNOWN
    shown = share * 100
    is_plain = shown == 0.0 or 9.95 <= abs(shown) < 99.05 or abs(shown) >= 99.95
    return f"{fixed(shown, 0 if is_plain else 1)}%"


def spread(number: Spread | None, kind: str) -> str:
    """A number with its 95 % interval in the same unit: "312 ms (305–320)"."""
    if number is None or math.isnan(number.median):
        return UNKNOWN
    unit = unit_for(kind, number.median or max(abs(number.low), abs(number.high)))
    places = _justified_decimals(number, unit, kind)
    centre = fixed(number.median * unit.factor, places) + unit.suffix
    inside = ends(number, unit, places)
    return f"{centre} ({inside})" if inside else centre


def withheld(gain: Spread) -> str:
    """What is said of a gain whose interval is too wide for a number; empty where it is not."""
    if gain.is_promise:
        return ""
    if gain.low > 1:  # that it helps is known, if not how much
        return f"faster, too few steps to tell how much (at least {amount(gain.low, 'x')})"
    return "too few steps to tell"


def alike(values: Sequence[float], kind: str) -> tuple[str, ...]:
    """Numbers that are compared with the first: in its unit, as fine as it is shown."""
    unit = unit_for(kind, values[0])
    decimals = decimals_for(values[0] * unit.factor)
    return tuple(fixed(value * unit.factor, decimals) + unit.suffix for value in values)


def ends(number: Spread, unit: Unit, decimals: int) -> str:
    """The interval alone: "305–320", "−0.4 to 1.2", "at least 305"; empty for an exact number."""
    low, high = number.low * unit.factor, number.high * unit.factor
    if number.low == number.median == number.high:
        return ""
    if not math.isfinite(low) and not math.isfinite(high):
        return "no interval"
    if not math.isfinite(high):
        return f"at least {fixed(low, decimals)}"
    if not math.isfinite(low):
        return f"at most {fixed(high, decimals)}"
    between = " to " if low < 0 or high < 0 else "–"
    return f"{fixed(low, decimals)}{between}{fixed(high, decimals)}"


def _usual_decimals(shown: float, kind: str) -> int:
    if kind == "share":
        return 0 if abs(shown) >= 99.95 else min(1, decimals_for(shown))
    if kind == "x":
        return min(2, decimals_for(shown))
    if kind in ("cores", ""):
        return 0 if shown.is_integer() else min(2, decimals_for(shown, _FEWEST_DIGITS))
    return min(3, decimals_for(shown))


def _justified_decimals(number: Spread, unit: Unit, kind: str) -> int:
    """Decimals whose last digit is as fine as the interval, within two to four digits in all."""
    centre = number.median * unit.factor
    width = (number.high - number.low) * unit.factor
    if not math.isfinite(width) or width <= 0 or centre == 0.0:
        return _usual_decimals(centre or width, kind)
    wanted = decimals_for(width / 2, 1)
    fewest, most = decimals_for(centre, _FEWEST_DIGITS), decimals_for(centre, _MOST_DIGITS)
    if kind == "share":  # a fourth digit, or a hundredth of a percent, no leg resolves
        fewest, most = min(2, fewest), min(2, decimals_for(centre))
    if kind == "x":  # gains are compared with 1.00x
        fewest, most = min(2, decimals_for(centre)), 2
    return min(max(wanted, fewest), max(most, fewest))
