"""Processes found and ended: on a made-up /proc, and on children that only wait."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from stoker.probe.descendants import descendants, end_marked, end_tree, marked, send


def _process(proc: Path, pid: int, parent: int, environment: bytes = b"") -> None:
    folder = proc / str(pid)
    folder.mkdir()
    (folder / "stat").write_text(f"{pid} (a (name) b) S {parent} 1 1 0")
    (folder / "environ").write_bytes(environment)


def test_descendants_are_found_level_by_level_whatever_a_program_is_called(
    tmp_path: Path,
) -> None:
    for pid, parent in [(10, 1), (11, 10), (12, 10), (13, 11), (14, 1), (15, 13)]:
        _process(tmp_path, pid, parent)
    (tmp_path / "meminfo").write_text("")
    (tmp_path / "16").mkdir()  # went away between the listing and the reading

    assert descendants(10, proc=tmp_path) == [11, 12, 13, 15]
    assert descendants(15, proc=tmp_path) == []


def test_a_mark_is_a_whole_variable_and_not_a_part_of_one(tmp_path: Path) -> None:
    _process(tmp_path, 10, 1, b"A=1\0MARK=/session/x\0")
    _process(tmp_path, 11, 1, b"MARK=/session/xy\0")
    _process(tmp_path, 12, 1, b"OTHER_MARK=/session/x\0")
    (tmp_path / "13").mkdir()

    assert marked("MARK", "/session/x", proc=tmp_path) == [10]


def _waiting(mark: str, *, ignores_term: bool = False) -> subprocess.Popen[str]:
    """A process with a child, both of which wait until they are ended."""
    child = f"{sys.executable} -c 'import time; time.sleep(60)'"
    trap = "trap '' TERM;" if ignores_term else ""
    process = subprocess.Popen(
        ["bash", "-c", f"{trap} {child} & echo ready; wait; wait"],
        env={"STOKER_TEST_MARK": mark, "PATH": "/usr/bin:/bin"},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize("ignores_term", [False, True])
def test_a_tree_is_ended_even_where_it_ignores_being_asked(ignores_term: bool) -> None:
    with _waiting("tree", ignores_term=ignores_term) as process:
        below = descendants(process.pid)
        assert len(below) == 1
        end_tree(process.pid, after_s=0.2)
        assert process.wait(timeout=10) < 0
    assert descendants(process.pid) == []
    assert marked("STOKER_TEST_MARK", "tree") == []


def test_what_a_dead_parent_left_behind_is_found_by_its_mark_and_ended() -> None:
    with _waiting("orphan") as process:
        (orphan,) = descendants(process.pid)
        process.kill()
        process.wait()
        assert marked("STOKER_TEST_MARK", "orphan") == [orphan]

        end_marked("STOKER_TEST_MARK", "orphan", leave_s=0.0, after_s=5.0)

        assert marked("STOKER_TEST_MARK", "orphan") == []


def test_signals_to_processes_that_are_gone_do_nothing() -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait()
    send([process.pid], 15)
    end_tree(process.pid)
