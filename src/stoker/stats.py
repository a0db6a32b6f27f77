"""Numbers with their intervals: spreads, bootstrap, outliers, and the end of warm-up.

Pure functions over sequences of floats; no machine is touched and no clock is read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

# Beyond this ratio of the ends an interval is no promise: measure longer.
PROMISE_RATIO = 1.4
# The legs of a diagnosis are done when their 95 % intervals are within this share of the value.
WANTED_HALF_WIDTH = 0.03
# 400 resamples give the 95 % ends of a bootstrap to about 2 % of the half width (Efron and
# Tibshirani, An Introduction to the Bootstrap, 1993, ch. 14), in a millisecond or two.
_RESAMPLES = 400
_SEED = 20_240


class Spread(msgspec.Struct, frozen=True):
    """A measured or forecast number: its central estimate, its 95 % interval and its count.

    `median` is the central estimate of whatever the holder names (a mean of a period, say).
    """

    median: float
    low: float
    high: float
    count: int = 0

    @property
    def half_width_share(self) -> float:
        """Half the interval as a share of the central estimate; infinite for zero."""
        if self.median == 0.0:
            return math.inf if self.high > self.low else 0.0
        return (self.high - self.low) / 2 / abs(self.median)

    @property
    def is_promise(self) -> bool:
        """True when the interval is narrow enough to promise something by."""
        return self.low > 0 and self.high / self.low <= PROMISE_RATIO

    def overlaps(self, other: Spread) -> bool:
        """True when the two intervals share a point."""
        return self.low <= other.high and other.low <= self.high

    def scaled(self, factor: float) -> Spread:
        """The spread of the number times a constant."""
        ends = sorted((self.low * factor, self.high * factor))
        return Spread(self.median * factor, ends[0], ends[1], self.count)

    @classmethod
    def exact(cls, value: float, count: int = 0) -> Spread:
        """A number that has no uncertainty: a count, a setting, a definition."""
        return cls(value, value, value, count)


def difference(a: Spread, b: Spread) -> Spread:
    """The spread of a − b for independent a and b (half widths add in quadrature)."""
    centre = a.median - b.median
    low = math.hypot(a.median - a.low, b.high - b.median)
    high = math.hypot(a.high - a.median, b.median - b.low)
    return Spread(centre, centre - low, centre + high, min(a.count, b.count))


def ratio(a: Spread, b: Spread) -> Spread:
    """The spread of a / b for independent positive a and b (relative half widths in quadrature)."""
    if b.median <= 0 or a.median <= 0:
        return Spread(math.nan, math.nan, math.nan)
    centre = a.median / b.median
    low = math.hypot(1 - a.low / a.median, b.high / b.median - 1)
    high = math.hypot(a.high / a.median - 1, 1 - b.low / b.median)
    return Spread(centre, centre * max(0.0, 1 - low), centre * (1 + high), min(a.count, b.count))


def block_means(values: Sequence[float], block: int) -> NDArray[np.float64]:
    """Means of consecutive blocks of `block` values; an incomplete block at the end is dropped.

    Batches of W workers arrive in rounds of W, so single periods are strongly correlated and
    only means over whole rounds can be resampled as if they were independent.
    """
    data = np.asarray(values, dtype=np.float64)
    if block <= 1 or len(data) < 2 * block:
        return data
    whole = len(data) // block
    means: NDArray[np.float64] = data[: whole * block].reshape(whole, block).mean(axis=1)
    return means


def bootstrap(
    values: Sequence[float],
    statistic: Callable[[NDArray[np.float64]], NDArray[np.float64]] | None = None,
    *,
    block: int = 1,
) -> Spread:
    """The statistic (default: the mean) of `values` with its 95 % bootstrap interval.

    `statistic` maps an array (resamples, n) to (resamples,). With `block` > 1 whole blocks are
    resampled. Percentile method with the small-sample widening sqrt(n/(n−1)); fixed seed, so the
    same values give the same interval. Raises ValueError for no values.
    """
    if len(values) == 0:
        raise ValueError("no values: a spread needs at least one")
    data = block_means(values, block)
    measure = statistic or (lambda rows: rows.mean(axis=1))
    centre = float(measure(data[None, :])[0])
    if len(data) == 1:
        return Spread(centre, -math.inf, math.inf, len(values))
    rng = np.random.default_rng(_SEED)
    picks = rng.integers(0, len(data), size=(_RESAMPLES, len(data)))
    low, high = np.quantile(measure(data[picks]), (0.025, 0.975))
    widen = math.sqrt(len(data) / (len(data) - 1))
    # What is never negative has no negative mean, however few values there are.
    floor = 0.0 if data.min() >= 0 else -math.inf
    return Spread(
        centre,
        max(floor, centre - (centre - float(low)) * widen),
        centre + (float(high) - centre) * widen,
        len(values),
    )


def median_spread(values: Sequence[float]) -> Spread:
    """The median with its 95 % bootstrap interval."""
    return bootstrap(values, lambda rows: np.asarray(np.median(rows, axis=1)))


def outliers(values: Sequence[float], limit: float = 3.5) -> list[int]:
    """Indices whose modified z-score exceeds `limit`.

    0.6745·|x − median| / MAD > 3.5 is the rule of Iglewicz and Hoaglin (1993).
    """
    data = np.asarray(values, dtype=np.float64)
    if len(data) < 3:
        return []
    centre = np.median(data)
    deviation = np.median(np.abs(data - centre))
    if deviation == 0:
        return []
    return [int(i) for i in np.flatnonzero(0.6745 * np.abs(data - centre) / deviation > limit)]


def change_point(values: Sequence[float], *, smallest: int = 4) -> int | None:
    """Index at which the level of a series changes, or None.

    One split that minimises the squared error about the two means (on logarithms, so that a
    factor counts alike at any level), accepted when it beats no split by the BIC penalty for two
    more parameters (Killick, Fearnhead and Eckley, JASA 2012) with a doubled weight, because the
    values left after averaging rounds are still not quite independent.
    """
    data = np.asarray(values, dtype=np.float64)
    n = len(data)
    if n < 2 * smallest or np.any(data <= 0):
        return None
    logs = np.log(data)
    sums = np.concatenate(([0.0], np.cumsum(logs)))
    squares = np.concatenate(([0.0], np.cumsum(logs**2)))
    splits = np.arange(smallest, n - smallest + 1)
    left = squares[splits] - sums[splits] ** 2 / splits
    right = (squares[n] - squares[splits]) - (sums[n] - sums[splits]) ** 2 / (n - splits)
    best = int(np.argmin(left + right))
    floor = 1e-6 * n  # one per mille of noise is below what any clock here resolves
    whole = max(float(squares[n] - sums[n] ** 2 / n), floor)
    split_cost = max(float(left[best] + right[best]), floor)
    if n * math.log(whole / split_cost) <= 2 * 2 * math.log(n):
        return None
    return int(splits[best])


# A level must fill this part of a series to be the steady one: a hiccup of a machine with other
# work lasts a few steps, and no warm-up is known that takes two thirds of what was watched.
_LEVEL_SHARE = 1 / 3


def warmup_end(values: Sequence[float], *, block: int = 1, least_change: float = 0.10) -> int:
    """How many values at the start belong to warm-up (0 when the series is level from the start).

    The last change of level by more than `least_change` ends the warm-up: caches that were warm at
    first, compilation, autotuning and clocks that ramp all look like an earlier, other level. A
    level that holds for less than a third of the series is a disturbance near its end, and no new
    level.
    """
    data = block_means(values, block)
    step = block if len(data) != len(values) else 1
    latest = len(data) * (1 - _LEVEL_SHARE)
    start, end = 0, len(data)
    while True:
        split = change_point(data[start:end].tolist())
        if split is None:
            return start * step
        if start + split > latest:
            end = start + split  # look at what came before the disturbance
            continue
        before, after = data[start : start + split], data[start + split : end]
        if abs(float(after.mean()) / float(before.mean()) - 1) < least_change:
            return start * step
        start += split
