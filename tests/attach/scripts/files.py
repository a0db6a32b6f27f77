"""A data set of real files; arguments: their folder, milliseconds of waiting a sample, stream."""

import sys
import time
from pathlib import Path

import torch
from slow_numbers import Model
from torch.utils.data import DataLoader, Dataset, IterableDataset

FOLDER, WAIT_S = Path(sys.argv[1]), float(sys.argv[2]) / 1000


def read(path):
    data = path.read_bytes()
    if WAIT_S:
        time.sleep(WAIT_S)
    return torch.full((8,), float(len(data))), data[0] % 2


class Files(Dataset):
    paths = sorted(FOLDER.iterdir())

    def __len__(self):
        return 4000

    def __getitem__(self, index):
        return read(self.paths[index % len(self.paths)])


class Stream(IterableDataset):
    def __iter__(self):
        for _ in range(100):
            yield from map(read, Files.paths)


if __name__ == "__main__":
    model = Model()
    samples = Stream() if "stream" in sys.argv else Files()
    for _ in range(1000):
        for x, y in DataLoader(samples, batch_size=4):
            model.learn(x, y)
