"""What `stoker run` starts, with which orders, and what it refuses before it starts anything."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from stoker.cli.main import main
from stoker.diagnose import diagnosis as diagnosing
from stoker.errors import NoLoopFound
from stoker.probe import attach
from stoker.records.codec import to_json
from stoker.records.diagnosis import Diagnosis, FixCode, Part
from stoker.records.profile import End, MemoryGrowth, Profile
from stoker.remedy.gain import Mean
from stoker.remedy.orders import Orders
from stoker.remedy.request import Request
from stoker.remedy.snippets import by_hand
from stoker.stats import Spread
from tests.golden import diagnoses

SOURCE = "loader = DataLoader(data, batch_size=8)\n"


class Became(BaseException):
    """Stands for the process going on as another."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        super().__init__(command)
        self.command = command
        self.orders = Orders.from_environment(environment)
        self.environment = environment


@pytest.fixture(autouse=True)
def script(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    def execvpe(_: str, command: list[str], environment: dict[str, str]) -> None:
        raise Became(command, environment)

    monkeypatch.setattr(os, "execvpe", execvpe)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(SOURCE)
    return tmp_path / "train.py"


def started(*argv: str) -> Became:
    with pytest.raises(Became) as became:
        main(["run", *argv])
    return became.value


def written(diagnosis: Diagnosis, script: Path, **changes: Any) -> str:
    """A file with the diagnosis, made out for the script."""
    digest = hashlib.sha256(script.read_bytes()).hexdigest()
    made = replace(diagnosis.script, argv=("train.py",), sha256=digest)
    (script.parent / "diagnosis.json").write_text(
        to_json(replace(diagnosis, script=replace(made, **changes)))
    )
    return "diagnosis.json"


def test_the_script_is_started_by_this_python_with_its_own_arguments() -> None:
    became = started("--apply", "overlap=2", "--quiet", "train.py", "--apply", "x")
    assert became.command == [sys.executable, "train.py", "--apply", "x"]
    assert became.orders is not None
    assert became.orders.requests == (Request("overlap", 2),)
    assert became.orders.is_quiet
    assert became.orders.script == str(Path("train.py").absolute())


def test_nothing_of_it_goes_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    started("--apply", "overlap=2", "train.py")
    out, err = capsys.readouterr()
    assert out == ""
    assert "num_workers" not in err  # nobody knows yet whether it will be kept


def test_a_diagnosis_tells_what_to_apply_and_what_a_step_took(script: Path) -> None:
    diagnosis = diagnoses.serial_loader()
    became = started("--diagnosis", written(diagnosis, script), "train.py")
    assert became.orders is not None
    assert became.orders.requests[0].name == "overlap"
    assert became.orders.baseline_s == diagnosis.step.real_s
    loader = diagnosis.profile.loader
    assert loader is not None
    assert became.orders.dataset == loader.dataset


def test_the_step_that_a_trial_begins_with_is_one_batch_without_the_starts_of_epochs(
    script: Path,
) -> None:
    diagnosis = diagnoses.serial_loader()
    loader = diagnosis.profile.loader
    assert loader is not None
    profile = replace(diagnosis.profile, loader=replace(loader, batches_per_step=2.0))
    ledger = tuple(
        replace(row, seconds=0.25 if row.part is Part.EPOCH_EDGE else 0.0)
        for row in diagnosis.ledger
    )
    step = replace(diagnosis.step, real_s=0.35)
    changed = replace(diagnosis, profile=profile, ledger=ledger, step=step)
    given = ("--apply", "overlap=2", "--diagnosis", written(changed, script))
    orders = started(*given, "train.py").orders
    assert orders is not None
    assert (orders.baseline_s, orders.edge_s) == (0.175, 0.125)
    assert orders.inside_s == pytest.approx(0.05)


def test_what_a_worker_was_seen_to_hold_is_told_where_the_run_had_some(script: Path) -> None:
    diagnosis = diagnoses.serial_loader()
    loader = diagnosis.profile.loader
    assert loader is not None and not loader.workers
    seen = MemoryGrowth(unique_bytes=6 * 10**9, bytes_per_batch=0.0, main_bytes=1, batches=9)

    def told(**changes: Any) -> int | None:
        facts = replace(loader, **changes)
        profile = replace(diagnosis.profile, loader=facts, memory=seen)
        given = written(replace(diagnosis, profile=profile), script)
        orders = started("--apply", "workers=4", "--diagnosis", given, "train.py").orders
        assert orders is not None
        return orders.worker_bytes

    assert told(workers=2, start_method="spawn") == 3 * 10**9
    assert told(workers=2, start_method="threads") is None
    assert told(workers=0) is None


def test_the_interval_of_the_step_that_was_diagnosed_goes_along(script: Path) -> None:
    diagnosis = diagnoses.serial_loader()
    real = Spread(0.2, 0.19, 0.23, 40)
    profile = replace(diagnosis.profile, real=real)
    changed = replace(diagnosis, profile=profile, step=replace(diagnosis.step, real_s=0.2))
    orders = started("--diagnosis", written(changed, script), "train.py").orders
    assert orders is not None
    assert orders.baseline == Mean(0.2, pytest.approx(0.02), 40)
    assert orders.pid == os.getpid()


def test_a_healthy_run_is_started_as_it_is(
    script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    became = started("--diagnosis", written(diagnoses.device_bound(), script), "train.py")
    assert became.orders is None
    assert became.environment == dict(os.environ)
    assert "nothing is applied" in capsys.readouterr().err


@pytest.mark.parametrize("is_given", [True, False])
def test_where_the_doctor_can_not_tell_it_says_so_and_what_to_do(
    is_given: bool,
    script: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    made = diagnoses.inconclusive()
    monkeypatch.setattr(attach, "examine", lambda *_, **__: made.profile)
    monkeypatch.setattr(diagnosing, "diagnose", lambda _: made)
    given = ("--diagnosis", written(made, script)) if is_given else ()
    assert started(*given, "train.py", "--epochs", "3").orders is None
    err = capsys.readouterr().err
    assert f"stoker run: inconclusive: {made.verdict.sentence}\n" in err
    again = "--budget 60 in place of 20"
    if is_given:
        again = "stoker doctor --budget 60 --json diagnosis.json train.py --epochs 3"
    assert f"stoker run: next: a longer look, {again}; or try one, --apply overlap\n" in err
    assert "stoker run: nothing is applied, the script runs as it is\n" in err


def test_a_dry_run_starts_nothing_and_prints_the_change(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["run", "--dry-run", "--apply", "overlap=2", "train.py"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("--- a/train.py\n+++ b/train.py\n")
    assert "would apply overlap=2" in err


@pytest.mark.parametrize("is_dry", [True, False])
def test_what_only_the_user_can_change_is_printed_as_code(
    is_dry: bool, script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ("--diagnosis", written(diagnoses.cpu_saturated(), script), "train.py")
    if is_dry:
        assert main(["run", "--dry-run", *given]) == 0
    else:
        started(*given)
    out, err = capsys.readouterr()
    code = by_hand(FixCode.PACK)
    assert "pack is yours to make" in err
    assert (code in out, code in err) == (is_dry, not is_dry)


def test_the_source_is_found_behind_a_launcher(capsys: pytest.CaptureFixture[str]) -> None:
    call = ("--", sys.executable, "-u", "train.py", "other.py")
    assert main(["run", "--dry-run", "--apply", "overlap=2", *call]) == 0
    assert capsys.readouterr().out.startswith("--- a/train.py\n+++ b/train.py\n")


@pytest.mark.parametrize("code", [129, 130, 131, 143])
def test_whoever_ends_the_doctors_run_has_no_training_begun(
    code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile = replace(diagnoses.serial_loader().profile, end=End.INTERRUPTED, exit_code=code)
    monkeypatch.setattr(attach, "examine", lambda *_, **__: profile)
    assert main(["run", "train.py"]) == code


def test_an_account_is_not_written_over_what_is_read(
    script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = written(diagnoses.serial_loader(), script)
    (script.parent / "link.json").symlink_to(given)
    calls = [
        ["run", "--apply", "overlap", "--json", "./train.py", "train.py"],
        ["run", "--json", "train.py", "--", sys.executable, "train.py"],
        ["run", "--diagnosis", given, "--json", "link.json", "train.py"],
        ["doctor", "--json", "train.py", "train.py"],
    ]
    for argv in calls:
        assert main(argv) == 2
        assert "would be written over" in capsys.readouterr().err
    assert script.read_text() == SOURCE
    assert started("--diagnosis", given, "--json", "other.json", "train.py").orders is not None


@pytest.mark.parametrize("end", [End.INTERRUPTED, End.CONVERGED, None])
def test_auto_examines_first_and_goes_by_what_it_finds(
    end: End | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def examine(*_: object, **__: object) -> Profile:
        if end is None:
            raise NoLoopFound("no training loop was seen")
        return replace(diagnoses.serial_loader().profile, end=end)

    monkeypatch.setattr(attach, "examine", examine)
    made = diagnoses.serial_loader()
    monkeypatch.setattr(diagnosing, "diagnose", lambda profile: replace(made, profile=profile))
    if end is End.INTERRUPTED:
        assert main(["run", "train.py"]) == 130
    elif end is None:
        assert started("train.py").orders is None
        assert "no training loop was seen" in capsys.readouterr().err
    else:
        orders = started("--quiet", "train.py").orders
        assert orders is not None
        assert orders.requests[0].name == "overlap"


def test_where_tmpdir_takes_no_file_the_training_begins_all_the_same(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    assert started("train.py").orders is None
    err = capsys.readouterr().err
    assert "stoker run: no folder for what is measured can be had: No such file" in err
    assert "nothing is applied" in err


def test_an_account_that_can_not_be_written_is_no_reason_not_to_train(
    script: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = written(diagnoses.device_bound(), script)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)  # a file can be made on a full disk, but not filled
    started("--json", "a.json", "--diagnosis", given, "train.py")
    assert "a.json cannot be written: No space left on device" in capsys.readouterr().err
    assert not Path("a.json").exists()


@pytest.mark.parametrize(
    ("argv", "code", "message"),
    [
        (["--apply", "wrokers=2", "train.py"], 2, "did you mean 'workers'?"),
        (["--apply", "workers=0,persistent-workers", "train.py"], 2, "needs workers"),
        (["--apply", "overlap", "gone.py"], 1, "the script 'gone.py' does not exist"),
        (["--apply", "overlap", "."], 1, "the script '.' is a directory"),
        (["--apply", "pack=gone", "train.py"], 1, "gone"),
        (["--apply", "pack=train.py", "train.py"], 1, "train.py"),
        (["--diagnosis", "gone.json", "train.py"], 1, "gone.json cannot be read"),
        (["--diagnosis", ".", "train.py"], 1, ". cannot be read: Is a directory"),
        (["--diagnosis", "train.py", "train.py"], 1, "train.py"),
        (["--apply", "overlap", "--json", "-", "train.py"], 2, "stdout belongs to the script"),
        (["--apply", "overlap", "--json", "no/such.json", "train.py"], 1, "cannot be written"),
        (["--apply", "overlap"], 2, "no script was named"),
        (["--trial", "0", "train.py"], 2, "not a time"),
        (["--apply", "auto,workers=2", "train.py"], 2, "auto chooses by itself"),
        (["--apply", "overlap=1,unordered", "train.py"], 2, "two workers or more"),
        (["--apply", "workers=2,unordered", "--certify", "4", "train.py"], 2, "in any order"),
        (["--dry-run", "--apply", "overlap", "--json", "a.json", "train.py"], 2, "starts none"),
        (["--dry-run", "--apply", "overlap", "--certify", "4", "train.py"], 2, "starts none"),
    ],
)
def test_what_can_not_be_is_refused_before_anything_starts(
    argv: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", *argv]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert "looked at:" in err
    assert "next:" in err


@pytest.mark.parametrize("argv", [["gone.py"], ["-m", "gone_module"]])
def test_what_is_not_there_is_asked_for_by_the_same_command(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", *argv]) == 1
    assert "next: stoker run " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"sha256": "0" * 64}, "train.py was changed since"),
        ({"sha256": "0" * 64, "argv": ("other.py",)}, "this is train.py"),
        ({"sha256": None, "argv": ("-m", "trainer")}, "this is train.py"),
    ],
)
def test_a_diagnosis_of_another_script_is_refused(
    changes: dict[str, Any], problem: str, script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = written(diagnoses.serial_loader(), script, **changes)
    assert main(["run", "--diagnosis", given, "train.py"]) == 1
    err = capsys.readouterr().err
    assert "is the diagnosis of another script" in err
    assert problem in err
    assert "next: stoker doctor --json diagnosis.json train.py" in err


def test_a_diagnosis_of_another_module_is_refused(
    script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = written(diagnoses.serial_loader(), script, sha256=None, argv=("-m", "one.train"))
    assert main(["run", "--diagnosis", given, "-m", "json.tool"]) == 1
    err = capsys.readouterr().err
    assert "this is -m json.tool" in err
    assert "next: stoker doctor --json diagnosis.json -m json.tool\n" in err


@pytest.fixture
def launched(tmp_path: Path) -> Iterator[Path]:
    """A package with a module that trains, and the path of its source."""
    source = tmp_path / "trainer" / "main.py"
    source.parent.mkdir()
    (source.parent / "__init__.py").touch()
    source.write_text(SOURCE)
    yield source


LAUNCHES = (
    ("--", sys.executable, "train.py", "--epochs", "3"),
    ("--", sys.executable, "-m", "trainer.main"),
    ("-m", "trainer.main"),
)


@pytest.mark.parametrize("call", LAUNCHES)
def test_what_a_launcher_or_a_module_runs_is_known_by_its_file(
    call: tuple[str, ...], script: Path, launched: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = written(diagnoses.serial_loader(), script, argv=call)
    assert started("--diagnosis", given, *call).orders is not None
    for source in (script, launched):
        source.write_text(SOURCE + "# changed\n")
    assert main(["run", "--diagnosis", given, *call]) == 1
    assert "was changed since" in capsys.readouterr().err


def test_another_script_behind_the_same_launcher_is_refused(
    script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (script.parent / "other.py").write_text(SOURCE + "# another\n")
    given = written(diagnoses.serial_loader(), script, argv=LAUNCHES[0])
    assert main(["run", "--diagnosis", given, "--", sys.executable, "other.py"]) == 1
    assert "this is other.py" in capsys.readouterr().err


def test_a_script_is_not_the_launcher_that_starts_it(
    script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = written(diagnoses.serial_loader(), script, argv=LAUNCHES[0])
    assert main(["run", "--diagnosis", given, "train.py"]) == 1
    assert "this is train.py" in capsys.readouterr().err


def test_without_a_file_that_is_seen_the_words_tell(
    script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = written(diagnoses.serial_loader(), script, argv=("--", "sh", "train"), sha256=None)
    assert main(["run", "--diagnosis", given, "--", "sh", "other"]) == 1
    assert "this is -- sh other" in capsys.readouterr().err


def test_a_run_with_nothing_applied_has_an_account_too(script: Path) -> None:
    account = script.parent / "account.json"
    account.write_text('{"loaders": ["of an earlier run"]}')
    given = written(diagnoses.device_bound(), script)
    started("--json", str(account), "--diagnosis", given, "train.py")
    assert json.loads(account.read_text())["loaders"] == []


def test_an_earlier_account_is_forgotten_and_a_device_is_left(script: Path) -> None:
    earlier, pipe = script.parent / "account.json", script.parent / "pipe"
    earlier.write_text("{}")
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    for path in (earlier, pipe):
        started("--apply", "overlap=2", "--json", str(path), "train.py")
    os.close(reader)
    assert not earlier.exists() and pipe.is_fifo()
