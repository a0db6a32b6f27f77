"""iter() and next(), begun again when the epoch is over."""

from slow_numbers import Model, SlowNumbers
from torch.utils.data import DataLoader

model = Model()
loader = DataLoader(SlowNumbers(length=120), batch_size=4)
iterator = iter(loader)
for _step in range(100_000):
    try:
        x, y = next(iterator)
    except StopIteration:
        iterator = iter(loader)
        x, y = next(iterator)
    model.learn(x, y)
