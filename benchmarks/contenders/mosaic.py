"""MosaicML streaming: MDS shards of pixels, and of JPEG bytes, with two workers."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.contenders import jpegs, packed, pictures
from benchmarks.contenders.one import Contender

_WORKERS = 2


def write(folder: Path) -> None:
    """MDS shards of pixels, and of files."""
    writer: Any = importlib.import_module("streaming").MDSWriter
    shape = f"{packed.SIDE},{packed.SIDE},3"
    with writer(out=str(folder / "mds"), columns={"x": f"ndarray:uint8:{shape}"}) as out:
        for image in np.load(folder / "images.npy", mmap_mode="r"):
            out.write({"x": np.array(image)})
    with writer(out=str(folder / "jpegmds"), columns={"x": "bytes"}) as out:
        for path in sorted((folder / "files").rglob("*.jpg")):
            out.write({"x": path.read_bytes()})


def _batches(folder: Path, work: Any, batch: int) -> Any:
    streaming: Any = importlib.import_module("streaming")
    torch: Any = importlib.import_module("torch")

    class Samples(streaming.StreamingDataset):
        """The shards' samples, each worked on."""

        def __getitem__(self, index: Any) -> Any:
            return work(super().__getitem__(index)["x"])

    data = Samples(local=str(folder), remote=None, shuffle=True, batch_size=batch)
    return torch.utils.data.DataLoader(
        data, batch_size=batch, num_workers=_WORKERS, persistent_workers=True, drop_last=True
    )


def shards(folder: Path) -> Any:
    """Random crops of pixels."""
    return _batches(folder / "mds", packed.Cropped(), packed.BATCH)


def files(folder: Path) -> Any:
    """RandomResizedCrop of JPEGs, by simplejpeg and torch's resize."""

    def work(data: bytes) -> Any:
        return pictures.with_torch(data, pictures.resized, 224)

    return _batches(folder / "jpegmds", work, jpegs.BATCH)


CONTENDERS = {
    "MosaicML MDS, 2 workers": Contender(shards, packed.BATCH, ("streaming",), "mds"),
    "MosaicML MDS, simplejpeg, 2 workers": Contender(
        files, jpegs.BATCH, ("streaming", "simplejpeg"), "jpegmds"
    ),
}
