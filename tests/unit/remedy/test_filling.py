"""When a cache has had its chance, and what a trial bears until then."""

from __future__ import annotations

import random

from stoker.remedy.filling import Filling
from stoker.remedy.trial import Trial, Way


def batches_until_over(filling: Filling, order: list[int], batch: int, room: int) -> int:
    """Batches of an order that go through a cache with room for so many samples."""
    held: set[int] = set()
    for count, start in enumerate(range(0, len(order), batch), start=1):
        entry = order[start : start + batch]
        held.update(one for one in entry if len(held) < room)
        filling.given(len(entry), len(held))
        if filling.is_over:
            return count
    raise AssertionError("never over")


def epochs(count: int, samples: int) -> list[int]:
    """Each sample once an epoch."""
    draw = random.Random(0)
    return [index for _ in range(count) for index in draw.sample(range(samples), samples)]


def test_samples_that_come_once_an_epoch_are_there_in_the_second() -> None:
    over = batches_until_over(Filling(1000, 125), epochs(3, 1000), 8, room=1000)
    assert 125 <= over <= 140


def test_a_budget_below_the_data_set_is_waited_for_no_longer() -> None:
    over = batches_until_over(Filling(1000, 125), epochs(3, 1000), 8, room=300)
    assert 125 <= over <= 140


def test_an_order_that_repeats_samples_by_chance_has_seen_nearly_all_by_then() -> None:
    order = random.Random(0).choices(range(100), k=1000)
    over = batches_until_over(Filling(100, 1000), order, 1, room=100)
    assert over == 300
    assert len(set(order[:over])) >= 92


def test_of_a_part_of_the_data_set_an_epoch_is_enough() -> None:
    order = [*range(100), *range(100)]
    assert batches_until_over(Filling(100_000, 25), order, 4, room=1000) < 50


def step_on(trial: Trial, own_s: float, remedied_s: float, steps: int) -> None:
    for _ in range(steps):
        trial.step(trial.way, own_s if trial.way is Way.OWN else remedied_s)


def test_a_cache_that_costs_while_it_fills_is_judged_when_it_is_full() -> None:
    trial = Trial(is_filling=True)
    step_on(trial, 0.1, 0.13, 500)
    assert trial.found is None
    assert trial.way is Way.REMEDIED
    trial.filled()
    step_on(trial, 0.1, 0.05, 500)
    assert trial.found is not None
    assert trial.found.is_kept


def test_a_full_cache_that_does_not_help_is_rolled_back() -> None:
    trial = Trial(is_filling=True)
    step_on(trial, 0.1, 0.1, 100)
    trial.filled()
    step_on(trial, 0.1, 0.1, 500)
    assert trial.found is not None
    assert not trial.found.is_kept


def test_a_great_loss_is_not_borne_until_a_cache_is_full() -> None:
    for trial in (Trial(is_filling=True), Trial(baseline_s=0.1, is_filling=True)):
        step_on(trial, 0.1, 0.2, 200)
        assert trial.found is not None
        assert not trial.found.is_kept


def test_a_diagnosis_of_a_faster_hour_ends_no_cache_while_it_fills() -> None:
    trial = Trial(baseline_s=0.1, is_filling=True)
    step_on(trial, 0.3, 0.31, 500)
    assert trial.found is None
