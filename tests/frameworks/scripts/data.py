"""The data and the pause that all four loops share, so that only the library differs."""

import argparse
import time

import torch
from torch import nn
from torch.utils.data import Dataset

VOCABULARY = 64
LENGTH = 16


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sample-ms", type=float, default=0.0, help="what making a sample takes")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=50)
    return parser.parse_args()


class Sequences(Dataset):
    """Token sequences with a class each; a sample takes its time."""

    def __init__(self, count, sample_ms):
        self.count, self.sample_ms = count, sample_ms

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        end = time.thread_time() + self.sample_ms / 1000
        while time.thread_time() < end:
            sum(range(100))
        generator = torch.Generator().manual_seed(index)
        tokens = torch.randint(0, VOCABULARY, (LENGTH,), generator=generator)
        return {"input_ids": tokens, "labels": tokens.sum() % 2}


class Pause(nn.Module):
    """Stands in for what an accelerator would take."""

    def __init__(self, seconds=0.030):
        super().__init__()
        self.seconds = seconds

    def forward(self, value):
        time.sleep(self.seconds)
        return value


def classifier():
    return nn.Sequential(
        nn.Embedding(VOCABULARY, 32), Pause(), nn.Flatten(), nn.Linear(32 * LENGTH, 2)
    )
