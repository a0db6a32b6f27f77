from __future__ import annotations

from stoker.probe.epochs import EpochWatch


def epoch(watch: EpochWatch, began: float, *, batches: int, step: float) -> float:
    """One epoch of real batches; the time of the call that finds it exhausted."""
    watch.iterated(began)
    now = began + 0.5  # workers start
    for _ in range(batches):
        watch.batch(now)
        now += step
    watch.ended(now)
    return now


def test_a_boundary_reaches_from_the_last_step_to_the_next_first_batch() -> None:
    watch = EpochWatch()
    end = epoch(watch, 0.0, batches=10, step=0.1)
    watch.iterated(end)
    boundary = watch.batch(end + 0.5)
    assert boundary is not None
    assert round(boundary.seconds, 9) == 0.5
    assert boundary.batches == 10
    # ten steps of 0.1 s and the half second between the epochs
    assert boundary.epoch_s is not None
    assert round(boundary.epoch_s, 9) == 1.5


def test_an_epoch_in_which_something_else_was_served_tells_no_whole() -> None:
    watch = EpochWatch()
    watch.iterated(0.0)
    watch.batch(0.1)
    watch.disturbed()
    watch.ended(1.0)
    watch.iterated(1.0)
    boundary = watch.batch(1.2)
    assert boundary is not None
    assert boundary.epoch_s is None


def test_validation_between_epochs_is_not_the_boundarys() -> None:
    watch = EpochWatch()
    end = epoch(watch, 0.0, batches=3, step=0.1)
    watch.other_began(end)
    watch.other_began(end + 1.0)
    watch.iterated(end + 2.0)
    watch.training_resumes(end + 2.0)
    boundary = watch.batch(end + 2.3)
    assert boundary is not None
    assert round(boundary.validation_s, 9) == 2.0
    assert watch.mid_validation == []


def train(watch: EpochWatch, now: float, *, batches: int) -> float:
    """So many real batches of a tenth of a second each."""
    for _ in range(batches):
        watch.training_resumes(now)
        watch.batch(now)
        now += 0.1
    return now


def test_validation_within_an_epoch_is_told_apart_with_the_batches_before_it() -> None:
    watch = EpochWatch()
    watch.iterated(0.0)
    now = 0.0
    for _ in range(3):
        now = train(watch, now, batches=5)
        watch.other_began(now)
        now += 2.0
    end = train(watch, now, batches=1)
    watch.training_resumes(end)
    watch.ended(end)
    watch.iterated(end)
    boundary = watch.batch(end + 0.2)

    told = watch.fields()["mid_validation"]
    assert told == [(5, 2.0), (10, 2.0), (15, 2.0)]
    assert boundary is not None
    assert (boundary.validation_s, round(boundary.mid_validation_s, 9)) == (0.0, 6.0)


def test_validation_behind_an_epoch_that_we_cut_short_is_not_within_one() -> None:
    watch = EpochWatch()
    watch.iterated(0.0)
    now = train(watch, 0.0, batches=5)
    watch.cut()
    watch.other_began(now)
    watch.iterated(now + 2.0)
    watch.training_resumes(now + 2.0)
    assert watch.mid_validation == []


def test_a_boundary_behind_which_kept_batches_came_first_has_no_end() -> None:
    watch = EpochWatch()
    end = epoch(watch, 0.0, batches=3, step=0.1)
    watch.iterated(end)
    watch.disturbed()
    assert watch.batch(end + 9.0) is None


def test_an_epoch_that_we_cut_short_has_no_boundary() -> None:
    watch = EpochWatch()
    end = epoch(watch, 0.0, batches=3, step=0.1)
    watch.cut()
    watch.iterated(end)
    assert watch.batch(end + 0.2) is None


def test_the_start_of_an_epoch_is_told_when_its_first_batch_is_the_loaders() -> None:
    watch = EpochWatch()
    epoch(watch, 0.0, batches=2, step=0.1)
    assert watch.start_s == [0.5]
    watch.iterated(5.0)
    watch.disturbed()
    watch.batch(9.0)
    assert watch.start_s == [0.5]
