"""A step that is launched for 12 ms and takes a device 0.1 ms a sample: python sized.py SAMPLES."""

import sys

import torch
from torch.utils.data import DataLoader, Dataset

from stoker import EmulatedAccelerator


class Rows(Dataset):
    def __len__(self):
        return int(sys.argv[1])

    def __getitem__(self, index):
        return torch.full((16,), float(index))


accelerator = EmulatedAccelerator(lambda _, rows: 0.0001 * len(rows), launch_s=0.012)
while True:
    for rows in DataLoader(Rows(), batch_size=16):
        accelerator.step(accelerator.to_device(rows)).item()
