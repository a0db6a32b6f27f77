"""What kind of store it is, from how its rate moves with readers, request size and time.

A pure function over rates: those of leg Q's reads, or of a DataLoader at several worker counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from msgspec import structs

from stoker.records.storage import RatePoint, StoreKind, StoreScaling
from stoker.stats import Spread, bootstrap, change_point

# Readers that are half of their time on a core, or wait for one, are limited by cores at least as
# much as by the store: then its rate says nothing about it.
_OWN_WORK_SHARE = 0.5
# One head serves 1.0 requests at a time and two slots 2.0; the middle on a logarithmic scale.
_ONE_SERVED = math.sqrt(2)
# A store that still gives half of what perfect scaling would at the last step up is still rising.
_STILL_RISING = 0.5
# A rate that fell below this share is another level. The rate of a
# steady loader wanders by less between stretches; allowances that run out take more.
_FALL = 0.7
# From this many repeated points on, one that is low is no proof.
_MANY_PAIRS = 3
# Requests within this factor of size are alike.
_SAME_SIZE = 1.5
# Between requests as the limit (exponent 0) and bytes (−1), the middle.
_BYTES_EXPONENT = -0.5
# With so many readers waiting for a core at a time, the store is asked by fewer than there are,
# and Python's lock may be held by one of them: the rate might be higher by as much as lies between
# two kinds of stores, 1 / (1 − 0.29) = √2.
_QUEUED = 1 - 1 / _ONE_SERVED
# Fewer cores of others than this are not worth a word.
_FOREIGN_CORES = 0.25
# A demand of half of what one reader gets leaves the store idle half of the time.
_AMPLE = 2.0


class _Level(NamedTuple):
    """The steady rate with some readers."""

    readers: int
    rate: float
    low: float
    high: float
    cpu_share: float | None
    queued: float | None
    foreign_cores: float | None


def classify_scaling(
    points: Sequence[RatePoint],
    *,
    fixed_share: float | None = None,
    needed_per_s: float | None = None,
) -> StoreScaling:
    """The kind of store behind these rates, in the order in which they were measured.

    `fixed_share` is the share of a request's time that does not depend on its bytes (from a fit),
    used when one request size was tried; `needed_per_s` a demand that may make the store fast
    enough. Two levels of readers at least, in one size, are needed; repeat the first ones at the
    end, and an allowance that ran out in between is seen.

    A fall in time followed by a rate that no number of readers raises reads as throttled. A cache
    in front of a one-head store looks the same: leg Q excludes it by reading cold, for production
    rates compare `rchar_bytes` with `read_bytes` of the host.
    """
    usable = [point for point in points if point.requests_per_s.median > 0]
    if not usable:
        return StoreScaling(kind=StoreKind.UNKNOWN, reason="nothing was read")
    fall, steady = _after_fall(usable)
    levels = _main_levels(steady)
    first = levels[0]
    most = max(levels, key=lambda level: level.rate)
    by_size = _size_exponent(steady)
    exponent = None if by_size is None else by_size.median

    def answer(kind: StoreKind, reason: str, slots: Spread | None = None) -> StoreScaling:
        return StoreScaling(
            kind=kind,
            reason=reason,
            one_reader_per_s=first.rate if first.readers == 1 else None,
            most_per_s=most.rate,
            slots=slots,
            size_exponent=None if by_size is None else by_size.median,
            fall=fall.ratio if fall else None,
        )

    if needed_per_s is not None and first.rate >= _AMPLE * needed_per_s:
        return answer(
            StoreKind.FAST,
            f"{_readers(first)} got {_told(first.rate)} a second, {_told(needed_per_s)} are needed",
        )
    own_share = _at_most(levels, most, lambda level: level.cpu_share)
    if own_share is not None and own_share >= _OWN_WORK_SHARE:
        return answer(
            StoreKind.FAST,
            f"{_readers(most)} got the most, {_told(most.rate)} a second, and spent "
            f"{own_share:.0%} of the time on a core or waiting for one, not on the store",
        )
    if len(levels) < 2:
        reason = f"measured with {_readers(first)} only"
        if fall:
            reason += (
                f"; the rate fell to {fall.ratio:.0%}, by an allowance or a cache that was used up"
            )
        return answer(StoreKind.UNKNOWN, reason)

    slots = _served_at_once(first, most)
    rates = ", ".join(f"{_told(level.rate)}/s with {level.readers}" for level in levels)
    if fall and not fall.is_ceiling:
        rates += f" (after a fall to {fall.ratio:.0%}: the first reads came from a cache)"
    if _still_rising(levels):
        rising = Spread(slots.median, min(slots.low, slots.median), math.inf, slots.count)
        return answer(StoreKind.LATENCY, f"the rate rises with every reader: {rates}", rising)
    queued = _at_most(levels, most, lambda level: level.queued)
    if queued is not None and queued >= _QUEUED and most.rate > _ONE_SERVED * first.rate:
        return answer(StoreKind.UNKNOWN, _held_up(levels, most, queued, rates))
    if slots.low < _ONE_SERVED < slots.high and slots.high / max(slots.low, 1e-9) > 2:
        return answer(StoreKind.UNKNOWN, f"the rates vary too much: {rates}", slots)
    if fall and fall.is_ceiling:
        return answer(
            StoreKind.THROTTLED,
            f"the rate fell to {fall.ratio:.0%} of its start and more readers don't raise it: "
            f"{rates}",
            slots,
        )
    is_flat = slots.median <= _ONE_SERVED
    if by_size is not None and by_size.low <= _BYTES_EXPONENT < by_size.high:
        # Of a store that serves one at a time the reads of one reader tell it as well.
        if not is_flat or fixed_share is None:
            return answer(
                StoreKind.UNKNOWN,
                "smaller requests come at rates that vary too much to tell whether requests or "
                f"bytes are the limit, and more readers stop raising the rate: {rates}",
                slots,
            )
        exponent = None
    if exponent is not None and exponent <= _BYTES_EXPONENT:
        stops = "don't raise" if is_flat else "stop raising"
        return answer(
            StoreKind.BANDWIDTH,
            f"more readers {stops} the rate ({rates}), and smaller requests do: bytes a second "
            "are the limit",
            slots,
        )
    if not is_flat:
        return answer(
            StoreKind.SLOTS,
            f"the rate stops rising at about {slots.median:.2g} requests at a time: {rates}",
            slots,
        )
    if exponent is None and fixed_share is not None and fixed_share < 0.5:
        return answer(
            StoreKind.BANDWIDTH,
            f"more readers don't raise the rate ({rates}), and {1 - fixed_share:.0%} of a "
            "request's time follows its bytes",
            slots,
        )
    reason = f"more readers don't raise the rate: {rates}"
    if exponent is None and fixed_share is None:
        reason += "; request sizes were not varied, so bytes a second may be the limit instead"
    return answer(StoreKind.ONE_HEAD, reason, slots)


def _told(rate: float) -> str:
    """Three digits at least, and no exponent."""
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"


def _at_most(
    levels: Sequence[_Level], most: _Level, of: Callable[[_Level], float | None]
) -> float | None:
    """Something of the levels, where the rate is highest and beyond; None where it wasn't seen."""
    return _mean(of(level) for level in levels if level.readers >= most.readers)


