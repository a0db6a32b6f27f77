"""First a pass over the data with gradients on and an optimizer made; then training begins."""

from slow_numbers import Model, SlowNumbers
from torch.utils.data import DataLoader

numbers = SlowNumbers(length=1200, sample_s=0.0005)
total = sum(float(x.sum()) for x, _ in DataLoader(numbers, batch_size=8))
model = Model()
loader = DataLoader(SlowNumbers(), batch_size=4)
for _ in range(1000):
    for x, y in loader:
        model.learn(x, y)
