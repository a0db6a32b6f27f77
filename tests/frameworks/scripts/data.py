"""The data and the pause that all four loops share, so that only the library differs."""

import argparse
import hashlib
import time
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import Dataset, get_worker_info

VOCABULARY = 64
LENGTH = 16


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sample-ms", type=float, default=0.0, help="what making a sample takes")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--samples", type=int, default=800)
    parser.add_argument("--persistent", action="store_true", help="the workers live on")
    parser.add_argument("--folder", help="files of tokens, one a sample")
    parser.add_argument("--fails-at", type=int, help="this sample can't be made")
    parser.add_argument("--fails-in-workers", action="store_true")
    torch.manual_seed(0)  # whoever trains twice wants to see the same
    # The model stands for one on an accelerator: two threads of it on two cores would wait for each
    # other at each turn of a worker (9 % of a step was seen), which is no matter of the library's.
    torch.set_num_threads(1)
    return parser.parse_args()


def training_set(args):
    return Sequences(
        args.samples, args.sample_ms, args.folder, args.fails_at, args.fails_in_workers
    )


def packable():
    """What the tests pack."""
    return Sequences(96, 0.0)


def digest(model):
    """The same for the same weights alone, to the last bit."""
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(parameter.detach().numpy().tobytes())
    return digest.hexdigest()


class Sequences(Dataset):
    """Token sequences with a class each; a sample takes its time."""

    def __init__(self, count, sample_ms, folder=None, fails_at=None, fails_in_workers=False):
        self.count, self.sample_ms, self.folder = count, sample_ms, folder
        self.fails_at, self.fails_in_workers = fails_at, fails_in_workers

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if index == self.fails_at:
            raise ValueError(f"sample {index} is broken")
        if self.fails_in_workers and get_worker_info() is not None:
            raise OSError("this handle does not work in a worker")
        end = time.thread_time() + self.sample_ms / 1000
        while time.thread_time() < end:
            sum(range(100))
        if self.folder is not None:
            read = bytearray(Path(self.folder, str(index)).read_bytes())
            tokens = torch.frombuffer(read, dtype=torch.int64)
        else:
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
