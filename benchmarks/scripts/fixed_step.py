"""A training loop whose step and load times are set: a sleep, and reading random tensors.

    python fixed_step.py [--step-ms 20] [--load-ms 0.2] [--workers 2] [--steps 200] [--out FILE]

--out gets the seconds of each step, waiting for data included, as JSON.
"""

import argparse
import json
import time
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset


class Noise(Dataset):
    def __init__(self, load_ms):
        self.load_s = load_ms / 1000

    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        end = time.thread_time() + self.load_s
        image = torch.rand(3, 64, 64)
        while time.thread_time() < end:
            image = image * 0.5
        return image, index % 10


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--step-ms", type=float, default=20.0)
    parser.add_argument("--load-ms", type=float, default=0.2, help="CPU time of one sample")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()

    torch.manual_seed(0)
    loader = DataLoader(
        Noise(args.load_ms), args.batch_size, shuffle=True, num_workers=args.workers
    )
    taken = []
    started = time.perf_counter()
    for _ in loader:
        time.sleep(args.step_ms / 1000)
        now = time.perf_counter()
        taken.append(now - started)
        started = now
        if len(taken) == args.steps:
            break
    if args.out:
        args.out.write_text(json.dumps(taken))
    print(f"{len(taken)} steps, {1000 * sum(taken) / len(taken):.2f} ms a step")


if __name__ == "__main__":
    main()
