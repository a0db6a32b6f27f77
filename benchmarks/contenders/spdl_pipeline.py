"""SPDL: a thread pipeline over a memory map (it has no packed format), and over JPEG files."""

from __future__ import annotations

import importlib
import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.contenders import jpegs, packed, pictures
from benchmarks.contenders.one import Contender
from benchmarks.contenders.pictures import Boxes, Files

_THREADS = 2


def _endless(count: int) -> Iterator[int]:
    while True:
        yield from random.sample(range(count), count)


def _batches(data: Any, batch: int) -> Any:
    """Samples in two threads, then a batch of them."""
    builder: Any = importlib.import_module("spdl.pipeline").PipelineBuilder()
    builder = builder.add_source(_endless(len(data))).pipe(data.__getitem__, concurrency=_THREADS)
    builder = builder.aggregate(batch, drop_last=True).pipe(np.stack).add_sink(4)
    pipeline = builder.build(num_threads=_THREADS)
    with pipeline.auto_stop():
        yield from pipeline.get_iterator(timeout=60)


def files(folder: Path, side: int, boxes: Boxes) -> Any:
    """JPEG files by simplejpeg and OpenCV, which its own decoder is slower than."""
    return _batches(Files(folder, side, pictures.with_opencv, boxes), jpegs.BATCH)


def _cropped(name: str, side: int, folder: Path) -> Any:
    return files(folder / name, side, pictures.fixed(side))


_FILES = ("spdl.pipeline", "cv2", "simplejpeg")

CONTENDERS = {
    "SPDL, memory map, 2 threads": Contender(
        lambda f: _batches(packed.Crops(f), packed.BATCH),
        packed.BATCH,
        ("spdl.pipeline",),
        "images.npy",
    ),
    "SPDL, simplejpeg, 2 threads": Contender(
        lambda f: files(f / "files", 224, pictures.resized), jpegs.BATCH, _FILES, "files"
    ),
}
for _name, (_folder, _side) in jpegs.CROPS.items():
    CONTENDERS[f"SPDL, simplejpeg, 2 threads, {_name}"] = Contender(
        partial(_cropped, _folder, _side), jpegs.BATCH, _FILES, _folder
    )
