from __future__ import annotations

import pytest

from stoker.probe.step_log import StepLog


def logged(compute: list[float]) -> StepLog:
    """Steps that compute for so long each."""
    log = StepLog()
    for seconds in compute:
        log.opens(1.0)
        log.ends()
        log.close(1.0 + seconds, skip=0)
    return log


def test_waits_for_loaders_that_go_along_are_no_part_of_the_computing() -> None:
    log = StepLog()
    log.opens(10.0, 0.5)
    log.waited_beside(0.25)
    assert log.ends()
    assert log.close(11.0, skip=0) == (10.0, 11.0)
    assert log.measured.wait == [pytest.approx(0.75)]
    assert log.measured.compute == [pytest.approx(0.75)]


def test_skipped_steps_are_run_but_not_measured() -> None:
    log = StepLog()
    for number in range(3):
        log.opens(float(number))
        assert log.ends()
        log.close(number + 0.5, skip=2)
    assert (log.run, log.measured.compute) == (3, [0.5])


def test_a_step_without_an_end_is_no_step_and_keeps_no_wait_for_the_next() -> None:
    log = StepLog()
    log.opens(1.0)
    log.forget()
    log.waited_beside(9.0)
    assert not log.ends()
    log.opens(5.0)
    log.ends()
    log.close(6.0, skip=0)
    assert (log.run, log.measured.wait) == (1, [0.0])


@pytest.mark.parametrize(
    ("compute", "behind", "told"),
    [
        # A queue of two that was empty at first, and two steps of which the host is ahead.
        ([0.0, 0.0, 0.02, 0.02, 0.02], 0.04, [0.02] * 5),
        ([0.0, 0.01, 0.03, 0.03], 0.03, [0.02, 0.02, 0.03, 0.03]),
        ([0.001, 0.001, 0.001], 0.057, [0.02] * 3),
        ([0.02, 0.03, 0.02], 0.0, [0.02, 0.03, 0.02]),
        # The script asked for a result in the fifth step, and the host got ahead again.
        (
            [0.0, 0.001, 0.02, 0.02, 0.059, 0.0, 0.0, 0.02, 0.02, 0.02],
            0.04,
            [0.02] * 10,
        ),
        # A checkpoint, and no host that was ahead before it.
        ([0.02, 0.02, 0.2, 0.02], 0.0, [0.02, 0.02, 0.2, 0.02]),
        # Short batches are short, as far as no step waits for them.
        ([0.005, 0.02, 0.02, 0.025], 0.0, [0.005, 0.02, 0.02, 0.025]),
        ([], 0.04, []),
    ],
)
def test_steps_in_which_the_host_got_ahead_take_what_the_device_was_behind_in_the_end(
    compute: list[float], behind: float, told: list[float]
) -> None:
    log = logged(compute)
    log.device_ended(behind)
    assert log.measured.compute == pytest.approx(told)
    assert sum(log.measured.compute) == pytest.approx(sum(compute) + (behind if compute else 0.0))


@pytest.mark.parametrize(
    ("compute", "told"),
    [
        ([0.0, 0.001, 0.05, 0.05, 0.05, 0.05], [0.05] * 4),  # a queue of two was empty
        ([0.05, 0.0, 0.05, 0.05], [0.05, 0.0, 0.05, 0.05]),
        ([0.0, 0.0, 0.0, 0.05, 0.05, 0.05], [0.0, 0.05, 0.05, 0.05]),  # no more than a third
        ([], []),
    ],
)
def test_steps_that_only_fill_a_queue_of_the_scripts_own_are_left_out(
    compute: list[float], told: list[float]
) -> None:
    log = logged(compute)
    log.leave_out_lead()
    assert log.measured.compute == pytest.approx(told)
    assert len(log.measured.wait) == len(told)