def _mean(values: Iterable[float | None]) -> float | None:
    seen = [value for value in values if value is not None]
    return sum(seen) / len(seen) if seen else None


def _held_up(levels: Sequence[_Level], most: _Level, queued: float, rates: str) -> str:
    """Why rates that rise first and then stop say nothing of the store."""
    foreign = _at_most(levels, most, lambda level: level.foreign_cores)
    others = ""
    if foreign is not None and foreign >= _FOREIGN_CORES:
        others = f", as other processes kept {foreign:.1f} cores busy"
    return (
        f"the rate rises until readers have to wait for a core, {queued:.1f} of them at a time "
        f"with {most.readers}{others}: what stops it may be the cores ({rates}); measure again "
        "when the machine is at rest"
    )


def _readers(level: _Level) -> str:
    return "one reader" if level.readers == 1 else f"{level.readers} readers"


class _Pair(NamedTuple):
    """Two points with the same readers and size: their places, and the later rate."""

    first: int
    later: int
    then: float
    ratio: float  # now / then; 1 when the intervals of a lower rate overlap


class _Fall(NamedTuple):
    """A lasting fall in time."""

    ratio: float  # after / before
    is_ceiling: bool  # nothing exceeds a rate any more, rather than everything being slower


def _after_fall(points: Sequence[RatePoint]) -> tuple[_Fall | None, list[RatePoint]]:
    """The lasting fall, if there is one, and the points as they were after it.

    It shows as a change of level inside a point's series, which then counts as two points, and
    between points with the same readers and size. A fall at one moment must explain all of them:
    what is used up does not come back within seconds, a pause of the machine does.
    """
    parts = [part for point in points for part in _split(point)]
    pairs = [pair for later in range(len(parts)) if (pair := _pair(parts, later)) is not None]
    lows = [pair.ratio for pair in pairs if pair.ratio < _FALL]
    # Of many repetitions one may be low by accident.
    if len(lows) < (2 if len(pairs) >= _MANY_PAIRS else 1):
        return None, list(points)
    # A ceiling first: where nothing rises with readers both explain, and an allowance is what it
    # is when files were read cold.
    for is_ceiling, explains in ((True, _is_under_ceiling), (False, _is_all_slower)):
        for moment in range(1, len(parts)):
            if explains(moment, pairs, parts):
                return _Fall(float(np.median(lows)), is_ceiling), parts[moment:]
    return None, list(points)


