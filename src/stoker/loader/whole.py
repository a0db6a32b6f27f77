"""Whether a value is a whole number.

Standard library only: also runs in a script under remedies.
"""

from __future__ import annotations

from numbers import Integral


def is_whole(value: object, least: int | None = None) -> bool:
    """True for a whole number, NumPy's too, from `least` on; True and False are none."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        return False
    return least is None or int(value) >= least
