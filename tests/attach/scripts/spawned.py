"""Training in a process of its own: arguments "spawn" (torch.multiprocessing) or "fork"."""

import multiprocessing
import sys

import torch.multiprocessing
from slow_numbers import Model, SlowNumbers
from torch.utils.data import DataLoader


def train(rank, epochs):
    model = Model()
    loader = DataLoader(SlowNumbers(), batch_size=4)
    for _ in range(epochs):
        for x, y in loader:
            model.learn(x, y)
    print(f"rank {rank} is through")


if __name__ == "__main__":
    if sys.argv[1] == "spawn":
        torch.multiprocessing.spawn(train, args=(1000,), nprocs=1)
    else:
        process = multiprocessing.get_context("fork").Process(target=train, args=(0, 1000))
        process.start()
        process.join()
