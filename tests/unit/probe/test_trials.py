"""The schedule of --try on a loop that only pretends to take time."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from stoker.probe.legs import Measured, Window
from stoker.probe.offers import Candidate
from stoker.probe.trials import TRY_SHARE, Trials

BUDGET_S = 30.0
STEP_S = 0.05


class FakeOffers:
    """Candidates by the seconds of a step under each; None for one that fails."""

    def __init__(self, counts: dict[int, float], further: dict[str, float | None]) -> None:
        self.steps: dict[str, float | None] = {f"workers={n}": s for n, s in counts.items()}
        self._further = further
        self.asked: list[tuple[str, Any]] = []
        self.refused: dict[str, str] = {}

    def counts(self, base: str, counts: Sequence[int]) -> list[Candidate]:
        self.asked.append((base, list(counts)))
        self.steps |= {f"workers={n}": self.steps.get(f"workers={n}", STEP_S) for n in counts}
        return [Candidate(f"workers={n}", workers=n, depth=2 * n) for n in counts]

    def further(self, base: str) -> list[Candidate]:
        self.asked.append((base, "further"))
        found = []
        for name, seconds in self._further.items():
            whole = f"{base},{name}" if base else name
            self.steps[whole] = seconds
            refused = self.refused.get(name, "")
            at_epochs, threads = name == "persistent-workers", name == "native-threads=1"
            found.append(
                Candidate(
                    whole,
                    workers=2,
                    refused=refused,
                    needs_epochs=at_epochs,
                    thins_threads=threads,
                )
            )
        return found

    def together(self, names: Sequence[str]) -> list[Candidate]:
        self.asked.append(("", tuple(names)))
        self.steps["both"] = STEP_S
        return [Candidate("both", workers=2)]

    def open(self, name: str, *, start: int) -> Any:
        raise AssertionError("the conductor opens it")


class FakeLoop:
    """The loop as it is, and each candidate, at a pace of its own."""

    depth = 4
    has_device = False
    owned_cores = 2.0
    kept_round = 1
    wants_stages = True
    native_threads = 4

    def __init__(self, offers: FakeOffers, *, epoch: int | None = None, workers: int = 2) -> None:
        self.workers = workers
        self.epoch_length = epoch
        self.now = 20.0
        self.offers = offers
        self.windows: list[Window] = []
        self.lines: list[dict[str, Any]] = []
        self.trials_ended = 0
        self.unsteady: dict[str, float] = {}  # by how much of itself a step is longer or shorter
        self.edge_s = dict.fromkeys(("", "workers=4", "workers=1", "workers=0"), 1.0)

    def elapsed_s(self) -> float:
        return self.now

    def start_s(self, workers: int) -> float:
        return 0.1 * workers

    def drain(self, what: str, workers: int, *, batches: int, limit_s: float) -> list[float]:
        raise AssertionError("nothing is drained here")

    def end_trial(self) -> None:
        self.trials_ended += 1

    def once(self, limit_s: float) -> None:
        raise AssertionError("the plan does so")

    def write(self, kind: str, **fields: Any) -> None:
        self.lines.append({"kind": kind, **fields})

    def told(self, kind: str) -> dict[str, dict[str, Any]]:
        return {line["name"]: line for line in self.lines if line["kind"] == kind}

    def tried(self) -> list[str]:
        """The candidates in order, once each."""
        return list(dict.fromkeys(w.variant for w in self.windows if w.leg == "V"))

    def run(self, window: Window) -> Measured:
        self.windows.append(window)
        step = self.offers.steps.get(window.variant, STEP_S) if window.variant else STEP_S
        measured = Measured()
        if step is None:
            return measured
        began = self.now
        for number in range(window.steps + window.skip):
            if self.now - began > window.limit_s:
                break
            self.now += step
            if number >= window.skip:
                bent = self.unsteady.get(window.variant, 0.0) * (1 if number % 8 < 4 else -1)
                measured.wait.append(0.0)
                measured.compute.append(step * (1 + bent))
        if window.epochs:
            edge = self.edge_s.get(window.variant, 0.01)
            self.now += edge
            measured.edges.append(edge)
        return measured

    def conduct(self, periods: dict[int, float] | None = None) -> None:
        trials = Trials(self, lambda: self.offers, self.write, budget_s=BUDGET_S)
        steps = trials(periods or {self.workers: 0.02}, period=STEP_S, step=STEP_S)
        try:
            window = next(steps)
            while True:
                window = steps.send(self.run(window))
        except StopIteration:
            return


def test_every_candidate_stands_between_two_windows_of_the_loop_as_it_is() -> None:
    loop = FakeLoop(FakeOffers({4: STEP_S}, {"allocator": STEP_S, "unordered": STEP_S}))
    loop.conduct()
    legs = [window.leg for window in loop.windows]
    assert legs[0] == legs[-1] == "B"
    assert not {("V", "V"), ("B", "B")} & set(itertools.pairwise(legs))
    assert set(loop.tried()) == {"workers=4", "workers=1", "workers=0", "allocator", "unordered"}
    assert loop.trials_ended == 5


def test_the_time_on_top_is_bounded_and_who_got_none_is_told() -> None:
    loop = FakeLoop(FakeOffers({}, {f"one{n}": STEP_S for n in range(60)}))
    loop.conduct()
    assert loop.now < 20.0 + TRY_SHARE * BUDGET_S + 3.0
    untried = loop.told("untried")
    assert untried
    assert untried.keys() | set(loop.tried()) == loop.told("candidate").keys()
    assert all("no time" in line["why"] for line in untried.values())


def test_what_is_hopeless_gets_a_single_round() -> None:
    loop = FakeLoop(FakeOffers({1: 3 * STEP_S}, {}))
    loop.conduct()
    assert [window.variant for window in loop.windows].count("workers=1") == 1


def test_time_that_is_left_goes_to_the_best_that_is_not_known_well_enough() -> None:
    loop = FakeLoop(FakeOffers({4: 0.025, 1: 0.06, 0: 0.1}, {"unordered": STEP_S}))
    loop.unsteady = {"workers=4": 0.6}
    loop.conduct({1: 0.06, 2: 0.04, 4: 0.02})
    rounds = [window.variant for window in loop.windows if window.leg == "V"]
    assert rounds.count("workers=4") > 3 and rounds[-1] == "workers=4"
    assert rounds.count("workers=4,unordered") == 1  # known at once, and no better
    legs = [window.leg for window in loop.windows]
    assert all(legs[at - 1] == "B" == legs[at + 1] for at, leg in enumerate(legs) if leg == "V")


def test_what_is_unsteady_and_far_from_the_best_is_not_looked_at_again() -> None:
    loop = FakeLoop(FakeOffers({4: 0.02, 1: 0.06, 0: 0.1}, {"unordered": STEP_S}))
    loop.unsteady = {"workers=4,unordered": 0.3}
    loop.conduct({1: 0.06, 2: 0.04, 4: 0.02})
    rounds = [window.variant for window in loop.windows if window.leg == "V"]
    assert rounds.count("workers=4,unordered") <= 2


def test_settings_are_tried_on_top_of_the_fewest_workers_that_are_fastest() -> None:
    offers = FakeOffers({4: STEP_S / 2, 8: STEP_S / 2.01}, {"allocator": STEP_S / 2})
    loop = FakeLoop(offers)
    loop.conduct({2: 0.05, 4: 0.025, 8: 0.025})
    assert ("workers=4", "further") in offers.asked
    assert "workers=4,allocator" in loop.tried()


def test_the_loop_as_it_is_stays_the_ground_where_nothing_is_faster() -> None:
    offers = FakeOffers({4: STEP_S / 1.01}, {"allocator": STEP_S})
    loop = FakeLoop(offers)
    loop.conduct()
    assert ("", "further") in offers.asked


def test_two_settings_that_gain_are_tried_as_one() -> None:
    offers = FakeOffers({}, {"allocator": STEP_S / 1.3, "native-threads=1": STEP_S / 1.2})
    loop = FakeLoop(offers)
    loop.conduct()
    assert ("", ("allocator", "native-threads=1")) in offers.asked
    assert loop.tried()[-1] == "both"


def test_the_refused_are_told_and_not_run() -> None:
    offers = FakeOffers({}, {"pinned-async": STEP_S})
    offers.refused["pinned-async"] = "nothing is copied"
    loop = FakeLoop(offers)
    loop.conduct()
    assert loop.told("candidate")["pinned-async"]["refused"] == "nothing is copied"
    assert "pinned-async" not in loop.tried()


def test_one_that_fails_costs_one_window_and_the_others_go_on() -> None:
    offers = FakeOffers({}, {"allocator": None, "unordered": STEP_S})
    loop = FakeLoop(offers)
    loop.conduct()
    assert [window.variant for window in loop.windows].count("allocator") == 1
    assert "unordered" in loop.tried()


def test_kept_workers_are_tried_where_epochs_are_short_enough_to_see_one_begin() -> None:
    short = FakeLoop(FakeOffers({}, {"persistent-workers": STEP_S, "allocator": STEP_S}), epoch=10)
    short.conduct()
    assert short.tried()[0] == "persistent-workers"
    assert all(window.epochs == 1 for window in short.windows)
    # All that follows is tried on top of what saved a second at each beginning.
    assert "persistent-workers,allocator" in short.tried()

    long = FakeLoop(FakeOffers({}, {"persistent-workers": STEP_S}), epoch=10_000)
    long.conduct()
    assert "persistent-workers" not in long.tried()
    assert "too long" in long.told("candidate")["persistent-workers"]["refused"]


def test_threads_are_thinned_out_first_where_there_are_too_many() -> None:
    loop = FakeLoop(FakeOffers({}, {"allocator": STEP_S, "native-threads=1": STEP_S / 2}))
    loop.conduct()
    assert loop.tried()[0].startswith("workers=")

    crowded = FakeLoop(FakeOffers({}, {"allocator": STEP_S, "native-threads=1": STEP_S / 2}))
    crowded.native_threads = 40
    crowded.conduct()
    assert crowded.tried()[0] == "native-threads=1"
    assert "native-threads=1,allocator" in crowded.tried()


def test_choosing_that_fails_ends_nothing() -> None:
    offers = FakeOffers({}, {"allocator": STEP_S})
    offers.counts = lambda *_: 1 / 0  # type: ignore[assignment, method-assign, return-value]
    loop = FakeLoop(offers)
    loop.conduct()
    assert loop.tried() == ["allocator"]
    assert any("ZeroDivisionError" in str(line) for line in loop.lines)
