"""Trains with torch.distributed; the arguments say which ranks load slowly or die.

python -m torch.distributed.run --nproc_per_node 2 ranks.py --slow 1
"""

import argparse
import os
import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Samples(Dataset):
    def __init__(self, seconds):
        self.seconds = seconds

    def __len__(self):
        return 8 * 400

    def __getitem__(self, index):
        time.sleep(self.seconds)
        return torch.full((16,), float(index % 7))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--slow", type=int, nargs="*", default=[])
    parser.add_argument("--sample-ms", type=float, default=4.0)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--dies", type=int)
    parser.add_argument("--epochs", type=int, default=20)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.set_num_threads(1)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    samples = Samples(args.sample_ms / 1000 if rank in args.slow else 0.0)
    sampler = DistributedSampler(samples)
    loader = DataLoader(samples, batch_size=8, sampler=sampler, num_workers=args.workers)
    steps = 0
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for batch in loader:
            optimizer.zero_grad()
            loss = model(batch).square().mean()
            time.sleep(0.020)  # an accelerator's share of the step
            loss.backward()
            optimizer.step()
            steps += 1
            if rank == args.dies and steps == 60:
                os._exit(7)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
