"""The schedule on a loop that only pretends to take time."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable

import pytest

from stoker.probe.legs import Measured, Window, half_width_share, plan


class FakeLoop:
    """A loop of given seconds a batch; its clock moves with what is run on it."""

    epoch_length: int | None = 1000
    has_device = False
    owned_cores = 2.0
    wants_stages = True
    native_threads = 4
    start_each_s = 0.0
    can_halve = False
    kept_round = 1
    on_a_core = 0.0  # share of a step for which the host is

    def __init__(
        self, *, workers: int, step_s: float, load_s: Callable[[int], float], noise: float = 0.0
    ) -> None:
        self.workers = workers
        self.depth = 2 * workers
        self._step_s = step_s
        self._load_s = load_s
        self._noise = itertools.cycle((1 - noise, 1 + noise, 1 - noise / 2, 1 + noise / 2))
        self.now = 0.0
        self.drained: list[tuple[str, int]] = []
        self.asked: list[tuple[str, int]] = []  # of what, how many batches
        self.windows: list[Window] = []
        self.trials_ended = 0
        self.once_s: float | None = None

    def elapsed_s(self) -> float:
        return self.now

    def start_s(self, workers: int) -> float:
        return self.start_each_s * workers

    def drain(self, what: str, workers: int, *, batches: int, limit_s: float) -> list[float]:
        self.drained.append((what, workers))
        self.asked.append((what, batches))
        self.now += self.start_s(workers) if (what, workers) != ("L", self.workers) else 0.0
        period = 0.0005 if what == "N" else self._load_s(workers)
        count = max(1, min(batches, int(limit_s / period)))
        self.now += count * period
        return [period * next(self._noise) for _ in range(count)]

    def end_trial(self) -> None:
        self.trials_ended += 1

    def once(self, limit_s: float) -> None:
        self.once_s = limit_s

    def run(self, window: Window) -> Measured:
        """The steps of a window, until it is full or out of time."""
        self.windows.append(window)
        workers = window.workers if window.leg == "V" else self.workers
        load = self._load_s(workers)
        wait = load if workers == 0 else max(0.0, load - self._step_s)
        wait = wait if window.leg in "WRBV" else 0.0
        measured, began = Measured(), self.now
        for number in range(window.steps + window.skip):
            if self.now - began > window.limit_s:
                break
            factor = next(self._noise)
            self.now += (wait + self._step_s) * factor
            if number >= window.skip:
                measured.wait.append(wait * factor)
                measured.compute.append(self._step_s * factor)
        measured.boundaries = window.epochs
        if window.leg == "P":
            share = self.on_a_core / 2
            measured.inside = {"states": {"python": share, "library": share, "blocked": 0.0}}
        return measured


class IndebtedLoop(FakeLoop):
    """Its workers, slower than the step, fill a deep queue whenever kept batches are served."""

    def __init__(self) -> None:
        super().__init__(workers=2, step_s=0.006, load_s=lambda _: 0.02)
        self.depth = 48
        self._ready = self.depth
        self.waits: list[list[float]] = []  # of each R window

    def run(self, window: Window) -> Measured:
        if window.leg not in "WRBV":
            self._ready = self.depth
            return super().run(window)
        measured = super().run(window)
        hidden = max(0, self._ready - window.skip)
        self._ready = max(0, self._ready - window.skip - window.steps)
        waits = [0.0 if n < hidden else wait for n, wait in enumerate(measured.wait)]
        if window.leg == "R":
            self.waits.append(waits)
        return Measured(waits, measured.compute, measured.boundaries)


def conduct(loop: FakeLoop, budget_s: float = 30.0, most_steps: int | None = None) -> str:
    """Run the plan to its end; the reason it gives."""
    steps = plan(loop, budget_s, most_steps)
    window = next(steps)
    try:
        while True:
            window = steps.send(loop.run(window))
    except StopIteration as ended:
        return str(ended.value)


def serial() -> FakeLoop:
    return FakeLoop(workers=0, step_s=0.05, load_s=lambda workers: 0.1 / max(1, min(workers, 2)))


def test_a_steady_loop_settles_before_its_time_is_up() -> None:
    loop = serial()
    assert conduct(loop) == "converged"
    assert loop.now < 30.0


def test_a_noisy_loop_is_measured_until_its_time_is_up() -> None:
    loop = FakeLoop(workers=2, step_s=0.1, load_s=lambda _: 0.3, noise=0.9)
    assert conduct(loop) == "budget"
    assert loop.now < 1.5 * 30.0


def test_a_loop_is_left_after_the_steps_asked_for() -> None:
    assert conduct(serial(), most_steps=5) == "steps"


@pytest.mark.parametrize("workers", [0, 2])
def test_every_leg_is_met(workers: int) -> None:
    loop = FakeLoop(workers=workers, step_s=0.05, load_s=lambda _: 0.06)
    loop.has_device = True
    conduct(loop)
    legs = Counter(window.leg for window in loop.windows)
    assert set("WRDHP") <= legs.keys()
    assert ("C" in legs) == bool(workers)
    what = {name for name, _ in loop.drained}
    assert what == ({"L", "N", "S"} if workers else {"L", "S"})


def test_the_kept_legs_take_turns_with_the_real_one() -> None:
    loop = serial()
    conduct(loop)
    order = [window.leg for window in loop.windows if window.leg in "RD"]
    assert order[:6] == ["R", "D", "D", "R", "D", "D"]


def test_batches_that_lay_ready_after_kept_ones_are_no_part_of_the_real_step() -> None:
    loop = IndebtedLoop()
    conduct(loop)
    assert len(loop.waits) >= 2
    assert all(min(waits) > 0 for waits in loop.waits)


def test_counts_are_doubled_only_while_that_helps() -> None:
    loop = FakeLoop(workers=2, step_s=0.01, load_s=lambda workers: 0.4 / min(max(workers, 1), 8))
    conduct(loop, budget_s=60.0)
    counts = [workers for what, workers in loop.drained if what == "L" and workers > 2]
    assert counts == [4, 8, 16]


def test_without_workers_is_tried_last_where_they_are_forked() -> None:
    loop = FakeLoop(workers=4, step_s=0.05, load_s=lambda _: 0.06)
    conduct(loop)
    others = [workers for what, workers in loop.drained if what == "L" and workers != 4]
    assert others[-1] == 0


def test_without_workers_is_tried_in_any_case_where_handing_over_is_what_costs() -> None:
    loop = FakeLoop(workers=4, step_s=0.0005, load_s=lambda _: 0.0008)
    conduct(loop, budget_s=1.0)
    assert ("L", 0) in loop.drained


def test_a_count_that_promises_a_gain_is_tried_in_turn_with_the_loop_as_it_is() -> None:
    loop = serial()
    conduct(loop)
    trial = [(window.leg, window.workers) for window in loop.windows if window.leg in "BV"]
    assert trial == [("B", 0), ("V", 2), ("B", 0), ("V", 2)]
    assert loop.trials_ended == 1


def test_nothing_is_tried_where_nothing_can_be_gained() -> None:
    loop = FakeLoop(workers=2, step_s=0.1, load_s=lambda _: 0.05)
    conduct(loop)
    assert not [window for window in loop.windows if window.leg in "BV"]


def test_short_epochs_are_watched_whole() -> None:
    loop = FakeLoop(workers=2, step_s=0.05, load_s=lambda _: 0.02)
    loop.epoch_length = 10
    conduct(loop)
    assert all(window.epochs >= 2 for window in loop.windows if window.leg == "R")


def test_single_samples_are_always_looked_at() -> None:
    loop = FakeLoop(workers=2, step_s=0.5, load_s=lambda _: 2.0)
    conduct(loop, budget_s=10.0)
    assert loop.once_s is not None
    assert loop.once_s >= 1.0


def test_too_few_rounds_have_no_interval() -> None:
    assert half_width_share([0.1] * 5, 1) == float("inf")
    assert half_width_share([0.1] * 6, 1) == pytest.approx(0.0, abs=1e-9)
    assert half_width_share([0.01, 0.19] * 6, 2) == pytest.approx(0.0, abs=1e-9)


def test_what_tells_causes_apart_is_drained_before_the_legs_take_a_second_turn() -> None:
    loop = FakeLoop(workers=2, step_s=0.01, load_s=lambda workers: 0.4 / max(workers, 1))
    steps = plan(loop, 30.0)
    window = next(steps)
    while [w.leg for w in loop.windows].count("R") < 1 or window.leg != "R":
        window = steps.send(loop.run(window))
    assert {("N", 2), ("L", 4)} <= set(loop.drained)
    assert ("L", 0) not in loop.drained, "forked workers would inherit what it opens"


def test_workers_that_take_long_to_start_are_not_started_beyond_the_time() -> None:
    def slow_to_start(each_s: float) -> FakeLoop:
        loop = FakeLoop(workers=2, step_s=0.01, load_s=lambda workers: 0.1 / max(workers, 1))
        loop.start_each_s = each_s
        conduct(loop, budget_s=5.0)
        return loop

    slow, quick = slow_to_start(2.0), slow_to_start(0.01)
    assert slow.now < 1.5 * 5.0
    assert not [w for w in slow.windows if w.leg == "V"]
    assert {what for what, _ in quick.drained} == {"L", "N", "S"}


def test_one_native_thread_a_worker_is_tried_in_turn_with_the_loader_as_it_is() -> None:
    loop = FakeLoop(workers=2, step_s=0.05, load_s=lambda _: 0.06)
    loop.native_threads = 40
    conduct(loop)
    order = [what for what, workers in loop.drained if what in "LT" and workers == 2]
    assert order[:4] == ["L", "T", "L", "T"]


def test_stages_are_timed_with_fewer_workers_too_where_those_are_faster() -> None:
    crowded = FakeLoop(workers=4, step_s=0.01, load_s=lambda workers: 0.02 * (workers or 50))
    conduct(crowded)
    assert [workers for what, workers in crowded.drained if what == "S"] == [4, 2]
    helped = FakeLoop(workers=4, step_s=0.01, load_s=lambda workers: 0.2 / max(1, workers))
    conduct(helped)
    assert [workers for what, workers in helped.drained if what == "S"] == [4]


def launching(**changes: object) -> FakeLoop:
    """A step on a device that the host launches all the time."""
    loop = FakeLoop(workers=2, step_s=0.02, load_s=lambda _: 0.01)
    known: dict[str, object] = {"has_device": True, "can_halve": True, "on_a_core": 0.9}
    for name, value in (known | changes).items():
        setattr(loop, name, value)
    conduct(loop)
    return loop


def test_two_batch_sizes_take_turns_behind_all_other_windows() -> None:
    loop = launching()
    sizes = [window.variant for window in loop.windows if window.leg == "F"]
    assert sizes == ["whole", "half"] * 3
    assert all(window.leg == "F" for window in loop.windows[-6:])
    assert all(window.steps >= 8 and window.skip for window in loop.windows[-6:])
    assert loop.once_s is not None


@pytest.mark.parametrize(
    "changes", [{"has_device": False}, {"can_halve": False}, {"on_a_core": 0.4}]
)
def test_one_size_is_enough_where_no_launch_is_waited_for_or_no_half_is_a_batch(
    changes: dict[str, object],
) -> None:
    assert not [window for window in launching(**changes).windows if window.leg == "F"]


class UnevenLoop(FakeLoop):
    """Two workers with time to spare, one of whose batches in ten comes late."""

    def run(self, window: Window) -> Measured:
        measured = super().run(window)
        if window.leg == "R":
            late = [0.2 if number % 10 == 7 else 0.0 for number in range(len(measured.wait))]
            self.now += sum(late)
            measured.wait = late
        return measured


def test_an_uneven_loader_is_drained_for_more_of_its_single_batches() -> None:
    def longest(loop: FakeLoop) -> int:
        conduct(loop)
        return max(batches for what, batches in loop.asked if what == "L")

    def even(noise: float) -> FakeLoop:
        return FakeLoop(workers=2, step_s=0.05, load_s=lambda _: 0.02, noise=noise)

    assert longest(UnevenLoop(workers=2, step_s=0.05, load_s=lambda _: 0.02)) == 200
    assert longest(even(noise=0.9)) < 100, "its steps differ, but none is waited for"
    assert longest(FakeLoop(workers=2, step_s=0.02, load_s=lambda _: 0.05, noise=0.9)) < 100
