"""Two workers with time to spare, but one batch in ten takes forty times as long as the others."""

import time

import torch
from torch.utils.data import DataLoader, Dataset


class Documents(Dataset):
    def __init__(self, count):
        generator = torch.Generator().manual_seed(7)
        self.seconds = torch.full((count,), 0.002)
        self.seconds[torch.randperm(count, generator=generator)[: count // 40]] = 0.3

    def __len__(self):
        return len(self.seconds)

    def __getitem__(self, index):
        time.sleep(float(self.seconds[index]))
        return torch.zeros(16)


for _batch in DataLoader(Documents(40_000), batch_size=4, shuffle=True, num_workers=2):
    time.sleep(0.05)
