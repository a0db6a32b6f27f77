"""JSON appears whole or not at all, and a path that can't be written is known before."""

from __future__ import annotations

import io
import os
import stat
import sys
from pathlib import Path

import pytest

from stoker.cli.files import JsonOutput, read_diagnosis
from stoker.errors import InputError
from stoker.records.codec import to_json
from tests.golden.diagnoses import serial_loader


def test_a_file_is_written_and_nothing_else_left_beside_it(tmp_path: Path) -> None:
    output = JsonOutput.checked(str(tmp_path / "d.json"))

    output.write("{}\n")

    assert [path.name for path in tmp_path.iterdir()] == ["d.json"]
    assert (tmp_path / "d.json").read_text() == "{}\n"


def test_making_sure_that_a_path_can_be_written_leaves_nothing(tmp_path: Path) -> None:
    JsonOutput.checked(str(tmp_path / "d.json"))

    assert list(tmp_path.iterdir()) == []


def test_making_sure_leaves_an_existing_file_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "d.json").write_text("old")

    JsonOutput.checked(str(tmp_path / "d.json"))

    assert (tmp_path / "d.json").read_text() == "old"


def test_an_existing_file_is_replaced_and_keeps_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "d.json"
    path.write_text("old")
    path.chmod(0o640)

    JsonOutput.checked(str(path)).write("new")

    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_write_that_fails_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "d.json"
    path.write_text("old")
    output = JsonOutput.checked(str(path))

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)

    with pytest.raises(InputError, match="No space left on device"):
        output.write("new")
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["d.json"]


def test_a_symbolic_link_is_written_through(tmp_path: Path) -> None:
    (tmp_path / "real.json").write_text("old")
    (tmp_path / "link.json").symlink_to("real.json")

    JsonOutput.checked(str(tmp_path / "link.json")).write("new")

    assert (tmp_path / "link.json").is_symlink()
    assert (tmp_path / "real.json").read_text() == "new"


def test_a_device_is_written_to_and_never_replaced() -> None:
    JsonOutput.checked("/dev/null").write("{}")

    assert Path("/dev/null").is_char_device()


@pytest.mark.parametrize(
    ("given", "why"),
    [("missing/d.json", "No such file"), (".", "Is a directory"), ("file/d.json", "Not a dir")],
)
def test_a_path_that_cannot_be_written_is_refused_before(
    tmp_path: Path, given: str, why: str
) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(InputError) as refusal:
        JsonOutput.checked(str(tmp_path / given))

    assert f"cannot be written: {why}" in refusal.value.happened
    assert refusal.value.run_next


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere; run as a user to see it")
def test_a_write_protected_file_is_refused_before(tmp_path: Path) -> None:
    (tmp_path / "d.json").touch(0o400)

    with pytest.raises(InputError, match="Permission denied"):
        JsonOutput.checked(str(tmp_path / "d.json"))


def test_a_dash_is_stdout(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    output = JsonOutput.checked("-")

    output.write('{"sentence": "µ"}\n')

    assert output.is_stdout
    assert capsysbinary.readouterr().out == '{"sentence": "µ"}\n'.encode()


def test_a_diagnosis_is_read_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "d.json").write_text(to_json(serial_loader()))

    assert read_diagnosis(str(tmp_path / "d.json")) == serial_loader()


def test_a_dash_reads_a_diagnosis_from_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO(to_json(serial_loader()).encode())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(raw))

    assert read_diagnosis("-") == serial_loader()


@pytest.mark.parametrize(("given", "why"), [("missing.json", "No such file"), ("", "Is a dir")])
def test_a_file_that_cannot_be_read_is_refused_with_its_whole_path(
    tmp_path: Path, given: str, why: str
) -> None:
    path = tmp_path / given

    with pytest.raises(InputError) as refusal:
        read_diagnosis(str(path))

    assert f"cannot be read: {why}" in refusal.value.happened
    assert refusal.value.looked_at == str(path)
