"""A loader made anew for every epoch; with an argument the data set, too, and of another length."""

import sys

from slow_numbers import Model, SlowNumbers
from torch.utils.data import DataLoader

model = Model()
numbers = SlowNumbers(length=80)
for epoch in range(1000):
    if len(sys.argv) > 1:
        numbers = SlowNumbers(length=80 + 4 * (epoch % 7))
    for x, y in DataLoader(numbers, batch_size=4, shuffle=True):
        model.learn(x, y)
