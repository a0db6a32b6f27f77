"""Swallows everything in its loop, and goes on; with "exit" it leaves with a code of its own."""

import sys

from slow_numbers import Model, SlowNumbers
from torch.utils.data import DataLoader

model = Model()
loader = DataLoader(SlowNumbers(), batch_size=4)
print("the loop begins", flush=False)
while True:
    try:
        for x, y in loader:
            model.learn(x, y)
    except:  # noqa: E722 - scripts do
        if "exit" in sys.argv:
            sys.exit(1)
