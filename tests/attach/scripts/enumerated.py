"""enumerate() with a tqdm bar around it, and micro-batches: one optimizer step for three."""

import sys

from slow_numbers import Model, SlowNumbers
from torch.utils.data import DataLoader
from tqdm import tqdm

PER_STEP = int(sys.argv[1])
model = Model()
loader = DataLoader(SlowNumbers(), batch_size=4)
for _ in range(1000):
    for step, (x, y) in enumerate(tqdm(loader, mininterval=5)):
        model.loss(x, y).backward()
        if (step + 1) % PER_STEP == 0:
            model.update()
