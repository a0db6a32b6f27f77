"""Train a small image classifier on a folder of photos, one subfolder a class.

    python train_images.py FOLDER [--workers 2] [--epochs 3] [--step-ms 80]

With --step-ms the model is replaced by a sleep of that length, which stands in for an
accelerator on a machine that has none; the output says so.
"""

import argparse
import random
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Resize:
    """Shorter side to `size` pixels."""

    def __init__(self, size):
        self.size = size

    def __call__(self, image):
        scale = self.size / min(image.size)
        size = (round(image.width * scale), round(image.height * scale))
        return image.resize(size, Image.Resampling.BILINEAR)


class RandomCrop:
    def __init__(self, size):
        self.size = size

    def __call__(self, image):
        left = random.randint(0, image.width - self.size)
        top = random.randint(0, image.height - self.size)
        return image.crop((left, top, left + self.size, top + self.size))


class RandomFlip:
    def __call__(self, image):
        if random.random() < 0.5:
            return image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        return image


class Normalise:
    """Image to an array of floats with about zero mean and unit variance."""

    def __init__(self, mean, std):
        self.mean = np.array(mean, dtype=np.float32)
        self.std = np.array(std, dtype=np.float32)

    def __call__(self, image):
        array = np.asarray(image, dtype=np.float32) / 255
        return (array - self.mean) / self.std


class ToTensor:
    """Height, width, channel to channel, height, width."""

    def __call__(self, array):
        return torch.from_numpy(np.ascontiguousarray(array.transpose(2, 0, 1)))


class Compose:
    def __init__(self, transforms):
        self.transforms = transforms

    def __call__(self, image):
        for transform in self.transforms:
            image = transform(image)
        return image


class Photos(Dataset):
    def __init__(self, folder, transform):
        self.classes = sorted(path.name for path in Path(folder).iterdir() if path.is_dir())
        self.samples = [
            (path, label)
            for label, name in enumerate(self.classes)
            for path in sorted(Path(folder, name).glob("*.jpg"))
        ]
        self.transform = transform

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        path, label = self.samples[index]
        image = Image.open(path).convert("RGB")
        return self.transform(image), label


def small_cnn(classes):
    return nn.Sequential(
        nn.Conv2d(3, 16, 5, stride=4),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, stride=2),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, classes),
    )


def training_step(model, learning_rate):
    """A step that trains the model on a batch and gives its loss."""
    loss_of = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate, momentum=0.9)

    def step(images, labels):
        optimizer.zero_grad()
        loss = loss_of(model(images), labels)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def sleeping_step(milliseconds):
    """A step that leaves the batch alone and has no loss."""

    def step(*_batch):
        time.sleep(milliseconds / 1000)

    return step


def main(data=Photos):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--learning-rate", type=float, default=0.01)
    parser.add_argument("--step-ms", type=float, help="sleep so long instead of training a model")
    args = parser.parse_args()

    random.seed(0)
    torch.manual_seed(0)
    dataset = data(
        args.folder,
        Compose(
            [
                Resize(args.size * 8 // 7),
                RandomCrop(args.size),
                RandomFlip(),
                Normalise([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
                ToTensor(),
            ]
        ),
    )
    loader = DataLoader(
        dataset,
        batch_size=args.batch_size,
        shuffle=True,
        drop_last=True,
        num_workers=args.workers,
    )
    print(f"{len(dataset)} photos, {len(dataset.classes)} classes, {args.workers} workers")
    if args.step_ms is None:
        step = training_step(small_cnn(len(dataset.classes)), args.learning_rate)
    else:
        print(f"no model: each step is a sleep of {args.step_ms:g} ms, standing in for a device")
        step = sleeping_step(args.step_ms)

    for epoch in range(1, args.epochs + 1):
        started = time.perf_counter()
        losses = []
        for images, labels in loader:
            losses.append(step(images, labels))
        seconds = time.perf_counter() - started
        line = f"epoch {epoch}: {len(loader)} steps, {1000 * seconds / len(loader):.1f} ms a step"
        if None not in losses:
            line += f", loss {sum(losses) / len(losses):.3f}"
        print(line, flush=True)


if __name__ == "__main__":
    main()
