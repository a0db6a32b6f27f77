"""Seconds of a read = latency + bytes / bandwidth, with the intervals of both."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stoker.records.storage import ReadFit
from stoker.stats import Spread, bootstrap

# Below this ratio of sizes the two terms trade against each other within any noise.
_LEAST_SIZE_RATIO = 2.0
# Below this many reads a bootstrap of two parameters is not worth its name.
_LEAST_READS = 8
# Huber's weights: residuals beyond 1.345 standard deviations count by their distance, not its
# square, at 5 % loss of efficiency for normal noise (Huber, Robust Statistics, 1981). Reads have a
# long tail (a flush, a neighbour), which belongs to their spread, not to the rule.
_HUBER = 1.345
_MAD_TO_SIGMA = 1.4826
_ROUNDS = 5
_TINY_S = 1e-9


def fit_reads(sizes: Sequence[float], seconds: Sequence[float]) -> ReadFit | None:
    """Fit single reads by one reader; None for fewer than eight.

    Least squares on relative residuals (noise of reads is a share of their time) with Huber's
    weights. Neither term may be negative.
    """
    x = np.asarray(sizes, dtype=np.float64)
    y = np.asarray(seconds, dtype=np.float64)
    if len(x) < _LEAST_READS:
        return None
    smallest, largest = float(x.min()), float(x.max())
    if smallest <= 0 or largest / smallest < _LEAST_SIZE_RATIO:
        return ReadFit(
            reads=len(x),
            smallest_bytes=int(smallest),
            largest_bytes=int(largest),
            latency=None,
            bytes_per_s=None,
        )
    weights = _robust_weights(x, y)

    def term(which: int) -> Spread:
        def of_resamples(rows: NDArray[np.float64]) -> NDArray[np.float64]:
            picks = rows.astype(np.intp)
            return np.asarray(_lines(x[picks], y[picks], weights[picks])[which])

        return bootstrap(np.arange(len(x), dtype=np.float64).tolist(), of_resamples)

    latency, per_byte = term(0), term(1)
    return ReadFit(
        reads=len(x),
        smallest_bytes=int(smallest),
        largest_bytes=int(largest),
        latency=Spread(latency.median, max(0.0, latency.low), latency.high, latency.count),
        bytes_per_s=_inverse(per_byte),
    )


def _robust_weights(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    """1 / expected time², less for reads far off the line."""
    expected = np.maximum(_medians_by_size(x, y), _TINY_S)
    weights = 1 / expected**2
    for _ in range(_ROUNDS):
        intercept, slope = _line(x, y, weights)
        expected = np.maximum(intercept + slope * x, _TINY_S)
        residuals = np.abs(y / expected - 1)
        sigma = max(float(np.median(residuals)) * _MAD_TO_SIGMA, 1e-6)
        weights = np.minimum(1.0, _HUBER * sigma / np.maximum(residuals, 1e-12)) / expected**2
    return weights


def _medians_by_size(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    """For each read the median time of reads of about its size (eight groups by rank)."""
    order = np.argsort(x, kind="stable")
    medians = np.empty_like(y)
    for group in np.array_split(order, min(8, len(x))):
        medians[group] = np.median(y[group])
    return medians


def _line(
    x: NDArray[np.float64], y: NDArray[np.float64], weights: NDArray[np.float64]
) -> tuple[float, float]:
    intercept, slope = _lines(x[None, :], y[None, :], weights[None, :])
    return float(intercept[0]), float(slope[0])


def _lines(
    x: NDArray[np.float64], y: NDArray[np.float64], weights: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Weighted least-squares lines of each row, with both terms held at zero or above."""
    total = weights.sum(axis=1)
    mean_x = (weights * x).sum(axis=1) / total
    mean_y = (weights * y).sum(axis=1) / total
    spread = (weights * (x - mean_x[:, None]) ** 2).sum(axis=1)
    together = (weights * (x - mean_x[:, None]) * (y - mean_y[:, None])).sum(axis=1)
    slope = np.divide(together, spread, out=np.zeros_like(together), where=spread > 0)
    intercept = mean_y - slope * mean_x
    # A negative term is the other one's noise: refit with it at zero.
    through_origin = (weights * x * y).sum(axis=1) / (weights * x * x).sum(axis=1)
    slope = np.where(intercept < 0, through_origin, slope)
    intercept = np.where(intercept < 0, 0.0, intercept)
    intercept = np.where(slope < 0, mean_y, intercept)
    return intercept, np.maximum(slope, 0.0)


def _inverse(per_byte: Spread) -> Spread | None:
    """Bytes a second from seconds a byte; None when no byte measurably cost anything."""
    if per_byte.median <= 0 or per_byte.low <= 0:
        return None
    return Spread(1 / per_byte.median, 1 / per_byte.high, 1 / per_byte.low, per_byte.count)
