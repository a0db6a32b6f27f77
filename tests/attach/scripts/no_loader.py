"""Batches from a function, as in nanoGPT; arguments: ms of a batch, ms of a step, where."""

import sys
import time

import torch
from torch import nn

LOAD_S, STEP_S, WHERE = float(sys.argv[1]) / 1e3, float(sys.argv[2]) / 1e3, sys.argv[3]


class Pause(nn.Module):
    def forward(self, x):
        time.sleep(STEP_S)
        return x


def get_batch():
    time.sleep(LOAD_S)
    return torch.randn(8, 16), torch.randn(8, 1)


if __name__ == "__main__":
    torch.set_num_threads(1)
    model = nn.Sequential(Pause(), nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = get_batch()
    for _ in range(5000):
        if WHERE == "before":
            x, y = get_batch()
        loss = nn.functional.mse_loss(model(x), y)
        if WHERE == "inside":
            x, y = get_batch()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
