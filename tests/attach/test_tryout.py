"""Candidates tried in a real script's loop; what is left of them, and what an interrupt leaves."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest

from stoker.records.profile import End, Profile
from tests.attach.examined import answer, doctor, script, watch

pytestmark = pytest.mark.usefixtures("in_folder")


def _gain(profile: Profile, name: str) -> float:
    (found,) = [one for one in profile.candidates if one.name == name]
    assert found.speedup is not None, found.skipped
    return found.speedup.median


def test_a_serial_loader_is_tried_with_workers_and_what_can_t_be_is_told() -> None:
    profile = watch("plain_for.py", 0, budget_s=2.0, tries=True)

    assert profile.end in (End.CONVERGED, End.BUDGET)
    # Four samples of 2 ms that sleep beside a step of 6 ms that sleeps: at least 14 in place of 8.
    assert any(one.name.startswith("overlap=") for one in profile.candidates)
    tried = [one for one in profile.candidates if one.speedup is not None]
    assert tried, [(one.name, one.skipped) for one in profile.candidates]
    assert max(_gain(profile, one.name) for one in tried) > 1.2
    reasons = {one.name: one.skipped for one in profile.candidates if one.skipped}
    assert "no __getitems__" in reasons["batched-fetch"]


@pytest.mark.full
def test_ctrl_c_in_the_midst_of_the_trials_tells_what_was_measured_until_then(
    in_folder: Path,
) -> None:
    argv = ("--try", "--budget", "8", "--json", "d.json", script("plain_for.py"), "0")
    with doctor(*argv) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "a trial: " in line and "as it is" not in line:
                break
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        _, rest = process.communicate(timeout=60)
    assert process.returncode == 130, rest
    report = json.loads((in_folder / "d.json").read_text())
    assert report["profile"]["end"] == "interrupted"
    assert report["tryout"]["rows"]
    skipped = [row["skipped"] for row in report["tryout"]["rows"]]
    assert any("ended before" in why or "no __getitems__" in why for why in skipped)


@pytest.mark.full
def test_an_iterable_data_set_gives_reasons_and_no_trial() -> None:
    code, stdout, _ = answer("--try", "--budget", "3", script("stream.py"), "0", timeout_s=90)
    assert code in (0, 3)
    assert "Nothing could be tried" in stdout
    assert "an iterable data set has no order" in stdout
