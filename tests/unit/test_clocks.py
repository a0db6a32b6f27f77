"""What measures in a script reads the machine's clocks, whatever that does to Python's."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import stoker

SRC = Path(stoker.__file__).parent
SCRIPTS = Path(__file__).parents[1] / "attach" / "scripts"
# Whose code runs in the process of a script, and measures it or decides when to end.
ROOMS = ("probe", "remedy", "split", "emulate")
MODULES = [SRC / "spans.py", *(path for room in ROOMS for path in (SRC / room).rglob("*.py"))]
CLOCKS = ("time", "monotonic", "perf_counter", "process_time", "thread_time", "clock_gettime")

_HELD = f"""
import sys

sys.path.append({str(SCRIPTS)!r})
from stoker import clocks
from stoker.probe.process import CpuMeter
from stoker.spans import SystemClock
import held_still

held_still.hold()
import time
from time import perf_counter

names = {{name for name, value in vars(time).items() if value is perf_counter}}
assert names == {{"perf_counter"}} and perf_counter() == time.perf_counter()
for clock in (clocks.wall_s, clocks.wall_ns, SystemClock.wall_ns, CpuMeter(())._clock):
    before = clock()
    while clock() == before:  # a clock that is held still never ends
        pass
"""


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SRC)))
def test_nothing_that_measures_in_a_script_asks_pythons_clocks_by_their_names(path: Path) -> None:
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "time":
            found.append(node.lineno)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            is_clock = node.attr.removesuffix("_ns") in CLOCKS
            found += [node.lineno] if node.value.id == "time" and is_clock else []
    assert found == [], "take the one of stoker.clocks"


def test_clocks_go_on_where_pythons_are_held_still() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", _HELD], capture_output=True, text=True, timeout=20, check=False
    )
    assert ended.returncode == 0, ended.stderr
