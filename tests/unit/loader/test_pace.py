"""How threads and depth follow from what was seen."""

from __future__ import annotations

from stoker.loader.pace import Limits, Pace


def stretch(pace: Pace, *, rate: float, waited: float, blocked: float = 0.0) -> None:
    """One second in eight batches, as long as a decision needs."""
    for _ in range(8):
        pace.observe(round(rate / 8), period_s=1 / 8, waited_s=waited / 8, blocked_s=blocked / 8)


def test_a_loop_that_never_waits_changes_nothing() -> None:
    pace = Pace(Limits(1, 4, 2, 8))
    for _ in range(10):
        stretch(pace, rate=1000, waited=0.0, blocked=0.9)
    assert (pace.threads, pace.depth) == (1, 2)


def test_a_loop_that_waits_for_busy_threads_gets_more_of_them_as_long_as_they_help() -> None:
    pace = Pace(Limits(1, 4, 2, 8))
    rate = 1000
    for _ in range(12):
        stretch(pace, rate=rate * pace.threads, waited=0.5)
    assert pace.threads == 4


def test_a_thread_that_brings_nothing_is_taken_back_for_good() -> None:
    pace = Pace(Limits(1, 4, 2, 8))
    seen = []
    for _ in range(12):
        stretch(pace, rate=1000, waited=0.5)
        seen.append(pace.threads)
    assert seen[0] == 2 and seen[1:] == [1] * 11


def test_a_loop_that_waits_although_threads_had_no_room_gets_more_room() -> None:
    pace = Pace(Limits(2, 2, 2, 5))
    for _ in range(10):
        stretch(pace, rate=1000, waited=0.2, blocked=1.0)
    assert (pace.threads, pace.depth) == (2, 5)


def test_nothing_is_decided_from_a_moment() -> None:
    pace = Pace(Limits(1, 4, 2, 8))
    for _ in range(100):
        assert not pace.observe(100, period_s=0.001, waited_s=0.001, blocked_s=0.0)
