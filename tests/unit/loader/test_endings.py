"""However a loop is left, Python ends as ever: no thread is ended inside a library."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from stoker.loader import endings
from stoker.pack import write_arrays

PATIENCE_S = 60.0  # of a test that would hang else

# What loads is at work when Python begins to end, and comes to its end a little later.
_AT_WORK = """
import atexit, sys, threading, time
import stoker
import stoker.loader.endings

is_at_work, is_ending = threading.Event(), threading.Event()
atexit.register(is_ending.set)

def work(batch, **_):
    is_at_work.set()
    is_ending.wait()
    time.sleep(0.2)
    print("worked to the end", flush=True)
    return batch

def batches():
    yield 0
    yield work(1)
"""
_LOADER = """
loader = stoker.Loader(sys.argv[1], 4, array="numpy", augment=lambda batch, **_: (
    batch if batch["index"][0] == 0 else work(batch)))
"""
_LEFT = {
    "break": "for number in stoker.feed(batches()):\n    is_at_work.wait()\n    break",
    "an iterator is held": "held = iter(stoker.feed(batches()))\nnext(held)\nis_at_work.wait()",
    "an exception": _LOADER
    + "for batch in loader:\n    is_at_work.wait()\n    raise ValueError('of the step')",
    "the first batch only": "batch = next(iter(stoker.feed(batches())))",
}


def ended(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script, *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )


@pytest.mark.parametrize("way", _LEFT)
def test_python_waits_for_the_batch_that_is_being_made(way: str, tmp_path: Path) -> None:
    write_arrays(tmp_path / "packed", {"image": np.zeros((40, 4, 4, 3), np.uint8)})
    done = ended(_AT_WORK + _LEFT[way], str(tmp_path / "packed"))
    assert "worked to the end" in done.stdout
    if way == "an exception":
        assert done.returncode == 1 and done.stderr.rstrip().endswith("ValueError: of the step")
    else:
        assert done.returncode == 0 and done.stderr == ""


_IN_TORCH = """
import torch
import stoker

class Products:
    def __len__(self):
        return 400

    def __getitem__(self, index):
        return torch.rand(300, 300) @ torch.rand(300, 300)

for loop in (
    stoker.feed(Products()[0] for _ in range(400)),
    stoker.DataLoader(Products(), batch_size=10, num_workers=2, mode="threads"),
):
    for number, batch in enumerate(loop):
        if number == 3:
            break
"""


def test_a_thread_inside_torch_does_not_abort_python() -> None:
    done = ended(_IN_TORCH)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_thread_that_is_stuck_holds_python_for_a_moment_only() -> None:
    assert endings._WAIT_AT_EXIT_S <= 5.0
    script = """
import threading
from stoker.loader import endings

endings._WAIT_AT_EXIT_S = 0.05
for _ in range(2):
    endings.LoadingThread(threading.Event().wait, "stuck").start()
"""
    assert ended(script).returncode == 0
