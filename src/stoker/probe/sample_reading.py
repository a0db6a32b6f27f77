"""From the lines of leg S to the dearest samples, and what the cost of one goes with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from stoker.probe.stage_lines import Line, samples_of
from stoker.records.profile import CostTrend, SampleCost

_SLOWEST = 10
# A trend is told from this many samples on, over this many values, where the line explains this
# share of the variance: below it files or indices that cost more are a matter of chance.
_TREND_SAMPLES = 24
_TREND_VALUES = 8
_EXPLAINED = 0.3
# Costs are the same for all sizes where sizes differ this many times from one end of their usual
# range to the other, and the line rises by less than this share of the usual cost meanwhile.
_DIFFER = 2.0
_LEVEL = 0.1
_USUAL = (0.1, 0.9)


class _Fit(NamedTuple):
    """A straight line of costs, and how much of their variance it explains."""

    at_zero: float
    slope: float
    explained: float


def slowest_samples(lines: Iterable[Line]) -> tuple[SampleCost, ...]:
    """The samples that cost the most, the dearest first."""
    ranked = sorted(samples_of(lines), key=lambda sample: -sample["wall_s"])
    return tuple(msgspec.convert(sample, SampleCost) for sample in ranked[:_SLOWEST])


def cost_trend(lines: Iterable[Line]) -> CostTrend | None:
    """Cost against file size, decoded pixels and index; None for too few samples to see one in."""
    samples = samples_of(lines)
    if len(samples) < _TREND_SAMPLES:
        return None
    seconds = np.array([sample["wall_s"] for sample in samples])
    middle = float(np.median(seconds))
    sizes, pixels = (_with(samples, name) for name in ("size", "pixels"))
    by_size, by_pixels = _fit(sizes), _fit(pixels)
    best = max((by_size, by_pixels), key=lambda fit: fit.explained if fit else 0.0)
    is_told = best is not None and best.explained >= _EXPLAINED
    indices = [(s["index"], s["wall_s"]) for s in samples if isinstance(s["index"], int)]
    along = _fit(indices)
    reach = max(indices)[0] - min(indices)[0] if indices else 0
    is_along = along is not None and along.explained >= _EXPLAINED and middle > 0
    return CostTrend(
        samples=len(samples),
        median_s=middle,
        spread=float(np.quantile(seconds, _USUAL[1])) / middle if middle > 0 else 1.0,
        per_file_s=best.at_zero if best and is_told else _the_same_for_all(sizes, by_size),
        per_byte_s=best.slope if best and is_told and best is by_size else None,
        per_pixel_s=best.slope if best and is_told and best is by_pixels else None,
        index_share=along.slope * reach / middle if along and is_along else None,
    )


def _with(samples: Iterable[Line], name: str) -> list[tuple[float, float]]:
    """What samples have of it, and their cost; without those that have none."""
    return [(sample[name], sample["wall_s"]) for sample in samples if sample[name]]


def _fit(points: Sequence[tuple[float, float]]) -> _Fit | None:
    """The line through (x, seconds), or nothing where there are too few, or too few values of x."""
    xs, ys = (np.asarray([point[axis] for point in points], float) for axis in (0, 1))
    if len(points) < _TREND_SAMPLES or len(set(xs)) < _TREND_VALUES:
        return None
    slope, at_zero = np.polyfit(xs, ys, 1)
    explained = float(np.corrcoef(xs, ys)[0, 1]) ** 2 if np.std(ys) > 0 else 0.0
    return _Fit(float(at_zero), float(slope), explained)


def _the_same_for_all(points: Sequence[tuple[float, float]], fit: _Fit | None) -> float | None:
    """The usual cost of a file, where files of very different sizes cost the same."""
    if fit is None:
        return None
    xs, ys = (np.asarray([point[axis] for point in points], float) for axis in (0, 1))
    small, large = np.quantile(xs, _USUAL)
    usual = float(np.median(ys))
    is_level = abs(fit.slope) * (large - small) <= _LEVEL * usual
    return usual if large >= _DIFFER * small and is_level else None
