"""A step on an emulated accelerator whose host polls: python emulated.py KIND HOST."""

import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset

from stoker import EmulatedAccelerator

KIND, HOST = sys.argv[1:]
LOAD_S = 0.030 if KIND == "starved" else 0.0002
STEP_S, LAUNCH_S = {"read-back": (0.020, 0.008), "launches": (0.002, 0.018)}.get(KIND, (0.020, 0.0))


class Batches(Dataset):
    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        time.sleep(LOAD_S)
        return torch.full((16,), float(index))


accelerator = EmulatedAccelerator(STEP_S, launch_s=LAUNCH_S, host=HOST)
for batch in DataLoader(Batches(), batch_size=1):
    loss = accelerator.step(accelerator.to_device(batch))
    if KIND != "fed":
        loss.item()
