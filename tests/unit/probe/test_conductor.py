"""The conductor in loops that only pretend to take time: what it measures is what they take."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stoker.probe import conductor as module
from stoker.probe import leaving, offers
from stoker.probe.leaving import StokerStop
from stoker.probe.session import Session, read_lines
from tests.unit.probe.pretended import LOAD_S, STEP_S, Clock, Offering, Script


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "options.json").write_text('{"budget_s": 20, "stages": false}')
    return tmp_path


@pytest.fixture
def script(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Script:
    clock = Clock()
    monkeypatch.setattr(module, "clocks", SimpleNamespace(wall_s=clock))
    monkeypatch.setattr(leaving, "_end_with_main", lambda: None)  # waits for the end of Python
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    return Script(Session(folder), clock)


def lines(folder: Path, kind: str) -> list[dict[str, Any]]:
    (file,) = folder.glob("trainer-*.jsonl")
    return [line for line in read_lines(file)[0] if line["kind"] == kind]


def mean(folder: Path, leg: str, key: str) -> float:
    values = [v for line in lines(folder, "window") if line["leg"] == leg for v in line[key]]
    return statistics.fmean(values)


def _assert_told_true(folder: Path) -> None:
    assert mean(folder, "R", "wait") == pytest.approx(LOAD_S)
    assert mean(folder, "R", "compute") == pytest.approx(STEP_S)
    assert mean(folder, "D", "compute") == pytest.approx(STEP_S)
    (end,) = lines(folder, "end")
    assert end["reason"] in ("converged", "budget")


def test_a_plain_loop_is_measured_and_left(script: Script, folder: Path) -> None:
    train = script.loader(batches=10_000)
    with pytest.raises(StokerStop):
        for _ in script.epoch(train):
            script.step()

    _assert_told_true(folder)


def test_no_batch_is_fetched_while_kept_ones_are_served(script: Script, folder: Path) -> None:
    train = script.loader(batches=10_000)
    served: dict[str, int] = {}
    with pytest.raises(StokerStop):
        for _ in script.epoch(train):
            leg = script.conductor.leg or ""
            served[leg] = served.get(leg, 0) + 1
            script.step()

    from_loader = sum(count for leg, count in served.items() if leg in ("", "W", "R", "B"))
    assert len(script.fetched) == from_loader
    assert served["D"] > 10


def test_an_epoch_with_kept_batches_is_no_longer_than_any_other(script: Script) -> None:
    train = script.loader(batches=40)
    lengths = []
    with pytest.raises(StokerStop):
        while True:
            count = 0
            for _ in script.epoch(train):
                count += 1
                script.step()
            lengths.append(count)

    assert len(lengths) > 5
    assert set(lengths) == {40}


def test_validation_between_epochs_is_told_as_such(script: Script, folder: Path) -> None:
    train = script.loader(batches=20)
    validation = script.loader("validation", batches=10, learns=False)
    with pytest.raises(StokerStop):
        while True:
            for _ in script.epoch(train):
                script.step()
            script.library.gradients = False
            for _ in script.epoch(validation, load_s=0.1):
                script.clock.spend(0.01)
            script.library.gradients = True

    _assert_told_true(folder)
    told = [line["validation_s"] for line in lines(folder, "boundary")]
    assert told
    # ten batches and steps; the call that finds the loader through costs nothing here
    assert told == pytest.approx([10 * 0.11] * len(told))


@pytest.mark.parametrize("with_gradients", [False, True], ids=["no_grad", "gradients on"])
def test_validation_in_mid_epoch_is_no_part_of_a_step(
    script: Script, folder: Path, with_gradients: bool
) -> None:
    train = script.loader(batches=10_000)
    validation = script.loader("validation", batches=5, learns=False)
    with pytest.raises(StokerStop):
        for number, _ in enumerate(script.epoch(train)):
            script.step()
            if number % 25 == 24:
                script.library.gradients = with_gradients
                for _ in script.epoch(validation, load_s=0.2):
                    pass
                script.library.gradients = True

    _assert_told_true(folder)
    (closing,) = lines(folder, "end")
    told = closing["mid_validation"]
    assert len(told) > 5
    # every 25 batches, whichever leg they belong to: five batches that take 0.2 s each
    assert {later[0] - sooner[0] for sooner, later in pairwise(told)} == {25}
    assert [seconds for _, seconds in told] == pytest.approx([5 * 0.2] * len(told))


def test_the_loader_that_optimizer_steps_follow_trains_whatever_came_before(
    script: Script, folder: Path
) -> None:
    script.library.optimizer = False
    counted = script.loader("counted", batches=50)
    for _ in script.epoch(counted, load_s=0.5):
        pass  # with gradients on, and without an optimizer yet
    train = script.loader(batches=10_000)
    with pytest.raises(StokerStop):
        for _ in script.epoch(train):
            script.step()

    assert [line["dataset"] for line in lines(folder, "training-loader")] == ["counted", "train"]
    (file,) = folder.glob("trainer-*.jsonl")
    since = file.read_text().rpartition('{"kind":"training-loader"')[2]
    assert '"compute":[0.02,' in since


def test_an_optimizer_that_gathers_gradients_is_waited_for(script: Script, folder: Path) -> None:
    train = script.loader(batches=10_000)
    with pytest.raises(StokerStop):
        for number, _ in enumerate(script.epoch(train)):
            script.clock.spend(STEP_S)
            if number % 16 == 15:
                script.conductor.on_optimizer_step()

    assert len(lines(folder, "training-loader")) == 1
    counts = [n for line in lines(folder, "window") for n in line["per_step"]]
    assert set(counts) == {16}


def test_without_an_optimizer_a_loader_with_gradients_trains(script: Script, folder: Path) -> None:
    script.library.optimizer = False
    train = script.loader(batches=10_000)
    with pytest.raises(StokerStop):
        for _ in script.epoch(train):
            script.clock.spend(STEP_S)

    _assert_told_true(folder)


def test_a_data_set_that_can_t_be_asked_from_elsewhere_only_costs_its_legs(
    script: Script, folder: Path
) -> None:
    script.library.sides_fail = True
    train = script.loader(batches=10_000)
    with pytest.raises(StokerStop):
        for _ in script.epoch(train):
            script.step()

    _assert_told_true(folder)
    assert any("the data set wants a worker" in line["text"] for line in lines(folder, "note"))


def test_candidates_are_tried_in_the_loop_and_one_that_breaks_ends_only_its_own_trial(
    script: Script, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offers, "_handed_down", [lambda *_: None])
    script.library.sides = Offering(script.clock)
    train = script.loader(batches=10_000)
    with pytest.raises(StokerStop):
        for _ in script.epoch(train):
            script.step()

    _assert_told_true(folder)
    tried = [line for line in lines(folder, "window") if line["leg"] == "V"]
    assert {line["variant"] for line in tried} == {"allocator"}
    waits = [wait for line in tried for wait in line["wait"]]
    assert waits == pytest.approx([LOAD_S / 3] * len(waits))
    (broken,) = lines(folder, "untried")
    assert broken["name"] == "unordered"
    assert "a worker died" in broken["why"]


def test_without_candidates_handed_down_none_are_asked_for(script: Script, folder: Path) -> None:
    script.library.sides = Offering(script.clock)
    with pytest.raises(StokerStop):
        for _ in script.epoch(script.loader(batches=10_000)):
            script.step()

    assert set(script.library.sides.begun) <= {""}  # the trial of a number of workers alone
    assert not lines(folder, "candidate")


def test_optimizer_steps_without_batches_come_to_an_end(script: Script, folder: Path) -> None:
    train = script.loader(batches=60)
    for _ in script.epoch(train):
        script.step()
    with pytest.raises(StokerStop):
        for _ in range(10_000):
            script.step()

    assert lines(folder, "steps-alone")
    assert lines(folder, "end")[0]["reason"] == "script-ended"


def test_what_breaks_in_the_probe_ends_the_measuring_and_keeps_what_was_seen(
    script: Script, folder: Path
) -> None:
    train = script.loader(batches=10_000)
    with pytest.raises(StokerStop):
        for number, _ in enumerate(script.epoch(train)):
            script.step()
            if number == 30:
                script.conductor.give_up(ValueError("a mistake of ours"))

    (end,) = lines(folder, "end")
    assert end["reason"] == "probe-failed"
    assert mean(folder, "W", "compute") == pytest.approx(STEP_S)
    assert "a mistake of ours" in lines(folder, "note")[0]["text"]


def test_batches_that_cannot_be_kept_reach_the_script_as_they_are(
    script: Script, folder: Path
) -> None:
    def give(number: int) -> Iterator[int]:
        return iter([number])

    train = script.loader(batches=10_000)
    script.made = give
    seen: list[list[int]] = []
    with pytest.raises(StokerStop):
        for batch in script.epoch(train):
            seen.append(list(batch))
            script.step()

    assert seen == [[number] for number in range(len(seen))]
    assert {line["leg"] for line in lines(folder, "window")} == {"W", "R"}
    assert mean(folder, "R", "wait") == pytest.approx(LOAD_S)
    (end,) = lines(folder, "end")
    assert end["reason"] == "not-kept"
    assert "list_iterator" in lines(folder, "note")[0]["text"]


def test_memory_is_told_beside_the_batches_that_the_loader_itself_made(
    script: Script, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []  # whenever the workers are looked at: for each R window, and at the end

    def worker_pids(_: Any) -> list[int]:
        made.append(len(script.fetched))
        return []

    monkeypatch.setattr(script.library, "worker_pids", worker_pids)
    train = script.loader(batches=10_000)
    with pytest.raises(StokerStop):
        for _ in script.epoch(train):
            script.step()

    begun, ended = (
        [line["batches"] for line in lines(folder, "memory") if line["ended"] is which]
        for which in (False, True)
    )
    assert begun == made[:-1]
    assert len(ended) == len(begun)
    assert all(after > before for before, after in zip(begun, ended, strict=True))
    assert len(made) > 2
    assert train.batches > len(script.fetched)  # the others were kept ones


def test_a_script_that_ends_by_itself_leaves_its_last_window(script: Script, folder: Path) -> None:
    train = script.loader(batches=7)
    for _ in script.epoch(train):
        script.step()
    script.conductor.finish()
    script.conductor.finish()

    (end,) = lines(folder, "end")
    assert end["reason"] == "script-ended"
    (window,) = lines(folder, "window")
    assert (window["leg"], window["complete"]) == ("W", False)
    assert 0 < len(window["compute"]) < 7


def test_loaders_side_by_side_are_waited_for_and_replaced_together(
    script: Script, folder: Path
) -> None:
    first = script.loader("first", batches=10_000)
    train = script.loader("second", batches=10_000)
    fetched_in: dict[str, list[int]] = {}
    with pytest.raises(StokerStop):
        for _ in zip(script.epoch(first), script.epoch(train), strict=True):
            fetched_in.setdefault(script.conductor.leg or "", []).append(len(script.fetched))
            script.step()

    assert mean(folder, "R", "wait") == pytest.approx(2 * LOAD_S)
    assert mean(folder, "R", "compute") == pytest.approx(STEP_S)
    assert mean(folder, "D", "compute") == pytest.approx(STEP_S)
    steps, fetched = len(fetched_in["D"]), len(set(fetched_in["D"]))
    # Which window a step is in is known when the second loader is asked: one batch a window more.
    assert fetched < steps / 4


def test_a_validation_in_mid_epoch_goes_along_with_nothing(script: Script, folder: Path) -> None:
    train = script.loader(batches=10_000)
    other = script.loader("other", batches=3)
    with pytest.raises(StokerStop):
        for number, _ in enumerate(script.epoch(train)):
            if number % 20 == 10:
                list(script.epoch(other, load_s=0.0))
            script.step()

    _assert_told_true(folder)
    assert script.fetched.count("other") % 3 == 0
