"""What the doctor writes where, and how it exits, with a measurement that is given."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from msgspec.structs import replace

from stoker.cli.main import main
from stoker.errors import NoLoopFound
from stoker.probe import attach
from stoker.records.codec import from_json
from stoker.records.diagnosis import SCHEMA, Diagnosis
from stoker.records.profile import End, Profile
from tests.golden import diagnoses

Examined = list[tuple[attach.Target, attach.Options]]
Doctor = Callable[..., Examined]


@pytest.fixture
def doctor(monkeypatch: pytest.MonkeyPatch) -> Doctor:
    """Makes every examination end with the given diagnosis; returns what was asked for."""

    def give(diagnosis: Diagnosis | Exception) -> Examined:
        asked: Examined = []

        def examine(
            target: attach.Target, options: attach.Options, *, on_progress: object
        ) -> Profile:
            asked.append((target, options))
            if isinstance(diagnosis, Exception):
                raise diagnosis
            if callable(on_progress):
                on_progress(attach.Progress("R", "the loop as it is", 0.5, 3.0))
            return diagnosis.profile

        module = ModuleType("stoker.diagnose.diagnosis")
        module.diagnose = lambda profile, zoo: diagnosis  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "stoker.diagnose.diagnosis", module)
        monkeypatch.setattr(attach, "examine", examine)
        return asked

    return give


def test_the_report_goes_to_stdout_and_the_talk_to_stderr(
    doctor: Doctor, capsys: pytest.CaptureFixture[str]
) -> None:
    doctor(diagnoses.serial_loader())

    assert main(["doctor", "train.py"]) == 0

    out, err = capsys.readouterr()
    assert out.startswith("stoker doctor  train_images.py")
    assert "serial-loader" in out
    assert err == "stoker: 50% leg R: the loop as it is, 3 s left\n"


def test_script_and_options_arrive_as_they_were_given(doctor: Doctor) -> None:
    asked = doctor(diagnoses.serial_loader())

    main(["doctor", "--budget", "9", "--steps", "40", "--allow-writes", "train.py", "--steps", "3"])

    target, options = asked[0]
    assert target == attach.Target(kind="script", argv=("train.py", "--steps", "3"))
    assert options == attach.Options(budget_s=9.0, steps=40, allow_writes=True)


def test_json_to_a_file_comes_with_the_report(
    doctor: Doctor, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    doctor(diagnoses.serial_loader())
    path = tmp_path / "d.json"

    assert main(["doctor", "--json", str(path), "train.py"]) == 0

    out, err = capsys.readouterr()
    assert "serial-loader" in out
    assert f"diagnosis written to {path}" in err
    written = from_json(path.read_bytes(), Diagnosis, source="d.json", schema=SCHEMA)
    assert written == diagnoses.serial_loader()


def test_json_to_stdout_takes_the_place_of_the_report(
    doctor: Doctor, capsys: pytest.CaptureFixture[str]
) -> None:
    doctor(diagnoses.serial_loader())

    assert main(["doctor", "--json", "-", "train.py"]) == 0

    text = capsys.readouterr().out
    assert from_json(text, Diagnosis, source="stdout", schema=SCHEMA) == diagnoses.serial_loader()


def test_quiet_with_a_file_says_nothing_at_all(
    doctor: Doctor, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    doctor(diagnoses.serial_loader())

    assert main(["doctor", "--quiet", "--json", str(tmp_path / "d.json"), "train.py"]) == 0

    assert capsys.readouterr() == ("", "")
    assert (tmp_path / "d.json").exists()


def test_quiet_without_a_file_still_answers(
    doctor: Doctor, capsys: pytest.CaptureFixture[str]
) -> None:
    doctor(diagnoses.serial_loader())

    main(["doctor", "--quiet", "train.py"])

    out, err = capsys.readouterr()
    assert "serial-loader" in out
    assert err == ""


def test_quiet_does_not_silence_an_error(
    doctor: Doctor, capsys: pytest.CaptureFixture[str]
) -> None:
    doctor(NoLoopFound("no loop", looked_at="the script", run_next="stoker.watch", exit_code=1))

    assert main(["doctor", "--quiet", "train.py"]) == 1

    assert capsys.readouterr().err == (
        "error: no loop\n  looked at: the script\n  next: stoker.watch\n"
    )


@pytest.mark.parametrize(
    ("diagnosis", "code"),
    [
        (diagnoses.serial_loader(), 0),
        (diagnoses.device_bound(), 0),
        (diagnoses.inconclusive(), 3),
        (diagnoses.interrupted(), 130),
        (diagnoses.crashed(), 7),
    ],
)
def test_the_exit_code_says_how_it_ended_and_not_how_bad_it_is(
    doctor: Doctor, diagnosis: Diagnosis, code: int
) -> None:
    doctor(diagnosis)

    assert main(["doctor", "--quiet", "train.py"]) == code


@pytest.mark.parametrize(("script_code", "code"), [(-9, 137), (0, 1), (2, 2)])
def test_a_crash_passes_the_code_of_the_script_on_as_a_shell_would(
    doctor: Doctor, script_code: int, code: int
) -> None:
    seen = diagnoses.serial_loader()
    profile = replace(seen.profile, end=End.CRASHED, exit_code=script_code)
    doctor(replace(seen, profile=profile))

    assert main(["doctor", "--quiet", "train.py"]) == code


def test_what_was_seen_before_ctrl_c_is_shown_and_written(
    doctor: Doctor, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    doctor(diagnoses.interrupted())

    assert main(["doctor", "--json", str(tmp_path / "d.json"), "train.py"]) == 130

    assert "Interrupted by Ctrl-C" in capsys.readouterr().out
    assert (tmp_path / "d.json").exists()


def test_a_failed_gate_exits_with_1_and_one_line(
    doctor: Doctor, capsys: pytest.CaptureFixture[str]
) -> None:
    doctor(diagnoses.serial_loader())

    assert main(["doctor", "--quiet", "--fail-on", "starved>10%,au<1%", "train.py"]) == 1

    assert capsys.readouterr().err == "gate failed: starved>10%: starved is 58.2%\n"


def test_a_gate_that_holds_back_changes_nothing(doctor: Doctor) -> None:
    doctor(diagnoses.device_bound())

    assert main(["doctor", "--quiet", "--fail-on", "starved>10%", "train.py"]) == 0


def test_a_passed_gate_does_not_turn_an_inconclusive_run_into_an_answer(doctor: Doctor) -> None:
    doctor(diagnoses.inconclusive())

    assert main(["doctor", "--quiet", "--fail-on", "starved>90%", "train.py"]) == 3


@pytest.mark.parametrize(
    "options", [["--fail-on", "nonsense"], ["--json", "/nowhere/d.json"], ["--budget", "0"]]
)
def test_what_makes_no_sense_is_refused_before_anything_runs(
    doctor: Doctor, options: list[str]
) -> None:
    asked = doctor(diagnoses.serial_loader())

    assert main(["doctor", *options, "train.py"]) in (1, 2)
    assert asked == []


def test_a_disk_that_fills_up_while_measuring_costs_the_file_but_not_the_report(
    doctor: Doctor, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder = tmp_path / "results"
    folder.mkdir()
    seen = diagnoses.serial_loader()
    doctor(seen)

    def vanish(*_: object) -> Diagnosis:
        folder.rmdir()
        return seen

    sys.modules["stoker.diagnose.diagnosis"].diagnose = vanish  # type: ignore[attr-defined]

    assert main(["doctor", "--json", str(folder / "d.json"), "train.py"]) == 1

    out, err = capsys.readouterr()
    assert "serial-loader" in out
    assert "cannot be written" in err
    assert "diagnosis written" not in err


def test_ctrl_c_before_anything_was_seen_is_one_line(
    doctor: Doctor, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    doctor(diagnoses.serial_loader())

    def interrupt(*_: object, **__: object) -> Profile:
        raise KeyboardInterrupt

    monkeypatch.setattr(attach, "examine", interrupt)

    assert main(["doctor", "train.py"]) == 130
    assert capsys.readouterr() == ("", "interrupted\n")


def test_trials_are_made_when_they_are_asked_for(doctor: Doctor) -> None:
    asked = doctor(diagnoses.tried())
    main(["doctor", "--try", "train.py", "--try"])
    main(["doctor", "train.py", "--try"])
    assert [options.tries for _, options in asked] == [True, False]
