"""One way to refuse what a loader or a step of a recipe is given, and which numbers can be."""

from __future__ import annotations

import math

from stoker.errors import InputError
from stoker.loader.whole import is_number, is_whole

# The least number above 0.
ABOVE_0 = math.ulp(0.0)


def check(
    is_allowed: bool, name: str, value: object, allowed: str, *, owner: str = "stoker.Loader"
) -> None:
    """Raises InputError for a setting of the Loader, or another `owner`, that is not allowed."""
    if not is_allowed:
        raise InputError(
            f"{owner} cannot have {name}={value!r}",
            looked_at=f"allowed: {allowed}",
            run_next=f"help({owner})",
        )


class Given:
    """The parameters of a step of `stoker.augment`, by their names. Methods raise InputError."""

    def __init__(self, step: object) -> None:
        self._step = step
        self._owner = f"stoker.augment.{type(step).__name__}"

    def size(self, name: str) -> None:
        """A side of a square in pixels, or (height, width)."""
        value = getattr(self._step, name)
        both = value if isinstance(value, tuple) else (value, value)
        is_size = len(both) == 2 and all(is_whole(side, 1) for side in both)
        self._check(is_size, name, "a size of 1 or more pixels, or (height, width)")

    def number(self, name: str, allowed: str, *, least: float, most: float) -> None:
        """A number from `least` to `most`, as `allowed` says."""
        self._check(_is_within(getattr(self._step, name), least, most), name, allowed)

    def bounds(self, name: str, allowed: str, *, least: float) -> None:
        """Two numbers from `least` on, the smaller one first, the other above 0."""
        value = getattr(self._step, name)
        is_pair = isinstance(value, tuple | list) and len(value) == 2
        is_pair = is_pair and all(_is_within(one, least, math.inf) for one in value)
        self._check(is_pair and value[0] <= value[1] and value[1] > 0, name, allowed)

    def whole(self, name: str, allowed: str, *, least: int) -> None:
        """A whole number."""
        self._check(is_whole(getattr(self._step, name), least), name, allowed)

    def numbers(self, name: str, allowed: str, *, least: float) -> None:
        """One number a channel, each from `least` on."""
        value = getattr(self._step, name)
        is_some = isinstance(value, tuple | list) and len(value) > 0
        is_some = is_some and all(_is_within(one, least, math.inf) for one in value)
        self._check(is_some, name, allowed)

    def _check(self, is_allowed: bool, name: str, allowed: str) -> None:
        check(is_allowed, name, getattr(self._step, name), allowed, owner=self._owner)


def _is_within(value: object, least: float, most: float) -> bool:
    return is_number(value) and math.isfinite(value) and least <= value <= most
