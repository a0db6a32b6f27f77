"""Loaders that feed emulated accelerators: what `resident_step` and `accelerators` measure.

The accelerator is a clock (docs/emulated-accelerator.md); data, decoding and loaders are real.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image

import stoker
from benchmarks.contenders import data
from benchmarks.contenders.data import PACKED_SAMPLES, PACKED_SIDE, TILES
from stoker.pack import write_arrays

CROP = 224
WORKERS = 2
# An epoch goes over the data so often: like one of ImageNet's, it is long beside its start.
_PASSES = 60


class Source(NamedTuple):
    """One kind of data, the Loader over it, and torch's DataLoader as one writes it for it."""

    title: str
    ours: Callable[[Path, int, Any], Any]
    torchs: Callable[[Path, int], Any]


def make_data(folder: Path) -> None:
    """Photo tiles of 512² as JPEG files, and parts of them of 256² in a pack and as an array."""
    images = data.parts_of(data.make_tiles(folder / "files"))
    np.save(folder / "images.npy", images)
    write_arrays(folder / "pack", {"image": images})


def _files(folder: Path) -> list[Path]:
    return sorted((folder / "files").rglob("*.jpg"))


class Crops(torch.utils.data.Dataset):
    """Random crops of a memory map, as one writes it."""

    def __init__(self, folder: Path) -> None:
        self._images = np.load(folder / "images.npy", mmap_mode="r")

    def __len__(self) -> int:
        return len(self._images)

    def __getitem__(self, index: int) -> Any:
        top, left = np.random.randint(0, PACKED_SIDE - CROP + 1, 2)
        return torch.from_numpy(np.array(self._images[index, top : top + CROP, left : left + CROP]))


class Pictures(torch.utils.data.Dataset):
    """Random resized crops of JPEG files, with Pillow, as one writes it."""

    def __init__(self, folder: Path) -> None:
        self._paths = _files(folder)

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, index: int) -> Any:
        picture = Image.open(self._paths[index]).convert("RGB")
        side = int(picture.width * np.sqrt(np.random.uniform(0.08, 1.0)))
        top, left = np.random.randint(0, picture.width - side + 1, 2)
        box = (left, top, left + side, top + side)
        resized = picture.resize((CROP, CROP), Image.Resampling.BILINEAR, box=box)
        return torch.from_numpy(np.array(resized))


def _order(count: int) -> list[int]:
    """Every sample once in each pass, in an order of its own."""
    rng = np.random.default_rng(0)
    return [number for _ in range(_PASSES) for number in rng.permutation(count).tolist()]


def _torchs(dataset: type[Any]) -> Callable[[Path, int], Any]:
    def make(folder: Path, batch: int) -> Any:
        made = dataset(folder)
        return torch.utils.data.DataLoader(
            made,
            batch,
            sampler=_order(len(made)),
            drop_last=True,
            num_workers=WORKERS,
            persistent_workers=True,
        )

    return make


def _ours(source: str, crop: Any, count: int) -> Callable[[Path, int, Any], Any]:
    return lambda folder, batch, device: stoker.Loader(
        folder / source, batch, sampler=_order(count), drop_last=True, crop=crop, device=device
    )


SOURCES = {
    "files": Source(
        "JPEG files 512² → RandomResizedCrop 224",
        _ours("files", stoker.augment.RandomResizedCrop(CROP), TILES),
        _torchs(Pictures),
    ),
    "packed": Source(
        "packed 256² → random crop 224", _ours("pack", CROP, PACKED_SAMPLES), _torchs(Crops)
    ),
}
