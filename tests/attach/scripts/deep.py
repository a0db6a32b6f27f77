"""Two workers slower than the step, and a queue deep enough to hide it for a second."""

from slow_numbers import Model, SlowNumbers
from torch.utils.data import DataLoader

if __name__ == "__main__":
    model = Model()
    slow = SlowNumbers(sample_s=0.010)
    loader = DataLoader(slow, batch_size=4, shuffle=True, num_workers=2, prefetch_factor=24)
    for _ in range(1000):
        for x, y in loader:
            model.learn(x, y)
