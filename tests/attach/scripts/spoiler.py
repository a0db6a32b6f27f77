"""Batches of many kinds, all of which the loop takes apart and writes into."""

import sys
from collections import namedtuple
from dataclasses import dataclass

import torch
from slow_numbers import Model, SlowNumbers
from torch.utils.data import DataLoader, default_collate

Pair = namedtuple("Pair", "x y")


@dataclass
class Record:
    x: torch.Tensor
    y: torch.Tensor


KINDS = {
    "tensor": (
        lambda x, y: torch.cat([x, y[:, None]], 1),
        lambda b: (b.mul_(2)[:, :8], b[:, 8] / 2),
    ),
    "tuple": (lambda x, y: (x, y), lambda b: (b[0].mul_(2), b[1])),
    "dict": (lambda x, y: {"x": x, "y": y}, lambda b: (b.pop("x").mul_(2), b.pop("y"))),
    "dataclass": (Record, lambda b: (b.x.mul_(2), b.__dict__.pop("y"))),
    "namedtuple": (Pair, lambda b: (b.x.mul_(2), b.y)),
    "nested": (lambda x, y: [{"in": (x,)}, y], lambda b: (b[0].pop("in")[0].mul_(2), b.pop())),
}
make, take = KINDS[sys.argv[1]]
model = Model()
loader = DataLoader(SlowNumbers(), batch_size=4, collate_fn=lambda s: make(*default_collate(s)))
for _ in range(1000):
    for batch in loader:
        x, y = take(batch)
        assert torch.equal(x % 4, y[:, None].expand(4, 8) * 2), "not a batch of the data set"
        model.learn(x / 1000, y.long())
