"""A data set that holds one open archive, read in sequence by the training process itself."""

import tempfile
import time
import zipfile
from pathlib import Path

import numpy as np
import torch
from slow_numbers import Model
from torch.utils.data import DataLoader, Dataset

MEMBERS = 60


class Archived(Dataset):
    def __init__(self, path):
        self.archive = zipfile.ZipFile(path)

    def __len__(self):
        return 4000

    def __getitem__(self, index):
        stored = np.frombuffer(self.archive.read(f"{index % MEMBERS}.bin"), np.uint8)
        assert (stored == index % MEMBERS).all(), "another member's bytes"
        time.sleep(0.002)
        return torch.full((8,), float(stored[0])), index % 2


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "numbers.zip"
        with zipfile.ZipFile(path, "w") as archive:
            for number in range(MEMBERS):
                archive.writestr(f"{number}.bin", bytes([number]) * 20_000)
        model = Model()
        loader = DataLoader(Archived(path), batch_size=4)
        for _ in range(1000):
            for x, y in loader:
                model.learn(x, y)