def _pair(parts: Sequence[RatePoint], later: int) -> _Pair | None:
    """The point with the first one of its kind, if that is another one."""
    point = parts[later]
    for first, other in enumerate(parts[:later]):
        if other.readers == point.readers and _alike(other, point):
            now, then = point.requests_per_s, other.requests_per_s
            ratio = now.median / then.median
            is_sure = now.high < then.low or ratio >= 1
            return _Pair(first, later, then.median, ratio if is_sure else 1.0)
    return None


def _across(moment: int, pairs: Sequence[_Pair]) -> list[_Pair] | None:
    """Pairs with the moment between them; None when there are none, or others fell too."""
    across = [pair for pair in pairs if pair.first < moment <= pair.later]
    fell_beside = any(pair.ratio < _FALL for pair in pairs if pair not in across)
    return None if fell_beside or not across else across


def _is_all_slower(moment: int, pairs: Sequence[_Pair], parts: Sequence[RatePoint]) -> bool:
    """Everything is slower from the moment on: what had been cached is read from the store."""
    del parts
    across = _across(moment, pairs)
    return across is not None and all(pair.ratio < _FALL for pair in across)


def _is_under_ceiling(moment: int, pairs: Sequence[_Pair], parts: Sequence[RatePoint]) -> bool:
    """Nothing exceeds a rate from the moment on, and lower rates stay: an allowance is used up."""
    across = _across(moment, pairs)
    if across is None:
        return False

    def kept(pair: _Pair) -> float:
        """Share of the earlier rate that the ceiling leaves."""
        rates = [
            part.requests_per_s.median for part in parts[moment:] if _alike(part, parts[pair.later])
        ]
        return min(1.0, max(rates) / pair.then)

    return all(_FALL <= pair.ratio / kept(pair) <= 1 / _FALL for pair in across)


def _split(point: RatePoint) -> tuple[RatePoint, ...]:
    """The point before and after a fall inside its series; the point alone without one."""
    split = change_point(point.series)
    if split is None:
        return (point,)
    before, after = point.series[:split], point.series[split:]
    if _level_of(after).median >= _FALL * _level_of(before).median:
        return (point,)
    return tuple(
        structs.replace(point, requests_per_s=_level_of(series), series=series)
        for series in (before, after)
    )


