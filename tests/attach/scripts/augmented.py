"""A small training on photos of a folder: shrunk, flipped at random, made floats; fixed seed."""

import argparse
import hashlib
import random
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset


class Compose:
    def __init__(self, transforms):
        self.transforms = transforms

    def __call__(self, image):
        for transform in self.transforms:
            image = transform(image)
        return image


class Photos(Dataset):
    def __init__(self, folder, transform, slow_s):
        self.slow_s = slow_s
        self.paths = sorted(Path(folder).rglob("*.*"))
        self.transform = transform

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        time.sleep(self.slow_s)
        image = Image.open(self.paths[index]).convert("RGB")
        return self.transform(image), "abc".index(self.paths[index].parent.name)


def shrunk(image):
    return image.resize((16, 16))


def flipped(image):
    return image.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if random.random() < 0.5 else image


def floats(image):
    return torch.from_numpy(np.array(image)).permute(2, 0, 1).float() / 255


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--start", default="fork")
    parser.add_argument("--slow-s", type=float, default=0.0)
    parser.add_argument("--loader", default="torch")
    args = parser.parse_args()
    torch.multiprocessing.set_start_method(args.start)
    random.seed(3)
    torch.manual_seed(7)
    torch.set_num_threads(1)
    Path("log.txt").write_text("begun")  # a script writes before it trains
    photos = Photos(args.folder, Compose([shrunk, flipped, floats]), args.slow_s)
    loader = DataLoader(photos, batch_size=2, shuffle=True, num_workers=args.workers)
    if args.loader == "stoker":
        from stoker import DataLoader as Own

        loader = Own(photos, batch_size=2, shuffle=True, num_workers=args.workers)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 16 * 16, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    for epoch in range(args.epochs):
        for images, labels in loader:
            loss = torch.nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, loss.item().hex(), flush=True)
    weights = b"".join(part.detach().numpy().tobytes() for part in model.parameters())
    print("weights", hashlib.sha256(weights).hexdigest())


if __name__ == "__main__":
    main()
