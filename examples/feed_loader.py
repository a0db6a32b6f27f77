"""Keep the loader, and have its batches made beside the step: `stoker.feed` around it.

    python feed_loader.py FOLDER [--epochs 2] [--step-ms 40]

The same epochs over the same DataLoader, as it is and fed. The step is that of an emulated
accelerator, which only takes time: decoding and loading are real.
"""

import argparse
import time

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader

import stoker
from stoker.loader.folder import Folder


class Photos(torch.utils.data.Dataset):
    def __init__(self, folder, size=128):
        self.files = Folder(folder)
        self.size = size

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        image = Image.open(self.files.name(index)).convert("RGB")
        return np.array(image.resize((self.size, self.size))), self.files.labels[index]


def seconds(batches, accelerator):
    started = time.perf_counter()
    for images, _ in batches:
        accelerator.step(images)
    accelerator.synchronize()
    return time.perf_counter() - started


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--step-ms", type=float, default=40.0)
    args = parser.parse_args()

    loader = DataLoader(Photos(args.folder), batch_size=16, shuffle=True)
    accelerator = stoker.EmulatedAccelerator(args.step_ms / 1000)
    for epoch in range(args.epochs):
        plain = seconds(loader, accelerator)
        fed = seconds(stoker.feed(loader), accelerator)
        print(f"epoch {epoch}: {plain:.2f} s as it is, {fed:.2f} s fed, {plain / fed:.2f}x")


if __name__ == "__main__":
    main()
