"""Two optimizers and two loaders in turn, as a GAN has them."""

from slow_numbers import Model, SlowNumbers
from torch.utils.data import DataLoader

critic, generator = Model(), Model()
real = DataLoader(SlowNumbers(), batch_size=4)
drawn = DataLoader(SlowNumbers(), batch_size=4)
for _ in range(1000):
    others = iter(drawn)
    for x, y in real:
        critic.learn(x, y)
        critic.learn(x, y)
        generator.learn(*next(others))
