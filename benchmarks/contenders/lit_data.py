"""LitData: chunks of pixels, and of JPEG bytes, with two workers."""

from __future__ import annotations

import importlib
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.contenders import jpegs, packed, pictures
from benchmarks.contenders.one import Contender

_WORKERS = 2


def _pixels(place: tuple[str, int]) -> dict[str, Any]:
    path, row = place
    return {"x": np.array(np.load(path, mmap_mode="r")[row])}


def _file(path: str) -> dict[str, Any]:
    return {"x": Path(path).read_bytes()}


def write(folder: Path) -> None:
    """Chunks of pixels, and of files."""
    source = folder / "images.npy"
    count = len(np.load(source, mmap_mode="r"))
    paths = [str(path) for path in sorted((folder / "files").rglob("*.jpg"))]
    _write(folder / "lit", _pixels, [(str(source), row) for row in range(count)])
    _write(folder / "jpeglit", _file, paths)


def _write(folder: Path, work: Any, inputs: list[Any]) -> None:
    litdata: Any = importlib.import_module("litdata")
    shutil.rmtree(folder, ignore_errors=True)
    litdata.optimize(
        fn=work,
        inputs=inputs,
        output_dir=str(folder),
        chunk_bytes="64MB",
        num_workers=1,
        start_method="fork",
    )


def _batches(folder: Path, work: Any, batch: int) -> Any:
    litdata: Any = importlib.import_module("litdata")

    class Samples(litdata.StreamingDataset):
        """The chunks' samples, each worked on."""

        def __getitem__(self, index: Any) -> Any:
            return work(super().__getitem__(index)["x"])

    return litdata.StreamingDataLoader(
        Samples(str(folder), shuffle=True, drop_last=True),
        batch_size=batch,
        num_workers=_WORKERS,
        persistent_workers=True,
        drop_last=True,
    )


def chunks(folder: Path) -> Any:
    """Random crops of pixels."""
    cropped = packed.Cropped()

    def work(value: Any) -> Any:
        return cropped(value if isinstance(value, np.ndarray) else value.numpy())

    return _batches(folder / "lit", work, packed.BATCH)


def files(folder: Path) -> Any:
    """RandomResizedCrop of JPEGs, by simplejpeg and torch's resize."""

    def work(data: Any) -> Any:
        return pictures.with_torch(bytes(data), pictures.resized, 224)

    return _batches(folder / "jpeglit", work, jpegs.BATCH)


CONTENDERS = {
    "LitData, 2 workers": Contender(chunks, packed.BATCH, ("litdata", "torch"), "lit"),
    "LitData, simplejpeg, 2 workers": Contender(
        files, jpegs.BATCH, ("litdata", "torch", "simplejpeg"), "jpeglit"
    ),
}
