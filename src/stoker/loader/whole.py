"""Whether a value is a number, and a whole one.

Standard library only: also runs in a script under remedies.
"""

from __future__ import annotations

from numbers import Integral, Real
from typing import TypeGuard


def is_whole(value: object, least: int | None = None) -> bool:
    """True for a whole number, NumPy's too, from `least` on; True and False are none."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        return False
    return least is None or int(value) >= least


def is_number(value: object) -> TypeGuard[float]:
    """True for a real number, NumPy's and infinity too; True and False are none."""
    return isinstance(value, Real) and not isinstance(value, bool)


def is_positive(value: object) -> TypeGuard[float]:
    """True for a real number above 0, infinity too."""
    return is_number(value) and value > 0
