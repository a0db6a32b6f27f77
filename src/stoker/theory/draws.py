"""Possible values of what was measured, for everything that is forecast from it.

An input is drawn under its own name, so that it moves alike before and after a change and cancels
in their ratio as it does in reality. Index 0 is the central estimate itself.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from stoker.stats import Spread

COUNT = 400
_SEED = 7
# A 95 % interval of a normal estimate is this many standard errors to each side.
_Z95 = 1.96
# What a model leaves out (jitter, caches, clocks that follow the load) moved gains by up to this
# share when changes were made by hand (benchmarks/promises.py: 2 to 4 % in each of them).
MODEL_SHARE = 0.05

Draws = NDArray[np.float64]


def draw(spread: Spread, standard: Draws) -> Draws:
    """Possible values of a spread; lower and upper half widths are kept apart.

    `standard` are draws of a standard normal variable, of which `noise` has a series for each name.
    An open interval (one observation) is taken as ±50 %, so that it can't promise anything.
    """
    if spread.low == spread.high:
        return np.full(COUNT, max(spread.median, 0.0))
    low = spread.low if np.isfinite(spread.low) else 0.5 * spread.median
    high = spread.high if np.isfinite(spread.high) else 1.5 * spread.median
    down, up = (spread.median - low) / _Z95, (high - spread.median) / _Z95
    return np.maximum(spread.median + np.where(standard < 0, down, up) * standard, 0.0)


@lru_cache(maxsize=256)
def noise(name: str) -> Draws:
    """The standard normal series of a named input, the same for every forecast."""
    draws = np.random.default_rng([_SEED, *name.encode()]).standard_normal(COUNT)
    draws[0] = 0.0  # the first draw is the central estimate itself
    draws.flags.writeable = False  # shared by every forecast of the process
    return draws


def spread_of(draws: Draws) -> Spread:
    """The central draw with the 2.5 % and 97.5 % quantiles of all of them."""
    centre = float(draws[0])
    ordered = np.sort(draws)
    last = len(ordered) - 1
    low, high = np.interp((0.025 * last, 0.975 * last), np.arange(last + 1), ordered)
    return Spread(centre, min(float(low), centre), max(float(high), centre))


def doubted(gain: Spread, *, missed: float = 0.0) -> Spread:
    """A forecast gain with what its model may leave out.

    The more a change takes away, the more rests on the equations instead of on the measurement.
    `missed`: by how much the model differs from what was measured before the change, as a share.
    """
    doubt = gain.median * MODEL_SHARE * min(1.0, 2 * abs(1 - 1 / gain.median))
    more = gain.median * missed
    return Spread(
        gain.median,
        gain.median - math.hypot(gain.median - gain.low, doubt, more),
        gain.median + math.hypot(gain.high - gain.median, doubt, more),
        gain.count,
    )
