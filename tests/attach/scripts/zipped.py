"""Two loaders side by side in every step, as for semi-supervised training."""

import sys

from slow_numbers import Model, SlowNumbers
from torch.utils.data import DataLoader

workers = int(sys.argv[1])
model = Model()
labelled = DataLoader(SlowNumbers(), batch_size=4, num_workers=workers)
unlabelled = DataLoader(SlowNumbers(), batch_size=4, num_workers=workers)
for _ in range(1000):
    for (x, y), (u, _) in zip(labelled, unlabelled, strict=True):
        model.learn(x + 0.1 * u, y)
