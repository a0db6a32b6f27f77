"""Values of options that are quantities: bytes with or without a unit, seconds, counts."""

from __future__ import annotations

import argparse
import math

from stoker.errors import InputError


def byte_count(text: str) -> int:
    """A number of bytes above 0: 500000000, '500 MB' or 2GiB. For argparse's `type`."""
    from stoker.units import Dimension, to_si

    plain = text.strip()
    try:
        count = to_si(f"{plain} B" if plain.isdecimal() else plain, Dimension.BYTES, name="bytes")
    except InputError as error:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number of bytes above 0, such as 500000000 or '500 MB'"
        ) from error
    return max(1, round(count))


def seconds(text: str) -> float:
    """The value of an option that is a time; for argparse."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is not a time, allowed are seconds above 0")
    return value


def count(text: str) -> int:
    """The value of an option that is a whole number above 0; for argparse."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a count, allowed are 1, 2, 3, …")
    return int(text)
