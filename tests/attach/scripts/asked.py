"""Asks stdin how many epochs it is to train, and tells all that it was told."""

import sys

from slow_numbers import Model, SlowNumbers
from torch.utils.data import DataLoader

epochs, rest = sys.stdin.readline(), sys.stdin.read()
model = Model()
loader = DataLoader(SlowNumbers(length=400), batch_size=4)
for _ in range(int(epochs)):
    for x, y in loader:
        model.learn(x, y)
print("told", epochs + rest, end="")
