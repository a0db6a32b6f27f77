"""What the doctor's run has read of stdin the training reads again, from its beginning."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import IO, Any

import pytest

# Two readers, as the command has them; the second is this process itself, after an exec or not.
READERS = """
import os, subprocess, sys
from stoker.cli.stdin_twice import read_twice

first = "import sys; sys.stdout.write(sys.stdin.read(int(sys.argv[1])) + '|')"
with read_twice() as stdin:
    subprocess.run([sys.executable, "-c", first, sys.argv[1]], stdin=stdin, check=True)
print("first is done", file=sys.stderr, flush=True)
os.execv(sys.executable, [sys.executable, "-c", "import sys; print(sys.stdin.read(), end='')"])
"""
PATIENCE_S = 30


def readers(most: int, stdin: IO[Any] | int) -> subprocess.Popen[str]:
    """The first one reads so many characters at most; -1 stands for all."""
    return subprocess.Popen(
        [sys.executable, "-c", READERS, str(most)],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("most", [0, 3, -1])
@pytest.mark.parametrize("text", ["", "seventeen\n", "much\n" * 60_000], ids=len)
def test_a_pipe_is_read_twice(most: int, text: str) -> None:
    with readers(most, subprocess.PIPE) as process:
        out, err = process.communicate(text, timeout=PATIENCE_S)
    assert (process.returncode, err) == (0, "first is done\n")
    assert out == f"{text[:most] if most >= 0 else text}|{text}"


@pytest.mark.parametrize("most", [0, 3, -1])
def test_a_file_is_read_twice_from_where_it_stands(most: int, tmp_path: Path) -> None:
    (tmp_path / "input").write_text("seventeen\n")
    with (tmp_path / "input").open("rb", buffering=0) as file:
        file.seek(5)
        with readers(most, file) as process:
            out, _ = process.communicate(timeout=PATIENCE_S)
    assert out == f"{'teen' + chr(10) if most < 0 else 'teen'[:most]}|teen\n"


def test_a_pipe_that_goes_on_does_so_behind_what_was_read() -> None:
    with readers(5, subprocess.PIPE) as process:
        assert process.stdin is not None and process.stderr is not None
        process.stdin.write("first line\n" * 1000)
        process.stdin.flush()
        assert process.stderr.readline() == "first is done\n"
        process.stdin.write("last line\n")
        out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, err) == (0, "")
    assert out == "first|" + "first line\n" * 1000 + "last line\n"


def test_a_pipe_that_stays_open_and_empty_is_waited_for_by_nobody() -> None:
    with readers(0, subprocess.PIPE) as process:
        assert process.stdin is not None and process.stderr is not None
        assert process.stderr.readline() == "first is done\n"
        out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out, err) == (0, "|", "")
