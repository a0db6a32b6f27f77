"""`stoker pack --from DIAGNOSIS` and `stoker run --apply pack=DIR`: what a script loads, packed."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec
import pytest

from stoker.pack import open_pack
from stoker.probe import capture
from stoker.probe.descendants import marked
from stoker.records.codec import to_json
from stoker.records.diagnosis import Diagnosis
from stoker.records.profile import LoaderFacts, Script
from tests.attach.examined import nothing_left
from tests.cli.test_predict import answered, stoker
from tests.golden.diagnoses import device_bound, inconclusive
from tests.golden.starving import cpu_saturated
from tests.unit.pack.conftest import photos

__all__ = ["photos"]

SCRIPT = Path(__file__).parents[1] / "attach" / "scripts" / "augmented.py"

# As the script makes it, of the photos of the fixture.
LOADER: dict[str, object] = {"dataset": "__main__.Photos", "samples": 21, "batch_size": 2}


def diagnosed(found: Diagnosis, folder: Path, *argv: object, **loader: object) -> Path:
    """The file of that diagnosis, as if it had been made of the script run in the folder."""
    path = folder / "diagnosis.json"
    digest = hashlib.sha256(SCRIPT.read_bytes()).hexdigest()
    script = Script(argv=(str(SCRIPT), *map(str, argv)), cwd=str(folder), sha256=digest)
    facts = found.profile.loader or LoaderFacts(workers=0, batch_size=2)
    facts = msgspec.structs.replace(facts, **{**LOADER, **loader})
    profile = msgspec.structs.replace(found.profile, loader=facts, script=script)
    path.write_text(to_json(msgspec.structs.replace(found, profile=profile, script=script)))
    return path


def stoker_run(*argv: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "stoker", "run", *map(str, argv)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


def test_what_a_script_loads_is_packed_and_serves_its_training(
    photos: Path, tmp_path: Path
) -> None:
    given = diagnosed(cpu_saturated(), tmp_path, photos)
    done = stoker(*("pack", "--from", str(given), "p", "--workers", "2", "--quiet"), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "p: 21 samples, 21 packed" in done.stdout
    assert "packed once: shrunk | in every epoch: flipped | there or on the device: floats" in (
        done.stdout
    )
    assert "16 samples compared with the script's own: the same bytes" in done.stdout
    assert "  of the loader over __main__.Photos, 21 samples, batches of 2\n" in done.stdout
    assert f"stoker run --apply pack=p {SCRIPT} {photos}" in done.stdout
    assert "+    loader = DataLoader(stoker.pack.in_place_of(photos, " in done.stdout
    assert not (tmp_path / "log.txt").exists()  # the script wrote it into the overlay
    pack = open_pack(tmp_path / "p")
    assert pack.source(3) == str(photos / "a" / "09.jpg")
    assert pack.value("image", 3).shape == (16, 16, 3)
    assert [int(pack.value("label", index)) for index in (0, 8, 20)] == [0, 1, 2]

    own = subprocess.run(
        [sys.executable, str(SCRIPT), str(photos)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    served = stoker_run(
        *("--diagnosis", given, "--apply", "pack=p", "--certify", 3, "--json", "j"),
        *(SCRIPT, photos),
        cwd=tmp_path,
    )
    assert served.stdout == own.stdout, served.stderr  # the flips, too
    account = json.loads((tmp_path / "j").read_text())["loaders"][0]
    assert (account["refused"], account["rolled_back"]) == ([], None)
    assert account["steps"]["remedied"] > 0
    assert "the same bytes but for batch[0], drawn at random" in account["certificate"]
    assert "samples come out of the pack, done anew: flipped, floats (16 whole" in served.stderr


@pytest.mark.full
@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_workers_read_the_pack(photos: Path, tmp_path: Path, start: str) -> None:
    given = diagnosed(cpu_saturated(), tmp_path, photos)
    answered("pack", "--from", str(given), str(tmp_path / "p"), "--workers", "1", "--quiet")
    served = stoker_run(
        *("--diagnosis", given, "--apply", "pack=p", "--json", "j"),
        *(SCRIPT, photos, "--workers", 2, "--start", start),
        cwd=tmp_path,
    )
    account = json.loads((tmp_path / "j").read_text())["loaders"][0]
    assert (account["refused"], account["rolled_back"], account["notes"]) == ([], None, [])
    assert account["steps"]["remedied"] > 0, served.stderr


@pytest.mark.full
def test_a_photo_that_was_changed_is_not_served(photos: Path, tmp_path: Path) -> None:
    given = diagnosed(cpu_saturated(), tmp_path, photos)
    answered("pack", "--from", str(given), str(tmp_path / "p"), "--workers", "1", "--quiet")
    shutil.copy(photos / "a" / "03.jpg", photos / "a" / "00.png")
    served = stoker_run(
        "--diagnosis", given, "--apply", "pack=p", "--json", "j", SCRIPT, photos, cwd=tmp_path
    )
    account = json.loads((tmp_path / "j").read_text())["loaders"][0]
    assert account["refused"][0]["reason"].endswith(
        "00.png, of which sample 0 was made, changed since it was packed"
    )
    assert served.returncode == 0


@pytest.mark.full
def test_a_script_that_fails_or_never_trains_is_told_of(photos: Path, tmp_path: Path) -> None:
    failing = stoker(
        *("pack", "--from", str(diagnosed(cpu_saturated(), tmp_path, tmp_path / "none"))),
        *(str(tmp_path / "p"), "--quiet"),
    )
    assert failing.returncode == 1
    assert "before its training loop was reached" in failing.stderr
    assert not (tmp_path / "p").exists()
    given = diagnosed(cpu_saturated(), tmp_path, photos, "--epochs", 0)
    done = stoker("pack", "--from", str(given), str(tmp_path / "p"), "--quiet")
    assert (
        "no training loader over __main__.Photos, 21 samples, batches of 2 was iterated"
        in done.stderr
    )


@pytest.mark.parametrize("kind", ["torch", pytest.param("stoker", marks=pytest.mark.full)])
def test_a_script_that_trains_on_another_loader_is_not_run_to_its_end(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    argv = (photos, "--epochs", 100_000, "--workers", 2, "--loader", kind)
    given = diagnosed(cpu_saturated(), tmp_path, *argv, dataset="__main__.Images")
    monkeypatch.setattr(capture, "PATIENCE_S", 0.5)
    with nothing_left() as folder:
        monkeypatch.setattr(tempfile, "tempdir", str(folder))
        done = stoker("pack", "--from", str(given), "p", "--quiet", cwd=tmp_path)
    assert done.returncode == 1 and not done.stdout
    assert "trains on other loaders, and none over __main__.Images, 21 samples" in done.stderr
    assert "__main__.Photos, 21 samples, batches of 2 (" in done.stderr
    assert "stoker doctor --json" in done.stderr
    assert not (tmp_path / "p").exists() and not (tmp_path / "log.txt").exists()


@pytest.mark.full
@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_of_stoker_is_met_too(photos: Path, tmp_path: Path, workers: int) -> None:
    argv = (photos, "--loader", "stoker", "--workers", workers)
    given = diagnosed(cpu_saturated(), tmp_path, *argv)
    done = stoker("pack", "--from", str(given), "p", "--workers", "1", "--quiet", cwd=tmp_path)
    assert "p: 21 samples, 21 packed" in done.stdout, done.stderr


@pytest.mark.full
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_stopped_run_leaves_no_process_and_goes_on(
    photos: Path, tmp_path: Path, number: signal.Signals
) -> None:
    given = diagnosed(cpu_saturated(), tmp_path, photos, "--slow-s", 0.05)
    options = ("--workers", "1", "--shard-size", "2kB", "--quiet", "--resume")
    command = [sys.executable, "-m", "stoker", "pack", "--from", str(given), "p", *options]
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        env={**os.environ, "TEST_MARK": str(tmp_path)},
        stderr=subprocess.PIPE,
        text=True,
    )
    journal = tmp_path / "p" / "journal.jsonl"
    while not (journal.exists() and len(journal.read_text().splitlines()) > 3):
        assert process.poll() is None, process.stderr and process.stderr.read()
        time.sleep(0.05)
    process.send_signal(number)
    _, errors = process.communicate(timeout=30)
    assert process.returncode in (128 + number, -number), errors
    end = time.monotonic() + 10
    while mine := marked("TEST_MARK", str(tmp_path)):
        assert time.monotonic() < end, mine
        time.sleep(0.1)
    done = stoker("pack", "--from", str(given), "p", *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "the same bytes" in done.stdout
    assert not journal.exists()


def told(*argv: object) -> str:
    """The error of a command that packs nothing."""
    done = stoker("pack", *map(str, argv))
    assert done.returncode != 0
    assert done.stdout == ""
    return done.stderr


def test_a_run_that_no_pack_helps_is_refused_with_its_numbers(tmp_path: Path) -> None:
    given = diagnosed(device_bound(), tmp_path)
    error = told("--from", given, tmp_path / "p")
    assert "do not pack: device-bound" in error
    assert "the device alone" in error
    assert "--force" in error
    assert not (tmp_path / "p").exists()


def test_what_is_not_known_yet_is_not_called_useless(tmp_path: Path) -> None:
    error = told("--from", diagnosed(inconclusive(), tmp_path), tmp_path / "p")
    assert "it is not known yet whether a pack would help" in error
    assert "stoker doctor --budget 90 --json" in error and "keeps up" not in error


def test_what_can_not_be_packed_is_refused(tmp_path: Path) -> None:
    found, target = cpu_saturated(), tmp_path / "p"
    assert "iterable data set" in told("--from", diagnosed(found, tmp_path, iterable=True), target)
    given = diagnosed(found, tmp_path, watched="batches")
    assert "not one over a DataLoader" in told("--from", given, target)
    given = diagnosed(found, tmp_path)
    text = given.read_text()
    given.write_text(text.replace(hashlib.sha256(SCRIPT.read_bytes()).hexdigest(), "0" * 64))
    assert "was changed since it was diagnosed" in told("--from", given, target)
    given.write_text(text.replace(str(SCRIPT), str(tmp_path / "gone.py")))
    assert "is not there any more" in told("--from", given, target)
    given.write_text(text.replace(f'"{SCRIPT}"', '"--", "torchrun"'))
    assert "is the diagnosis of a launcher" in told("--from", given, target)
    assert "cannot be read" in told("--from", tmp_path / "none.json", target)
    assert not target.exists()


def test_a_command_line_that_makes_no_sense_is_refused(tmp_path: Path) -> None:
    given = diagnosed(cpu_saturated(), tmp_path)
    assert "SRC and --from name two sources" in told("photos", "p", "--from", given)
    assert "DST is missing" in told("--from", given)
    assert "SRC is missing" in told()
    for option in ("--append", "--repack", "--plan", "--finalize"):
        assert f"{option} with --from" in told("--from", given, "p", option)
    assert f"next: remove p and make it anew: stoker pack --from {given} p" in (
        told("--from", given, "p", "--repack")
    )
    assert "--diagnosis with --from" in told("--from", given, "p", "--diagnosis", given)
    assert "--force without --from" in told("photos", "p", "--force")
    assert "--diagnosis without --plan" in told("photos", "p", "--diagnosis", given)


def test_a_pack_that_is_none_is_told_before_the_script_starts(tmp_path: Path) -> None:
    done = stoker("run", "--apply", f"pack={tmp_path}", str(SCRIPT))
    assert done.returncode == 1
    assert "is no pack" in done.stderr or "holds no pack" in done.stderr
