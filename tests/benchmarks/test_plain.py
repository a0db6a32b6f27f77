"""The benchmarks' own stopwatches, on scripts whose times are known."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from benchmarks.plain import ByEpoch, ByLength, run_s

ROOT = Path(__file__).parents[2]

TIMED = """
import argparse, time
parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=1)
parser.add_argument("--steps", type=int, default=0)
args = parser.parse_args()
time.sleep(0.2)  # start-up, which must drop out
for epoch in range(args.epochs):
    time.sleep(0.1 if epoch else 0.3)  # the first epoch is slower
    print("epoch", epoch)
time.sleep(0.01 * args.steps)
"""

LOADER = """
import time, torch
from torch.utils.data import DataLoader, TensorDataset
class Slow(TensorDataset):
    def __getitem__(self, index):
        time.sleep(0.02)
        return super().__getitem__(index)
for (batch,) in DataLoader(Slow(torch.arange(1000.0)), batch_size=4):
    time.sleep(0.01)
raise RuntimeError("the script was to end before this line")
"""


def test_epochs_are_timed_from_line_to_line(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(TIMED)
    timed = ByEpoch(steps=10, epochs=2).time(script)
    assert len(timed.stretches_s) == 2
    # 0.1 s an epoch of 10 steps, and sleeps only run late; the first epoch has 0.3 s
    assert 0.009 < timed.mean_s < 0.028


def test_what_two_lengths_have_in_common_drops_out(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(TIMED)
    timed = ByLength(short=5, long=45).time(script)
    assert 0.003 < timed.mean_s < 0.03  # 10 ms
    assert run_s([str(script)], tmp_path) > 0.2


def test_on_repeated_batches_a_step_is_free_of_its_loader(tmp_path: Path) -> None:
    script, out = tmp_path / "script.py", tmp_path / "steps.json"
    script.write_text(LOADER)
    runner = ROOT / "benchmarks" / "repeated_batch.py"
    subprocess.run([sys.executable, runner, out, "20", script], check=True, timeout=60)
    steps = json.loads(out.read_text())
    assert len(steps) == 20
    assert sorted(steps)[10] < 0.04  # 10 ms; with its loader a step takes 90 ms
