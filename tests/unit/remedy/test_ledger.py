"""What the account of a run says at its end."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stoker.remedy.gain import Mean, Stretches
from stoker.remedy.ledger import Ledger, LoaderAccount, summary
from stoker.remedy.request import Request
from stoker.remedy.trial import Way


def account(*, steps: int = 40) -> LoaderAccount:
    """Of workers that make a step slower."""
    made = LoaderAccount("__main__.Photos", own_seen=[0.054] * 24)
    made.applied.append({"remedy": "overlap=2", "what": "2 workers", "data": "same order"})
    for _ in range(steps):
        made.step(Way.REMEDIED, 0.074)
    return made


def test_a_run_that_ends_in_the_trial_says_so() -> None:
    (line,) = summary(account())
    assert "(0.73x, 0.73–0.73)" in line
    assert "the run ended before the trial was over" in line


def test_what_was_saved_is_told_with_the_steps_that_it_is_judged_by() -> None:
    made = account()
    made.kept = True
    assert summary(made)[0].endswith("about 0.8 s lost, judged by 24 steps without")
    # By a diagnosis: the steps are not the run's.
    made.own_seen, made.baseline = (), Mean(0.054, 0.001, 100)
    assert "judged by" not in summary(made)[0]


def test_a_gain_is_told_with_its_interval() -> None:
    made = account()
    made.kept, made.own_seen = True, [0.14, 0.156] * 12
    assert "(2.00x, 1.95–2.05), 40 steps: about 3.0 s saved" in summary(made)[0]
    assert made.as_record()["gain"] == {
        "median": pytest.approx(2.0),
        "low": pytest.approx(1.955, abs=0.001),
        "high": pytest.approx(2.046, abs=0.001),
        "count": 24,
    }


def test_steps_of_the_diagnosis_have_its_interval() -> None:
    made = account()
    made.own_seen, made.baseline = (), Mean(0.148, 0.0148, 100)
    assert "148 ms, by the diagnosis → 74 ms (2.00x, 1.82–2.20)" in summary(made)[0]
    made.baseline = Mean(0.148, None, 0)
    assert "(2.00x, too few steps for an interval)" in summary(made)[0]
    assert made.as_record()["gain"]["low"] is None


def test_where_the_interval_holds_no_gain_none_is_told() -> None:
    made = account()
    made.kept, made.own_seen = True, [0.05, 0.1] * 12
    assert "40 steps: no gain could be told, judged by 24 steps without" in summary(made)[0]
    for way, seconds in ((Way.OWN, 5.0), (Way.REMEDIED, 1.0), (Way.REMEDIED, 1.0)):
        made.start(way, seconds)
    line = summary(made)[0]
    assert "no gain of a step could be told, about 4.0 s saved between epochs, judged by" in line


def test_rounds_of_workers_and_steps_of_several_batches_are_of_one_piece() -> None:
    made = account()
    made.own_seen, made.workers = [0.01, 0.01, 0.01, 0.37] * 6, {Way.OWN: 3, Way.REMEDIED: 4}
    made.cycle = 2
    assert made.own is not None and made.own.half_s == pytest.approx(0.0, abs=1e-9)


def test_an_account_without_steps_is_written_all_the_same() -> None:
    record = LoaderAccount("__main__.Photos").as_record()
    assert (record["gain"], record["own_step_s"], record["own_step_from"]) == (None, None, None)


def test_a_run_whose_trial_was_over_does_not() -> None:
    made = account()
    made.kept = True
    (line,) = summary(made)
    assert "trial" not in line


def test_what_was_compared_before_a_roll_back_is_told() -> None:
    made = account()
    made.rolled_back = "no gain"
    made.certificate = "8 batches compared"
    assert summary(made)[-1] == "data: 8 batches compared"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"rolled_back": "RuntimeError: no handle"}, "before they were rolled back"),
        ({"steps": {way: Stretches() for way in Way}}, "before the run ended"),
        ({"in_order": False, "rolled_back": "no gain"}, "batches come in any order"),
        ({"applied": []}, "no remedy was applied"),
    ],
)
def test_where_nothing_was_certified_it_says_why(changes: dict[str, Any], why: str) -> None:
    line = summary(replace(account(), wanted_batches=8, **changes))[-1]
    assert line.startswith("data: not certified, because ")
    assert why in line


def test_without_certify_nothing_is_said_of_it() -> None:
    assert "data:" not in "".join(summary(account()))


@pytest.mark.parametrize("kept", [True, False, None])
def test_the_change_of_the_code_is_shown_at_the_end_for_what_was_kept(
    kept: bool | None, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "train.py"
    script.write_text("loader = DataLoader(data)\n")
    ledger = Ledger(is_quiet=False, json_path=None, script=str(script))
    for _ in range(2):  # one line of the script may make several loaders
        made = LoaderAccount("__main__.Photos")
        assert ledger.open(made)
        assert not ledger.open(made)
        made.applied.append({"remedy": "overlap=2", "what": "2 workers", "data": "same order"})
        made.requests.append(Request("overlap", 2))
        made.kept = kept
    ledger.close()
    shown = capfd.readouterr().err.count("\n+loader = DataLoader(data, num_workers=2)\n")
    assert shown == (1 if kept else 0)


def test_a_launcher_without_loaders_leaves_the_account_of_its_ranks(tmp_path: Path) -> None:
    path = tmp_path / "account.json"
    for names in ((), ("Photos",), ()):
        ledger = Ledger(is_quiet=True, json_path=str(path), script=None)
        for name in names:
            ledger.open(LoaderAccount(name))
        ledger.close()
        assert path.exists()
    assert [one["loader"] for one in json.loads(path.read_text())["loaders"]] == ["Photos"]


def test_a_pipe_is_written_to_and_a_link_stays_one(tmp_path: Path) -> None:
    link, file = tmp_path / "link.json", tmp_path / "file.json"
    link.symlink_to(file)
    # As /dev/stderr where that is a pipe: a link to what no path leads to.
    reader, writer = os.pipe()
    try:
        for path in (Path(f"/proc/self/fd/{writer}"), link):
            ledger = Ledger(is_quiet=True, json_path=str(path), script=None)
            ledger.open(LoaderAccount("Photos"))
            ledger.close()
        told = os.read(reader, 65_536)
    finally:
        os.close(reader)
        os.close(writer)
    assert link.is_symlink()
    assert sorted(one.name for one in tmp_path.iterdir()) == ["file.json", "link.json"]
    assert json.loads(told) == json.loads(file.read_text())
