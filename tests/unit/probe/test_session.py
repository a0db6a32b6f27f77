"""The session's files: whatever happens to a process, what it had written can be read."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from stoker.probe.session import SESSION_VARIABLE, LineFile, Session, read_lines


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "options.json").write_text('{"budget_s": 4}')
    return tmp_path


def test_lines_come_back_as_written(folder: Path) -> None:
    session = Session(folder)
    session.write("window", wait=[0.1, 0.2], leg="R")
    session.write("end", reason="budget")

    (file,) = folder.glob("trainer-*.jsonl")
    lines, _ = read_lines(file)

    assert session.options == {"budget_s": 4}
    assert file.name == f"trainer-{os.getpid()}.jsonl"
    assert lines == [
        {"kind": "window", "wait": [0.1, 0.2], "leg": "R"},
        {"kind": "end", "reason": "budget"},
    ]


def test_a_last_line_that_is_still_being_written_is_left_for_the_next_reading(
    tmp_path: Path,
) -> None:
    file = tmp_path / "trainer-1.jsonl"
    file.write_bytes(b'{"kind":"a"}\n{"kind":"b","x"')

    lines, offset = read_lines(file)
    assert [line["kind"] for line in lines] == ["a"]

    with file.open("ab") as rest:
        rest.write(b':1}\n{"kind":"c"}\n')
    lines, offset = read_lines(file, offset)
    assert [line["kind"] for line in lines] == ["b", "c"]
    assert read_lines(file, offset) == ([], offset)


def test_a_line_that_a_full_disk_cut_is_passed_over(tmp_path: Path) -> None:
    file = tmp_path / "trainer-1.jsonl"
    file.write_bytes(b'{"kind":"a"}\n{"kind":"b","x{"kind":"c"}\n{"kind":"d"}\n')

    assert [line["kind"] for line in read_lines(file)[0]] == ["a", "d"]


def test_a_session_that_is_over_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SESSION_VARIABLE, str(tmp_path / "gone"))
    assert Session.from_environment() is None
    monkeypatch.delenv(SESSION_VARIABLE)
    assert Session.from_environment() is None


def test_writing_fails_open_when_the_folder_is_gone(folder: Path) -> None:
    session = Session(folder)
    (folder / "options.json").unlink()
    folder.rmdir()

    session.write("end", reason="budget")  # raises nothing


def test_numbers_of_other_libraries_are_written_as_numbers(tmp_path: Path) -> None:
    LineFile(tmp_path / "lines").write({"size": np.int64(4), "share": np.float32(0.5), "odd": ...})

    (line,), _ = read_lines(tmp_path / "lines")

    assert line == {"size": 4, "share": 0.5, "odd": "Ellipsis"}


def test_a_failure_is_noted_with_its_place(folder: Path) -> None:
    session = Session(folder)
    try:
        raise ValueError("no such thing")
    except ValueError as error:
        session.write_failure("measuring", error)

    (file,) = folder.glob("trainer-*.jsonl")
    (line,), _ = read_lines(file)
    assert line["kind"] == "note"
    assert line["text"].startswith("measuring failed: ValueError: no such thing (test_session.py:")


def test_a_forked_child_writes_to_a_file_of_its_own(folder: Path) -> None:
    session = Session(folder)
    session.write("parent")
    child = os.fork()
    if child == 0:
        session.write("child")
        os._exit(0)
    os.waitpid(child, 0)

    kinds = {
        int(file.stem.partition("-")[2]): [line["kind"] for line in read_lines(file)[0]]
        for file in folder.glob("trainer-*.jsonl")
    }
    assert kinds == {os.getpid(): ["parent"], child: ["child"]}
