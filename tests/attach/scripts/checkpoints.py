"""Reads a line from stdin, prints to stdout, writes its checkpoint over an older one at the end."""

import sys
from pathlib import Path

import torch
from slow_numbers import Model, SlowNumbers
from torch.utils.data import DataLoader

run = sys.stdin.readline().strip()
print(f"run {run}")
model = Model()
loader = DataLoader(SlowNumbers(), batch_size=4)
try:
    for _ in range(1000):
        for x, y in loader:
            model.learn(x, y)
finally:
    torch.save(model.net.state_dict(), "model.pt")
    assert Path("model.pt").stat().st_size > 100
    Path("log.txt").write_text(run)
