"""Ranks that enter and leave legs together: on one fake clock, one rank running at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from stoker.probe.legs import Loop, Measured, Plan, Window, plan
from stoker.probe.ranks import (
    JOIN_S,
    LEAD_STEPS,
    Group,
    Ranks,
    Slot,
    group_of_process,
    meeting_place,
)
from stoker.probe.together import plan_together

_SILENCE_S = 90.0
_NEVER_S = 10_000.0  # of the fake clock: a deadlock
_STEP_S = 0.1


class Turns:
    """Threads that run one at a time, always the one that wakes first; only sleeping takes time."""

    def __init__(self) -> None:
        self.now = 0.0
        self._condition = threading.Condition()
        self._wakes: dict[int, float] = {}

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert self.now < _NEVER_S, "the ranks wait for each other for ever"
        with self._condition:
            self._wakes[threading.get_ident()] = self.now + seconds
            self._condition.notify_all()
            self._wait_for_turn()

    def _wait_for_turn(self) -> None:
        own = threading.get_ident()
        self._condition.wait_for(lambda: min(self._wakes, key=self._wakes.__getitem__) == own)
        self.now = max(self.now, self._wakes[own])

    def run(self, *ranks: Callable[[], None]) -> None:
        failures: list[BaseException] = []
        all_here = threading.Barrier(len(ranks))

        def main(number: int, rank: Callable[[], None]) -> None:
            self._wakes[threading.get_ident()] = number * 1e-6
            all_here.wait()
            with self._condition:
                self._wait_for_turn()
            try:
                rank()
            except BaseException as failure:  # noqa: BLE001 - raised again by the test's thread
                failures.append(failure)
            with self._condition:
                del self._wakes[threading.get_ident()]
                self._condition.notify_all()

        threads = [threading.Thread(target=main, args=pair) for pair in enumerate(ranks)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]


class Meeting:
    """A collective: nobody passes step n before all have come to it."""

    def __init__(self, turns: Turns, size: int) -> None:
        self._turns = turns
        self._size = size
        self._arrived: dict[int, int] = {}

    def meet(self, step: int) -> None:
        self._arrived[step] = self._arrived.get(step, 0) + 1
        while self._arrived[step] < self._size:
            self._turns.sleep(0.001)


class RankDiedError(Exception):
    """The process of a rank is gone."""


class FakeRank:
    """A loop of one rank; keeps which leg each step ran in, and what was drained at which step."""

    workers = 0
    depth = 0
    epoch_length = None
    has_device = False
    owned_cores = 1.0
    wants_stages = False
    native_threads = 1

    def __init__(
        self,
        turns: Turns,
        folder: Path,
        rank: int,
        *,
        world: int = 2,
        collective: Meeting | None = None,
        step_s: float = _STEP_S,
        dies_at: int | None = None,
        make_plan: Callable[[Loop], Plan] | None = None,
    ) -> None:
        self.turns = turns
        self.notes: list[str] = []
        self.legs: list[str] = []
        self.drains: list[tuple[int, str, float]] = []
        self.trials_ended = 0
        self.ended: str | None = None
        self._collective = collective
        self._step_s = step_s
        self._dies_at = dies_at
        self._make_plan = make_plan or small_plan
        self.ranks = Ranks(
            folder,
            Group(rank, world, world),
            silence_s=_SILENCE_S,
            note=self.notes.append,
            clock=turns.clock,
            sleep=turns.sleep,
        )

    def elapsed_s(self) -> float:
        return self.turns.now

    def drain(self, what: str, workers: int, *, batches: int, limit_s: float) -> list[float]:
        self.drains.append((len(self.legs), what, self.turns.now))
        self.turns.sleep(1.0)
        return [0.5, 0.5]

    def end_trial(self) -> None:
        self.trials_ended += 1

    def once(self, limit_s: float) -> None:
        self.turns.sleep(1.0)

    def train(self) -> None:
        """As the conductor does it."""
        plan = plan_together(self, self.ranks, self._make_plan)
        try:
            window = next(plan)
            while True:
                window = plan.send(self._run_window(window))
        except StopIteration as ended:
            self.ended = ended.value
            self.ranks.leave()
        except RankDiedError:
            self.ranks._own.leave()  # what the others see of it

    def _run_window(self, window: Window) -> Measured:
        measured = Measured()
        run, began = 0, self.turns.now
        while True:
            self.legs.append(window.leg)
            if len(self.legs) == self._dies_at:
                raise RankDiedError
            if self._collective is not None:
                self._collective.meet(len(self.legs))
            self.turns.sleep(self._step_s)
            run += 1
            if run > window.skip:
                measured.wait.append(0.0)
                measured.compute.append(self._step_s)
            left = window.steps + window.skip - run
            if self.turns.now - began > window.limit_s:
                left = 0
            if self.ranks.is_due(len(self.legs), left=left):
                return measured


def small_plan(loop: Loop) -> Plan:
    """A plan with all that plans do."""
    yield Window("W", steps=3)
    yield Window("R", steps=6)
    loop.drain("L", 2, batches=4, limit_s=2.0)
    yield Window("D", steps=4, limit_s=1.5)
    loop.drain("N", 2, batches=4, limit_s=2.0)
    loop.end_trial()
    loop.once(1.0)
    return "converged"


LEGS = ["W"] * 3 + ["R"] * 6 + ["D"] * 4


def test_ranks_that_meet_run_the_same_leg_at_every_step(tmp_path: Path) -> None:
    turns = Turns()
    collective = Meeting(turns, 3)
    ranks = [
        FakeRank(turns, tmp_path / "r", rank, world=3, collective=collective) for rank in range(3)
    ]
    turns.run(*(rank.train for rank in ranks))
    for rank in ranks:
        assert rank.legs == LEGS
        assert rank.ended == "converged"
        assert rank.notes == []


def test_ranks_drain_at_the_same_step_and_at_the_same_time(tmp_path: Path) -> None:
    turns = Turns()
    collective = Meeting(turns, 2)
    first, second = (FakeRank(turns, tmp_path / "r", r, collective=collective) for r in range(2))
    turns.run(first.train, second.train)
    assert [drain[:2] for drain in first.drains] == [(9, "L"), (13, "N")]
    for own, other in zip(first.drains, second.drains, strict=True):
        assert own[:2] == other[:2]
        assert abs(own[2] - other[2]) < 0.1
    assert first.trials_ended == second.trials_ended == 1


class BusyRank(FakeRank):
    """One with workers and a device, so that its plan has every leg."""

    workers = 2
    depth = 4
    has_device = True
    wants_stages = True
    native_threads = 40

    def start_s(self, workers: int) -> float:
        return 0.1 * workers

    def drain(self, what: str, workers: int, *, batches: int, limit_s: float) -> list[float]:
        self.drains.append((len(self.legs), f"{what}{workers}", self.turns.now))
        self.turns.sleep(0.3)
        return [1.0 / max(1, workers)] * batches


def test_ranks_go_through_a_whole_plan_together(tmp_path: Path) -> None:
    turns = Turns()
    collective = Meeting(turns, 2)

    def make_plan(loop: Loop) -> Plan:
        return plan(loop, budget_s=60.0)

    ranks = [
        BusyRank(turns, tmp_path / "r", r, collective=collective, make_plan=make_plan)
        for r in range(2)
    ]
    turns.run(*(rank.train for rank in ranks))
    first, second = ranks
    assert first.legs == second.legs
    assert set(first.legs) == set("WRDHCPBV")
    assert [drain[:2] for drain in first.drains] == [drain[:2] for drain in second.drains]
    assert {"L2", "L0", "L1", "L4", "N2", "S2", "T2"} <= {drain[1] for drain in first.drains}
    assert first.ended == second.ended == "converged"
    assert first.trials_ended == second.trials_ended == 1
    assert first.notes == second.notes == []


def test_the_lowest_rank_leads_whoever_comes_first(tmp_path: Path) -> None:
    turns = Turns()
    collective = Meeting(turns, 2)
    low, high = (FakeRank(turns, tmp_path / "r", r, collective=collective) for r in (4, 7))
    turns.run(high.train, low.train)
    assert low.ranks.leads
    assert not high.ranks.leads
    assert high.legs == LEGS


@pytest.mark.parametrize("speeds", [(0.1, 1.0), (1.0, 0.1)])
def test_ranks_that_never_meet_come_to_their_end_all_the_same(
    tmp_path: Path, speeds: tuple[float, float]
) -> None:
    turns = Turns()
    ranks = [FakeRank(turns, tmp_path / "r", r, step_s=speeds[r]) for r in range(2)]
    turns.run(*(rank.train for rank in ranks))
    assert [rank.ended for rank in ranks] == ["converged", "converged"]


def test_a_follower_whose_leader_died_stops_by_itself(tmp_path: Path) -> None:
    turns = Turns()
    leader = FakeRank(turns, tmp_path / "r", 0, dies_at=6)
    follower = FakeRank(turns, tmp_path / "r", 1)

    turns.run(leader.train, follower.train)
    assert follower.ended == "script-ended"
    assert follower.notes == ["rank 0, which led, is gone"]


def test_a_follower_does_not_wait_for_ever_for_a_leader_that_hangs(tmp_path: Path) -> None:
    turns = Turns()
    leader, follower = (FakeRank(turns, tmp_path / "r", r) for r in range(2))

    def hang() -> None:
        next(plan_together(leader, leader.ranks, small_plan))
        while follower.ended is None:
            turns.sleep(0.5)

    turns.run(hang, follower.train)
    assert follower.ended == "script-ended"
    assert turns.now > _SILENCE_S


def test_the_end_of_the_leaders_script_sends_the_others_away(tmp_path: Path) -> None:
    turns = Turns()
    leader, follower = (FakeRank(turns, tmp_path / "r", r) for r in range(2))

    def end_early() -> None:
        next(plan_together(leader, leader.ranks, small_plan))
        leader.ranks.leave()

    turns.run(end_early, follower.train)
    assert follower.ended == "script-ended"
    assert follower.notes == []


def test_a_leader_goes_on_without_a_follower_that_died(tmp_path: Path) -> None:
    turns = Turns()
    leader = FakeRank(turns, tmp_path / "r", 0)
    follower = FakeRank(turns, tmp_path / "r", 1, dies_at=5)

    turns.run(leader.train, follower.train)
    assert leader.ended == "converged"
    assert follower.ended is None
    assert turns.now < JOIN_S


def test_a_rank_that_is_alone_in_its_session_leads_itself_and_says_so(tmp_path: Path) -> None:
    turns = Turns()
    rank = FakeRank(turns, tmp_path / "r", 1)
    turns.run(rank.train)
    assert rank.legs == LEGS
    assert rank.notes == ["1 of 2 ranks were not seen in their loop"]
    assert turns.now > JOIN_S


def test_a_rank_that_comes_late_follows_even_where_it_is_the_lowest(tmp_path: Path) -> None:
    turns = Turns()
    early = FakeRank(turns, tmp_path / "r", 1)
    late: list[FakeRank] = []

    def come_late() -> None:
        while len(early.legs) < 4:
            turns.sleep(0.01)
        late.append(FakeRank(turns, tmp_path / "r", 0))
        late[0].train()

    turns.run(early.train, come_late)
    assert not late[0].ranks.leads
    assert late[0].ended == "converged"
    assert late[0].legs[-1] == "D"
    assert "W" not in late[0].legs  # what was over is passed over


def test_the_step_announced_is_ahead_of_the_furthest_rank(tmp_path: Path) -> None:
    turns = Turns()
    leader, follower = (FakeRank(turns, tmp_path / "r", r) for r in range(2))
    ahead = 7

    def lead() -> None:
        next(plan_together(leader, leader.ranks, small_plan))
        follower.ranks._own.count = ahead
        due = [count for count in range(1, 20) if leader.ranks.is_due(count, left=0)]
        assert due[0] == ahead + LEAD_STEPS

    turns.run(lead, follower.train)


def test_a_process_that_inherited_its_rank_trains_on_its_own(tmp_path: Path) -> None:
    turns = Turns()
    collective = Meeting(turns, 2)
    ranks = [FakeRank(turns, tmp_path / "r", r, collective=collective) for r in range(2)]
    stranger = FakeRank(turns, tmp_path / "r", 0)
    turns.run(*(rank.train for rank in ranks), stranger.train)
    assert [rank.legs for rank in [*ranks, stranger]] == [LEGS] * 3
    assert ranks[0].notes == ranks[1].notes == []


def test_restarted_ranks_meet_in_a_place_of_their_own(tmp_path: Path) -> None:
    first = meeting_place(tmp_path, 0, {})
    assert meeting_place(tmp_path, 0, {"TORCHELASTIC_RESTART_COUNT": "1"}) != first
    assert meeting_place(tmp_path, 1, {}) != first


def test_a_slot_of_a_process_that_is_gone_is_not_waited_for(tmp_path: Path) -> None:
    slot = Slot.make(tmp_path / "slot-0.words")
    assert Slot(tmp_path / "slot-0.words").is_there
    slot._words[3] = 2**30  # no process has this number
    assert not Slot(tmp_path / "slot-0.words").is_there


def test_the_process_group_says_more_than_the_environment() -> None:
    distributed: Any = ModuleType("torch.distributed")
    distributed.is_available = distributed.is_initialized = lambda: True
    distributed.get_rank, distributed.get_world_size = lambda: 3, lambda: 8
    modules = {"torch.distributed": distributed}
    environment = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "4"}
    assert group_of_process(environment, modules) == Group(rank=3, world=8, here=4)
    distributed.is_initialized = lambda: False
    assert group_of_process(environment, modules) == Group(rank=0, world=1, here=1)


def test_a_process_without_a_launcher_is_alone() -> None:
    assert group_of_process({}, {}) == Group(rank=0, world=1, here=1)
