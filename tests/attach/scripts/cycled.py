"""itertools.cycle over a loader: after the first epoch no batch is asked for any more."""

import itertools

from slow_numbers import Model, SlowNumbers
from torch.utils.data import DataLoader

model = Model()
loader = DataLoader(SlowNumbers(length=160), batch_size=4)
for x, y in itertools.islice(itertools.cycle(loader), 100_000):
    model.learn(x, y)
