"""The data set of the scripts beside it: a sample takes a known time."""

import time

import torch
from torch.utils.data import Dataset, IterableDataset

# With more threads than free cores a step of this size takes anything from 0.3 to 30 ms.
torch.set_num_threads(1)


class SlowNumbers(Dataset):
    def __init__(self, length=4000, sample_s=0.002):
        self.length = length
        self.sample_s = sample_s

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        time.sleep(self.sample_s)
        return torch.full((8,), float(index)), index % 2


class SlowStream(IterableDataset):
    def __init__(self, length=4000, sample_s=0.002):
        self.samples = SlowNumbers(length, sample_s)

    def __iter__(self):
        for index in range(len(self.samples)):
            yield self.samples[index]


class Model:
    """A model that trains in a known time."""

    def __init__(self, step_s=0.006):
        self.net = torch.nn.Linear(8, 2)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.01)
        self.step_s = step_s

    def loss(self, x, y):
        time.sleep(self.step_s)
        return torch.nn.functional.cross_entropy(self.net(x), y)

    def learn(self, x, y):
        self.loss(x, y).backward()
        self.update()

    def update(self):
        self.optimizer.step()
        self.optimizer.zero_grad()
