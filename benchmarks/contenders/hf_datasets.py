"""Hugging Face datasets: Arrow files of pixels, and of JPEG bytes, with two torch workers."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.contenders import jpegs, packed, pictures
from benchmarks.contenders.one import Contender

_WORKERS = 2


def write(folder: Path) -> None:
    """A data set of Array3D, and one of Image."""
    datasets: Any = importlib.import_module("datasets")
    images = np.load(folder / "images.npy", mmap_mode="r")
    array = datasets.Array3D((packed.SIDE, packed.SIDE, 3), "uint8")

    def rows() -> Iterator[dict[str, Any]]:
        for image in images:
            yield {"x": np.array(image)}

    features = datasets.Features({"x": array})
    made = datasets.Dataset.from_generator(
        rows, features=features, cache_dir=str(folder / "hfcache")
    )
    made.save_to_disk(str(folder / "hf"))
    paths = sorted((folder / "files").rglob("*.jpg"))
    made = datasets.Dataset.from_dict(
        {"x": [{"bytes": path.read_bytes(), "path": None} for path in paths]},
        features=datasets.Features({"x": datasets.Image()}),
    )
    made.save_to_disk(str(folder / "jpeghf"))


class Samples:
    """Rows of a data set, each worked on."""

    def __init__(self, data: Any, work: Any) -> None:
        self.data, self.work = data, work

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: Any) -> Any:
        return self.work(self.data[index]["x"])


def _batches(data: Any, work: Any, batch: int) -> Any:
    torch: Any = importlib.import_module("torch")
    return torch.utils.data.DataLoader(
        Samples(data, work),
        batch_size=batch,
        shuffle=True,
        num_workers=_WORKERS,
        persistent_workers=True,
        drop_last=True,
    )


def arrays(folder: Path) -> Any:
    """Random crops of pixels."""
    datasets: Any = importlib.import_module("datasets")
    cropped = packed.Cropped()
    data = datasets.load_from_disk(str(folder / "hf")).with_format("numpy")
    return _batches(data, lambda value: cropped(value).astype(np.uint8), packed.BATCH)


def files(folder: Path) -> Any:
    """RandomResizedCrop of JPEGs, by simplejpeg and torch's resize."""
    datasets: Any = importlib.import_module("datasets")
    data = datasets.load_from_disk(str(folder / "jpeghf"))
    data = data.cast_column("x", datasets.Image(decode=False))

    def work(value: Any) -> Any:
        return pictures.with_torch(value["bytes"], pictures.resized, 224)

    return _batches(data, work, jpegs.BATCH)


CONTENDERS = {
    "HF datasets, Arrow, 2 workers": Contender(arrays, packed.BATCH, ("datasets", "torch"), "hf"),
    "HF datasets, simplejpeg, 2 workers": Contender(
        files, jpegs.BATCH, ("datasets", "torch", "simplejpeg"), "jpeghf"
    ),
}
