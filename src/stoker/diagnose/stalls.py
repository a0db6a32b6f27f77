"""Batches that come late though the loader keeps up: single samples that take very long."""

from __future__ import annotations

import statistics
from typing import NamedTuple

from stoker.diagnose.deficit_rows import deficit_rows
from stoker.diagnose.facts import Facts
from stoker.diagnose.judgement import Judgement, row
from stoker.diagnose.wording import ms
from stoker.records.diagnosis import VerdictCode

# Stalls are waits: they make up most of what the loop takes beyond the step beside a busy loader.
_WAITED = 0.5
# A sample of so many times the usual cost, or a wait as long as so many steps, stalls a loop by
# itself: on healthy loaders both stayed below half of this.
_UNEVEN_SAMPLE = 10.0
_UNEVEN_WAIT = 2.0
_FEWEST_BATCHES = 24


def unevenly(facts: Facts) -> Judgement | None:
    """The loader is fast enough on average, but single batches come late."""
    if facts.produce is None or facts.alone is None:
        return None
    if facts.alone.period.median > facts.contended.median or not _is_uneven(facts):
        return None
    if facts.waits.median < _WAITED * (facts.inside.median - facts.contended.median):
        return None  # the step itself took longer: another process, a busy machine
    return Judgement(
        code=VerdictCode.VARIANCE_STALLS,
        sentence=(
            f"A batch takes {ms(facts.alone.period)} on average and the step "
            f"{ms(facts.contended)}: the loader has the capacity, but it delivers unevenly. Slow "
            f"batches hold up those behind them, {ms(facts.waits)} a step."
        ),
        evidence=(
            row("a batch from the loader alone", facts.alone.period, "shorter than C", "L"),
            row("waiting inside next()", facts.waits, f"R {ms(facts.real)}", "R"),
        ),
    )


def rarely(facts: Facts) -> Judgement | None:
    """Few samples take so long that no window tells the mean; all others would keep up by far."""
    alone, found = facts.alone, _dearest(facts)
    if alone is None or found is None or found.times < _UNEVEN_SAMPLE:
        return None
    if alone.period.low > facts.contended.median or alone.middle > facts.contended.median:
        return None
    return Judgement(
        code=VerdictCode.VARIANCE_STALLS,
        sentence=(
            f"Half of all batches take the loader no more than {ms(alone.middle)}, the step "
            f"{ms(facts.contended)}; but single {found.what} take {ms(found.seconds)}, "
            f"{found.times:.0f} times the usual, and hold up the batches behind them, "
            f"{ms(facts.waits)} a step. They are too few in a window to tell the mean: "
            f"{ms(alone.period)} ({ms(alone.period.low)} to {ms(alone.period.high)}) a batch."
        ),
        evidence=(
            *deficit_rows(facts),
            row("half of all batches take no more", alone.middle, f"C {ms(facts.contended)}", "L"),
            row(
                f"the dearest of all {found.what}, over the usual one",
                found.times,
                "like the others",
                found.leg,
                "x",
            ),
        ),
    )


class _Dearest(NamedTuple):
    """Of samples, or where a data set makes batches whole, of these."""

    what: str
    seconds: float
    times: float  # the usual one
    leg: str


def _dearest(facts: Facts) -> _Dearest | None:
    slowest, trend = facts.profile.slowest, facts.profile.trend
    if slowest and trend is not None and trend.median_s:
        seconds = slowest[0].wall_s
        return _Dearest("samples", seconds, seconds / trend.median_s, "S")
    batches = facts.profile.batches
    if batches is None or len(batches.seconds) < _FEWEST_BATCHES:
        return None
    seconds, usual = max(batches.seconds), statistics.median(batches.seconds)
    return _Dearest("batches", seconds, seconds / usual, "L") if usual > 0 else None


def _is_uneven(facts: Facts) -> bool:
    """Single samples, or single waits, that are out of all proportion.

    Waits of a machine that is busy with something else are many and small.
    """
    found = _dearest(facts)
    if found is not None and found.times >= _UNEVEN_SAMPLE:
        return True
    longest = facts.profile.longest_wait_s
    return longest is not None and longest >= _UNEVEN_WAIT * facts.contended.median
