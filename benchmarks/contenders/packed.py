"""stoker.Loader, a bare loop and torch's DataLoader on decoded pictures: random crops."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.contenders.one import Contender

BATCH, CROP, SIDE = 256, 224, 256
# A batch in memory, the one before it, and one that is written: what a loader turns over that
# never writes to a batch that is still looked at.
BUFFERS = 3


def bare(folder: Path, buffers: int) -> Any:
    """The limit: one thread, a plain NumPy loop into batches that exist already."""
    images = np.load(folder / "images.npy", mmap_mode="r").view(np.ndarray)
    rng = np.random.default_rng(0)
    outs = [np.empty((BATCH, CROP, CROP, 3), np.uint8) for _ in range(buffers)]

    def batches() -> Any:
        turn = 0
        while True:
            order = rng.permutation(len(images))
            for start in range(0, len(order) - BATCH + 1, BATCH):
                out = outs[turn % buffers]
                turn += 1
                rows = order[start : start + BATCH].tolist()
                tops, lefts = rng.integers(0, SIDE - CROP + 1, (2, BATCH)).tolist()
                for number, (row, top, left) in enumerate(zip(rows, tops, lefts, strict=True)):
                    out[number] = images[row, top : top + CROP, left : left + CROP]
                yield out

    return batches()


def stoker_loader(folder: Path, threads: int | None) -> Any:
    """stoker.Loader over a pack."""
    import stoker

    return stoker.Loader(
        folder / "pack", BATCH, shuffle=True, crop=CROP, drop_last=True, threads=threads
    )


class Cropped:
    """Cuts a random part of 224² out of a decoded picture, as one writes it for any loader."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng()

    def __call__(self, picture: Any) -> Any:
        """The part, with memory of its own."""
        top, left = self.rng.integers(0, SIDE - CROP + 1, 2)
        return np.array(picture[top : top + CROP, left : left + CROP])


class Crops:
    """A map-style data set over the array, as one writes it."""

    def __init__(self, folder: Path) -> None:
        # Not the memmap itself: indexing it costs microseconds.
        self.images = np.load(folder / "images.npy", mmap_mode="r").view(np.ndarray)
        self.cropped = Cropped()

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: Any) -> Any:
        return self.cropped(self.images[index])


def torch_loader(folder: Path, workers: int) -> Any:
    """torch's DataLoader over a bare memory map."""
    import torch

    return torch.utils.data.DataLoader(
        Crops(folder),
        batch_size=BATCH,
        shuffle=True,
        drop_last=True,
        num_workers=workers,
        persistent_workers=workers > 0,
    )


_OURS = ("stoker.loader.loader", "torch")

CONTENDERS = {
    "bare loop, one buffer": Contender(lambda folder: bare(folder, 1), BATCH, (), "images.npy"),
    "bare loop, three buffers": Contender(
        lambda folder: bare(folder, BUFFERS), BATCH, (), "images.npy"
    ),
    "stoker.Loader": Contender(lambda folder: stoker_loader(folder, None), BATCH, _OURS, "pack"),
    "stoker.Loader, 1 thread": Contender(
        lambda folder: stoker_loader(folder, 1), BATCH, _OURS, "pack"
    ),
    "torch DataLoader, memory map, 0 workers": Contender(
        lambda folder: torch_loader(folder, 0), BATCH, ("torch",), "images.npy"
    ),
    "torch DataLoader, memory map, 2 workers": Contender(
        lambda folder: torch_loader(folder, 2), BATCH, ("torch",), "images.npy"
    ),
}
