"""A training that ends in the way of its first argument: early, or badly."""

import os
import signal
import sys

from slow_numbers import Model, SlowNumbers
from torch.utils.data import DataLoader

HOW = sys.argv[1]


class Numbers(SlowNumbers):
    def __getitem__(self, index):
        if index == 30 and HOW == "worker-raises":
            raise ValueError("sample 30 is broken")
        if index == 30 and HOW == "worker-exits":
            os._exit(7)
        if index == 30 and HOW == "worker-is-killed":
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__getitem__(index)


if __name__ == "__main__":
    lengths = {"three-steps": 12, "one-batch": 4, "empty": 0}
    numbers = Numbers(length=lengths.get(HOW, 4000))
    model = Model()
    loader = DataLoader(numbers, batch_size=4, num_workers=2 if "worker" in HOW else 0)
    for _ in range({"three-steps": 1, "no-loop": 0, "empty": 3}.get(HOW, 1000)):
        for step, (x, y) in enumerate(loader):
            if step == 7 and HOW == "raises":
                raise RuntimeError("step 7 is broken")
            if step == 90 and HOW == "exits":
                sys.exit(3)
            if step == 150 and HOW == "exits-at-once":
                os._exit(5)
            model.learn(x, y)
