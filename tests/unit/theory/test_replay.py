"""A measured loader in simulation, against queues whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest

from stoker.errors import InputError
from stoker.stats import Spread
from stoker.theory.draws import COUNT, spread_of
from stoker.theory.queue import loader_run
from stoker.theory.replay import Way, fewest_batches, replay

MS = 1e-3
NOW, DEEP, LOOSE = Way(2), Way(8), Way(2, in_order=False)
STEP = Spread.exact(40 * MS)


def rarely_slow(count: int, *, seed: int) -> list[float]:
    """Batches of 18 ms, one in ten of 280: two workers make one in 22 ms on average."""
    slow = np.random.default_rng(seed).random(count) < 0.1
    return [280 * MS if is_slow else 18 * MS for is_slow in slow]


def test_even_batches_gain_nothing_from_another_queue() -> None:
    now, deep, loose = replay([60 * MS] * 100, STEP, (NOW, DEEP, LOOSE), workers=2)
    for one in (now, deep, loose):
        assert spread_of(one.step_s) == pytest.approx(spread_of(now.step_s))
        assert one.step_s == pytest.approx(np.full(COUNT, 40 * MS))
        assert one.wait_s == pytest.approx(np.zeros(COUNT))


def test_no_queue_mends_a_loader_that_is_too_slow_on_average() -> None:
    found = replay([120 * MS] * 100, STEP, (NOW, DEEP, LOOSE), workers=2)
    for one in found:
        assert one.step_s == pytest.approx(np.full(COUNT, 60 * MS))
        assert one.wait_s == pytest.approx(np.full(COUNT, 20 * MS))


def test_a_rare_slow_batch_stalls_a_short_queue_and_hardly_a_deep_or_loose_one() -> None:
    ways = (NOW, DEEP, LOOSE)
    now, deep, loose = (
        one.step_s[0] for one in replay(rarely_slow(600, seed=1), STEP, ways, workers=2)
    )
    assert now > 1.2 * 40 * MS
    assert deep < 1.07 * 40 * MS
    assert loose < 1.1 * 40 * MS


def test_the_interval_holds_what_many_batches_give() -> None:
    """Of 300 batches each time; a 95 % interval may miss it once in twenty."""
    long = rarely_slow(40_000, seed=0)
    truth = loader_run(long, [STEP.median], workers=2).step_s
    mended = loader_run(long, [STEP.median], workers=2, prefetch_factor=8).step_s
    told = []
    for seed in range(1, 25):
        now, deep = replay(rarely_slow(300, seed=seed), STEP, (NOW, DEEP), workers=2)
        told.append((spread_of(now.step_s), spread_of(now.step_s / deep.step_s)))
    for which, value in enumerate((truth, truth / mended)):
        assert sum(one[which].low <= value <= one[which].high for one in told) >= 21
        assert all(one[which].is_promise for one in told)


def test_the_first_draw_is_the_batches_as_they_came() -> None:
    costs = rarely_slow(480, seed=2)
    (now,) = replay(costs, STEP, (NOW,), workers=2)
    # As many before them as are not counted: the last ones, as if the run went round.
    alone = loader_run(costs[-8:] + costs, [STEP.median], workers=2)
    assert now.step_s[0] == pytest.approx(alone.step_s)
    assert now.wait_s[0] == pytest.approx(alone.wait_s)


def test_the_same_batches_have_the_same_answer_whatever_stands_beside_them() -> None:
    costs = rarely_slow(300, seed=3)
    (alone,), (beside, _) = (replay(costs, STEP, ways, workers=2) for ways in ((NOW,), (NOW, NOW)))
    assert (alone.step_s == beside.step_s).all()


def test_slow_batches_that_come_together_stay_together() -> None:
    """As many slow ones in one stretch, or apart: those in a stretch a queue can't even out."""
    apart = [280 * MS if number % 10 == 0 else 18 * MS for number in range(480)]
    together = sorted(apart)
    (spread_out,), (in_a_row,) = (
        replay(costs, STEP, (DEEP,), workers=2) for costs in (apart, together)
    )
    assert np.median(in_a_row.wait_s) > 3 * np.median(spread_out.wait_s)


def test_a_step_that_is_not_known_exactly_widens_the_interval() -> None:
    costs = [60 * MS] * 100
    (known,), (unsure,) = (
        replay(costs, step, (NOW,), workers=2) for step in (STEP, Spread(0.04, 0.036, 0.044))
    )
    assert spread_of(known.step_s).half_width_share < 1e-9
    assert spread_of(unsure.step_s).half_width_share == pytest.approx(0.1, rel=0.2)


def test_too_few_batches_and_no_workers_are_refused() -> None:
    assert fewest_batches((NOW, DEEP), 2) == 96
    assert fewest_batches((NOW, DEEP), 8) == 4 * 8 * 8
    with pytest.raises(InputError, match="95 batches of 2 workers"):
        replay([0.1] * 95, STEP, (NOW, DEEP), workers=2)
    with pytest.raises(InputError, match="of 0 workers"):
        replay([0.1] * 100, STEP, (NOW,), workers=0)
