"""FFCV: its file of pixels, and its file of JPEGs, with two threads."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.contenders import jpegs, packed
from benchmarks.contenders.one import Contender

_THREADS = 2


class _Pixels:
    def __init__(self, path: Path) -> None:
        self.images = np.load(path, mmap_mode="r")

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: Any) -> Any:
        return (np.array(self.images[index]),)


class _Photos:
    def __init__(self, folder: Path) -> None:
        self.paths = sorted(folder.rglob("*.jpg"))

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: Any) -> Any:
        from PIL import Image

        return (Image.open(self.paths[index]).convert("RGB"),)


def write(folder: Path) -> None:
    """A file of pixels, and one of JPEGs of quality 90."""
    writer: Any = importlib.import_module("ffcv.writer").DatasetWriter
    field: Any = importlib.import_module("ffcv.fields").RGBImageField
    for name, mode, data in (
        ("pixels", {"write_mode": "raw"}, _Pixels(folder / "images.npy")),
        ("jpegs", {"write_mode": "jpg", "jpeg_quality": 90}, _Photos(folder / "files")),
    ):
        fields = {"image": field(**mode)}
        writer(str(folder / f"{name}.beton"), fields, num_workers=1).from_indexed_dataset(data)


def _batches(path: Path, batch: int) -> Any:
    """RandomResizedCrop to 224, of pixels too: FFCV has no plain random crop while decoding."""
    loader: Any = importlib.import_module("ffcv.loader")
    decoders: Any = importlib.import_module("ffcv.fields.rgb_image")
    transforms: Any = importlib.import_module("ffcv.transforms")
    decoder = decoders.RandomResizedCropRGBImageDecoder((packed.CROP, packed.CROP))
    return loader.Loader(
        str(path),
        batch_size=batch,
        num_workers=_THREADS,
        order=loader.OrderOption.RANDOM,
        os_cache=True,
        drop_last=True,
        batches_ahead=2,
        pipelines={"image": [decoder, transforms.ToTensor()]},
    )


CONTENDERS = {
    "FFCV, pixels (it resizes too), 2 threads": Contender(
        lambda f: _batches(f / "pixels.beton", packed.BATCH),
        packed.BATCH,
        ("ffcv.loader",),
        "pixels.beton",
    ),
    "FFCV, JPEG, 2 threads": Contender(
        lambda f: _batches(f / "jpegs.beton", jpegs.BATCH),
        jpegs.BATCH,
        ("ffcv.loader",),
        "jpegs.beton",
    ),
}
