"""A script for which no time passes, from before it imports torch to its end."""

import held_still

held_still.hold()

import torch  # noqa: E402
from slow_numbers import Model, SlowNumbers  # noqa: E402

model = Model()
for x, y in torch.utils.data.DataLoader(SlowNumbers(3000), batch_size=4):
    model.learn(x, y)
