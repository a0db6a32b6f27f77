"""stoker.Loader, bare threads and torch's DataLoader on JPEG files and packs of JPEGs."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.contenders import pictures
from benchmarks.contenders.one import Contender
from benchmarks.contenders.pictures import Boxes, Decode, Files

BATCH = 64
# (folder, side): the crops that are measured beside RandomResizedCrop.
CROPS = {"crop 224": ("files", 224), "crop 512 of 2048x1024": ("wide", 512)}

# Folder of files -> the pack of the same pictures.
CUT = {"files": "cut", "wide": "widecut"}


def pool(folder: Path, side: int, boxes: Boxes) -> Any:
    """The limit: two bare threads into batches that exist already, nothing around them."""
    paths = Files(folder, side, pictures.with_torch, boxes).paths
    outs = [np.empty((BATCH, side, side, 3), np.uint8) for _ in range(2)]
    own = threading.local()

    def place(row: Any, path: str) -> None:
        if not hasattr(own, "buffer"):
            own.buffer = bytearray(2048 * 1024 * 3)
        with open(path, "rb") as file:  # noqa: PTH123 - a Path costs more
            data = file.read()
        made = pictures.with_torch(data, boxes, side, buffer=own.buffer, out=row)
        if made is not row:
            row[:] = made

    def batches() -> Any:
        with ThreadPoolExecutor(2) as workers:
            # One batch is begun before the one before it is waited for.
            under_way = None
            while True:
                for out in outs:
                    picked = random.sample(paths, min(BATCH, len(paths)))
                    begun = [
                        workers.submit(place, row, path)
                        for row, path in zip(out, picked, strict=True)
                    ]
                    if under_way is not None:
                        yield _waited(*under_way)
                    under_way = (out, begun)

    return batches()


def _waited(out: Any, begun: list[Any]) -> Any:
    for one in begun:
        one.result()
    return out


def torch_loader(folder: Path, side: int, decode: Decode, boxes: Boxes) -> Any:
    """torch's DataLoader with two workers."""
    import torch

    return torch.utils.data.DataLoader(
        Files(folder, side, decode, boxes),
        batch_size=BATCH,
        shuffle=True,
        drop_last=True,
        num_workers=2,
        persistent_workers=True,
        worker_init_fn=random.seed,
    )


def stoker_loader(source: Path, crop: Any = None) -> Any:
    """stoker.Loader over files or a pack; RandomResizedCrop without a crop."""
    import stoker

    crop = stoker.augment.RandomResizedCrop(224) if crop is None else crop
    return stoker.Loader(source, BATCH, shuffle=True, crop=crop, drop_last=True)


def _ours_cropped(name: str, side: int, folder: Path) -> Any:
    return stoker_loader(folder / CUT[name], side)


def _pool_cropped(name: str, side: int, folder: Path) -> Any:
    return pool(folder / name, side, pictures.fixed(side))


def _torch_cropped(name: str, side: int, folder: Path) -> Any:
    return torch_loader(folder / name, side, pictures.with_torch, pictures.fixed(side))


_OURS = ("stoker.loader.loader", "torch", "simplejpeg")
_TORCH = ("torch", "simplejpeg", "PIL.Image")

CONTENDERS = {
    "stoker.Loader, files": Contender(lambda f: stoker_loader(f / "files"), BATCH, _OURS, "files"),
    "stoker.Loader, crop-jpeg": Contender(lambda f: stoker_loader(f / "cut"), BATCH, _OURS, "cut"),
    "bare pool, 2 threads": Contender(
        lambda f: pool(f / "files", 224, pictures.resized), BATCH, _TORCH, "files"
    ),
    "torch DataLoader, Pillow, 2 workers": Contender(
        lambda f: torch_loader(f / "files", 224, pictures.with_pillow, pictures.resized),
        BATCH,
        _TORCH,
        "files",
    ),
    "torch DataLoader, simplejpeg, 2 workers": Contender(
        lambda f: torch_loader(f / "files", 224, pictures.with_torch, pictures.resized),
        BATCH,
        _TORCH,
        "files",
    ),
}
for _name, (_folder, _side) in CROPS.items():
    CONTENDERS |= {
        f"stoker.Loader, crop-jpeg, {_name}": Contender(
            partial(_ours_cropped, _folder, _side), BATCH, _OURS, CUT[_folder]
        ),
        f"bare pool, {_name}": Contender(
            partial(_pool_cropped, _folder, _side), BATCH, _TORCH, _folder
        ),
        f"torch DataLoader, simplejpeg, 2 workers, {_name}": Contender(
            partial(_torch_cropped, _folder, _side), BATCH, _TORCH, _folder
        ),
    }
