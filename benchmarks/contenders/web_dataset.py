"""WebDataset: tars of pixels, and tars of JPEG files, with two workers."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.contenders import jpegs, packed, pictures
from benchmarks.contenders.one import Contender

_SHARDS = 10
_WORKERS = 2


def write(folder: Path) -> None:
    """Ten tars of pixels, ten of files."""
    images = np.load(folder / "images.npy", mmap_mode="r")
    _write(folder / "tars", "bin", [image.tobytes for image in images])
    paths = sorted((folder / "files").rglob("*.jpg"))
    _write(folder / "jpegtars", "jpg", [path.read_bytes for path in paths])


def _write(folder: Path, suffix: str, samples: list[Any]) -> None:
    webdataset: Any = importlib.import_module("webdataset")
    folder.mkdir(exist_ok=True)
    count = -(-len(samples) // _SHARDS)
    with webdataset.ShardWriter(
        str(folder / "%05d.tar"), maxcount=count, maxsize=1e12, verbose=0
    ) as writer:
        for number, sample in enumerate(samples):
            writer.write({"__key__": f"{number:06}", suffix: sample()})


def _batches(folder: Path, work: Any, batch: int) -> Any:
    webdataset: Any = importlib.import_module("webdataset")
    shards = str(folder / f"{{00000..{_SHARDS - 1:05}}}.tar")
    data = webdataset.WebDataset(shards, shardshuffle=_SHARDS, nodesplitter=None)
    data = data.shuffle(500).map(work).batched(batch, partial=False)
    return webdataset.WebLoader(
        data, batch_size=None, num_workers=_WORKERS, persistent_workers=True
    )


def tars(folder: Path) -> Any:
    """Random crops of pixels."""
    cropped = packed.Cropped()

    def work(sample: Any) -> Any:
        picture = np.frombuffer(sample["bin"], np.uint8).reshape(packed.SIDE, packed.SIDE, 3)
        return (cropped(picture),)

    return _batches(folder / "tars", work, packed.BATCH)


def files(folder: Path) -> Any:
    """RandomResizedCrop of the JPEGs in tars, by simplejpeg and torch's resize."""

    def work(sample: Any) -> Any:
        return (pictures.with_torch(sample["jpg"], pictures.resized, 224),)

    return _batches(folder / "jpegtars", work, jpegs.BATCH)


CONTENDERS = {
    "WebDataset, tars, 2 workers": Contender(tars, packed.BATCH, ("webdataset", "torch"), "tars"),
    "WebDataset, simplejpeg, 2 workers": Contender(
        files, jpegs.BATCH, ("webdataset", "torch", "simplejpeg"), "jpegtars"
    ),
}
