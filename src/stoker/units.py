"""Quantities with units at the way in and out: `Q_`, text to SI floats and SI floats to text.

Inside Stoker numbers are plain SI floats. pint is imported on the first use of `Q_` and nowhere
else; text from the command line is read without it. Bytes are a dimension of their own, so that a
rate of images can't pass for a rate of bytes.
"""

from __future__ import annotations

import math
import re
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Any

from stoker.errors import InputError

if TYPE_CHECKING:
    import pint

# What pint's own default (1,000 lines, 0.3 s) would define, as far as this field uses it. Samples,
# images and tokens are counts; bytes and FLOPs are not, which pint's default lets pass.
_DEFINITIONS = """
pico- = 1e-12 = p-
nano- = 1e-9 = n-
micro- = 1e-6 = µ- = μ- = u-
milli- = 1e-3 = m-
kilo- = 1e3 = k- = K-
mega- = 1e6 = M-
giga- = 1e9 = G-
tera- = 1e12 = T-
peta- = 1e15 = P-
exa- = 1e18 = E-
kibi- = 2**10 = Ki-
mebi- = 2**20 = Mi-
gibi- = 2**30 = Gi-
tebi- = 2**40 = Ti-
second = [time] = s = sec
minute = 60 * second = min
hour = 60 * minute = h = hr
day = 24 * hour = d
byte = [information] = B = bytes
bit = byte / 8 = bit = bits
flop = [operation] = FLOP = FLOPs = FLOPS = flops
count = []
sample = count = sample = samples = img = imgs = image = images = token = tokens = step = steps
param = count = param = params
percent = 0.01 * count = %
core = count = core = cores
joule = [energy] = J
watt = joule / second = W
dollar = [currency] = USD
""".strip().splitlines()


class Dimension(Enum):
    """What a number may be; the value is the SI unit in which it is kept."""

    TIME = "s"
    BYTES = "B"
    BYTE_RATE = "B/s"
    SAMPLE_RATE = "samples/s"
    FLOP_RATE = "FLOP/s"


_EXAMPLE = {
    Dimension.TIME: "20 ms",
    Dimension.BYTES: "500 KB",
    Dimension.BYTE_RATE: "2 GB/s",
    Dimension.SAMPLE_RATE: "850 img/s",
    Dimension.FLOP_RATE: "312 TFLOP/s",
}
_PREFIX = {
    "": 1.0,
    "n": 1e-9,
    "u": 1e-6,
    "µ": 1e-6,
    "m": 1e-3,
    "k": 1e3,
    "K": 1e3,
    "M": 1e6,
    "G": 1e9,
    "T": 1e12,
    "P": 1e15,
    "Ki": 2.0**10,
    "Mi": 2.0**20,
    "Gi": 2.0**30,
    "Ti": 2.0**40,
}
_UNIT = {
    "s": "s",
    "sec": "s",
    "second": "s",
    "seconds": "s",
    "B": "B",
    "byte": "B",
    "bytes": "B",
    "FLOP": "FLOP",
    "FLOPs": "FLOP",
    "FLOPS": "FLOP",
    **dict.fromkeys(
        ("sample", "samples", "img", "imgs", "image", "images", "token", "tokens"), "samples"
    ),
}
_TEXT = re.compile(
    r"\s*([-+]?(?:\d[\d_,]*\.?\d*(?:e[-+]?\d+)?|\.\d+|nan|inf(?:inity)?))\s*(.*?)\s*", re.I
)


@cache
def _registry() -> pint.UnitRegistry[float]:
    import pint

    registry: pint.UnitRegistry[float] = pint.UnitRegistry(None)
    for line in _DEFINITIONS:
        registry.define(line)
    registry.formatter.default_format = "~P"  # "2.0 GB/s", not "2.0 gigabyte / second"
    registry.separate_format_defaults = True  # and so with a precision: f"{rate:.2f}"
    return registry


def Q_(value: Any, unit: str | None = None) -> pint.Quantity[float]:  # noqa: N802
    """A quantity from text ("500 KB") or from a number and a unit (2, "GB/s").

    The name is pint's custom for the constructor. Raises InputError for a unit that is unknown.
    """
    import pint

    try:
        return _registry().Quantity(value, unit)
    except (pint.UndefinedUnitError, pint.DefinitionSyntaxError) as error:
        raise InputError(
            f"{value if unit is None else f'{value} {unit}'!r} is no quantity: {error}",
            looked_at="units of time, bytes, bits, FLOPs, samples, energy and money",
            run_next="write it like " + ", ".join(repr(text) for text in _EXAMPLE.values()),
        ) from error