def _level_of(series: Sequence[float]) -> Spread:
    """The rate over stretches that hold equally many requests: the harmonic mean."""
    period = bootstrap([1 / rate for rate in series])
    high = 1 / period.low if period.low > 0 else math.inf
    return Spread(1 / period.median, max(0.0, 1 / period.high), high, len(series))


def _alike(a: RatePoint, b: RatePoint) -> bool:
    if not a.bytes_per_request or not b.bytes_per_request:
        return a.bytes_per_request == b.bytes_per_request
    ratio = a.bytes_per_request / b.bytes_per_request
    return 1 / _SAME_SIZE <= ratio <= _SAME_SIZE


def _main_levels(points: Sequence[RatePoint]) -> list[_Level]:
    """The levels of the request size that was tried with most numbers of readers, ascending."""
    groups = [[other for other in points if _alike(point, other)] for point in points]
    main = max(groups, key=lambda group: len({point.readers for point in group}))
    return [
        _level([point for point in main if point.readers == readers])
        for readers in sorted({point.readers for point in main})
    ]


def _level(points: Sequence[RatePoint]) -> _Level:
    """Points with the same readers and size as one level."""
    rates = [point.requests_per_s for point in points]
    count = len(rates)
    centre = sum(rate.median for rate in rates) / count
    # Independent measurements: half widths add in quadrature, and their mean divides by count.
    down = math.sqrt(sum((rate.median - rate.low) ** 2 for rate in rates)) / count
    up = math.sqrt(sum((rate.high - rate.median) ** 2 for rate in rates)) / count
    return _Level(
        points[0].readers,
        centre,
        max(0.0, centre - down),
        centre + up,
        _mean(point.cpu_share for point in points),
        _mean(point.queued for point in points),
        _mean(point.foreign_cores for point in points),
    )


def _served_at_once(first: _Level, most: _Level) -> Spread:
    """Requests inside the store at its best rate (Little's law: rate × time in the store).

    The time in the store is what one of the fewest readers waits for it; if those already stood in
    a queue, the number is an upper bound.
    """
    waits = 1 - (first.cpu_share or 0.0)
    per_reader = first.readers * waits

    def served(top: float, bottom: float) -> float:
        return top / bottom * per_reader if bottom > 0 else math.inf

    centre = served(most.rate, first.rate)
    if most.readers == first.readers:
        return Spread(centre, centre, centre, 1)
    # Ends of a ratio of independent numbers: relative half widths in quadrature.
    down = math.hypot(1 - most.low / most.rate, first.high / first.rate - 1)
    up = math.hypot(most.high / most.rate - 1, 1 - first.low / first.rate)
    return Spread(centre, centre * max(0.0, 1 - down), centre * (1 + up), 2)


def _still_rising(levels: Sequence[_Level]) -> bool:
    """True when the last step up in readers gave at least half of what perfect scaling would."""
    before, last = levels[-2], levels[-1]
    gain = math.log(last.rate / before.rate) / math.log(last.readers / before.readers)
    return gain >= _STILL_RISING


def _size_exponent(points: Sequence[RatePoint]) -> Spread | None:
    """d log(requests/s) / d log(bytes) between the sizes tried with the most readers."""
    top = max(point.readers for point in points)
    sized = [
        (point.bytes_per_request, point.requests_per_s)
        for point in points
        if point.readers == top and point.bytes_per_request
    ]
    sizes = np.log([size for size, _ in sized])
    if not sized or sizes.max() - sizes.min() <= math.log(_SAME_SIZE):
        return None
    # The line of least squares; half widths of independent rates, weighted as they are in it.
    weights = (sizes - sizes.mean()) / ((sizes - sizes.mean()) ** 2).sum()
    centre = float(weights @ np.log([rate.median for _, rate in sized]))
    half = [math.log(rate.high / rate.low) / 2 if rate.low > 0 else math.inf for _, rate in sized]
    wide = math.hypot(*(weights * half).tolist())
    return Spread(centre, centre - wide, centre + wide, len(sized))
