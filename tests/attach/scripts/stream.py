"""An iterable data set, with or without workers."""

import sys

from slow_numbers import Model, SlowStream
from torch.utils.data import DataLoader

model = Model()
loader = DataLoader(SlowStream(), batch_size=4, num_workers=int(sys.argv[1]))
for _ in range(1000):
    for x, y in loader:
        model.learn(x, y)