def __getattr__(name: str) -> Any:
    """`ureg`, and every unit by its name: `from stoker.units import GB, ms`."""
    if name == "ureg":
        return _registry()
    if not name.startswith("_") and name in _registry():
        return getattr(_registry(), name)
    raise AttributeError(f"module 'stoker.units' has no attribute {name!r}")


def to_si(value: object, dimension: Dimension, *, name: str) -> float:
    """`value`, a quantity or text with a unit, as a float in the SI unit of its dimension.

    `name` is what messages call it. Raises InputError for another dimension, a missing unit, and
    for what is negative, zero, NaN or infinite.
    """
    if isinstance(value, str):
        found = _from_text(value, dimension, name)
    elif hasattr(value, "magnitude") and hasattr(value, "units"):
        found = _from_quantity(value, dimension, name)
    else:
        raise _wrong(name, value, dimension, "has no unit")
    return positive(found, name=name, shown=value)


def positive(value: float, *, name: str, shown: object = None) -> float:
    """`value` itself when it is a positive, finite number; otherwise InputError naming it."""
    problem = (
        "is not a number"
        if math.isnan(value)
        else "is infinite"
        if math.isinf(value)
        else "is negative"
        if value < 0
        else "is zero"
        if value == 0
        else None
    )
    if problem is not None:
        raise InputError(
            f"{name} {problem}: {value if shown is None else shown}",
            looked_at=name,
            run_next=f"give a positive, finite number for the {name}",
        )
    return value


def _wrong(name: str, value: object, dimension: Dimension, problem: str) -> InputError:
    return InputError(
        f"{name} {problem}: {value}; {dimension.value} belongs here",
        looked_at=name,
        run_next=f"write it like {_EXAMPLE[dimension]!r}",
    )


def _from_quantity(value: Any, dimension: Dimension, name: str) -> float:
    """Also of another registry: its units are read by name, with our dimensions."""
    import pint

    own = Q_(value.magnitude, str(value.units))
    try:
        return float(own.to(dimension.value).magnitude)
    except pint.DimensionalityError as error:
        raise _wrong(name, f"{own}", dimension, "has the wrong dimension") from error


def _from_text(text: str, dimension: Dimension, name: str) -> float:
    match = _TEXT.fullmatch(text)
    if match is None:
        raise _wrong(name, repr(text), dimension, "is not a number with a unit")
    number, unit = float(re.sub("[_,]", "", match[1])), match[2]
    if not unit:
        raise _wrong(name, repr(text), dimension, "has no unit")
    scale, found = _scaled_unit(unit)
    if found is None:
        raise _wrong(name, repr(text), dimension, "has an unknown unit")
    if found != dimension.value:
        raise _wrong(name, repr(text), dimension, "has the wrong dimension")
    return number * scale


def _scaled_unit(text: str) -> tuple[float, str | None]:
    """(1e9, "B/s") of "GB/s"; (1, None) when it is no unit known here."""
    over, _, under = text.replace(" ", "").partition("/")
    scale_over, unit = _prefixed(over)
    if not under:
        return scale_over, unit
    scale_under, per = _prefixed(under)
    if unit is None or per != "s":
        return 1.0, None
    return scale_over / scale_under, f"{unit}/s"


def _prefixed(text: str) -> tuple[float, str | None]:
    if text in _UNIT:
        return 1.0, _UNIT[text]
    for prefix, scale in _PREFIX.items():
        if prefix and text.startswith(prefix) and text[len(prefix) :] in _UNIT:
            return scale, _UNIT[text[len(prefix) :]]
    return 1.0, None


def from_si(value: float, dimension: Dimension) -> pint.Quantity[float]:
    """The quantity of a float that is kept in SI."""
    return Q_(value, dimension.value)


def text(value: float, dimension: Dimension) -> str:
    """Three significant digits and the prefix that suits: "13.9 ms", "2.04 TB/s"."""
    unit = dimension.value
    if dimension is Dimension.SAMPLE_RATE:
        return f"{rounded(value)} {unit}"
    size = abs(value)
    steps = (
        (("", 1.0), ("m", 1e-3), ("µ", 1e-6), ("n", 1e-9))
        if dimension is Dimension.TIME
        else (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3), ("", 1.0))
    )
    for prefix, scale in steps:
        if size >= 0.9995 * scale:
            return f"{rounded(value / scale)} {prefix}{unit}"
    prefix, scale = steps[-1]
    return f"{rounded(value / scale)} {prefix}{unit}"


def rounded(value: float) -> str:
    """Three significant digits without an exponent: 13.9, 0.0214, 2,470."""
    if value == 0 or not math.isfinite(value):
        return f"{value:.0f}"
    nearest = float(f"{value:.3g}")
    decimals = max(0, 2 - math.floor(math.log10(abs(nearest))))
    return f"{value if decimals == 0 else nearest:,.{decimals}f}"
