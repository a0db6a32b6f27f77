"""When remedies are kept and when they are rolled back, on steps of known length."""

from __future__ import annotations

import itertools

import pytest

from stoker.remedy.trial import Trial, Way


def run(trial: Trial, own_s: list[float], remedied_s: list[float], steps: int = 2000) -> list[Way]:
    """The ways in turn, each step as long as its way makes it (in rotation)."""
    ways = []
    for number in range(steps):
        way = trial.way
        times = own_s if way is Way.OWN else remedied_s
        trial.step(way, times[number % len(times)])
        ways.append(way)
        if trial.found is not None:
            break
    return ways


def test_without_a_diagnosis_the_scripts_own_way_goes_first_and_once() -> None:
    trial = Trial()
    ways = run(trial, [0.2], [0.1])
    assert ways[0] is Way.OWN
    assert trial.found is not None
    assert trial.found.is_kept
    assert trial.found.own_s == pytest.approx(0.2)
    assert trial.way is Way.REMEDIED
    assert len(ways) < 60


def test_what_is_no_faster_is_rolled_back() -> None:
    trial = Trial()
    run(trial, [0.1], [0.1])
    assert trial.found is not None
    assert not trial.found.is_kept
    assert trial.way is Way.OWN


def test_what_is_slower_is_rolled_back_though_the_diagnosis_promised_a_gain() -> None:
    trial = Trial(baseline_s=0.1)
    ways = run(trial, [0.1], [0.15])
    assert ways[0] is Way.REMEDIED
    assert Way.OWN in ways
    assert trial.found is not None
    assert not trial.found.is_kept


def test_as_fast_as_the_diagnosis_promised_needs_no_step_of_the_own_way() -> None:
    trial = Trial(baseline_s=0.2)
    ways = run(trial, [0.2], [0.1])
    assert set(ways) == {Way.REMEDIED}
    assert trial.found is not None
    assert trial.found.is_kept


def test_a_diagnosis_of_a_faster_hour_does_not_roll_back_what_helps_now() -> None:
    trial = Trial(baseline_s=0.1)
    run(trial, [0.2], [0.12])
    assert trial.found is not None
    assert trial.found.is_kept


def test_a_close_result_is_measured_again_before_it_counts() -> None:
    trial = Trial()
    noisy = [0.05, 0.15, 0.1, 0.14, 0.06]
    ways = run(trial, noisy, [one * 0.97 for one in noisy])
    changes = sum(a is not b for a, b in itertools.pairwise(ways))
    assert changes >= 2
    assert trial.found is not None, "two windows of each way are enough"
    assert len(trial.windows) == 4


def test_what_is_slower_is_rolled_back_after_one_stretch_however_unsure() -> None:
    trial = Trial()
    bursts = [0.01, 0.01, 0.01, 0.27]  # 75 ms, as several workers deliver
    run(trial, [0.054], bursts)
    assert trial.found is not None
    assert not trial.found.is_kept
    assert len(trial.windows) == 2


def test_workers_that_are_kept_for_the_epochs_begin_at_once_where_a_step_is_known() -> None:
    trial = Trial(baseline_s=0.1, is_about_epochs=True)
    ways = run(trial, [0.1], [0.103])
    assert set(ways) == {Way.REMEDIED}
    assert trial.found is not None
    assert trial.found.is_kept


def test_workers_that_are_kept_for_the_epochs_need_no_faster_step() -> None:
    trial = Trial(is_about_epochs=True)
    run(trial, [0.1], [0.1])
    assert trial.found is not None
    assert trial.found.is_kept


def test_steps_that_were_on_their_way_when_the_way_changed_do_not_count() -> None:
    trial = Trial()
    while trial.way is Way.OWN:
        trial.step(Way.OWN, 0.2)
    seen = len(trial.windows)
    for _ in range(100):
        trial.step(Way.OWN, 0.2)
    assert len(trial.windows) == seen


def test_a_queue_that_was_empty_at_first_is_let_fill_before_a_window() -> None:
    trial = Trial(baseline_s=0.2, depth=8)
    for _ in range(9):
        trial.step(Way.REMEDIED, 1.0)  # slow, while the queue fills
    run(trial, [0.2], [0.1])
    assert trial.found is not None
    assert trial.found.remedied_s < 0.2
