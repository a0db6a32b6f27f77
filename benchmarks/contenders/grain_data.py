"""Grain: ArrayRecords of pixels, and JPEG files decoded by simplejpeg and resized by OpenCV."""

from __future__ import annotations

import importlib
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.contenders import jpegs, packed, pictures
from benchmarks.contenders.one import Contender
from benchmarks.contenders.pictures import Boxes, Files

_RECORDS = "images.array_record"
_THREADS = 2


def write(folder: Path) -> None:
    """One uncompressed ArrayRecord, a picture a group: any is read alone."""
    module: Any = importlib.import_module("array_record.python.array_record_module")
    writer = module.ArrayRecordWriter(str(folder / _RECORDS), "group_size:1,uncompressed")
    for image in np.load(folder / "images.npy", mmap_mode="r"):
        writer.write(image.tobytes())
    writer.close()


def _batches(data: Any, batch: int) -> Any:
    grain: Any = importlib.import_module("grain.python")
    options = grain.ReadOptions(num_threads=_THREADS, prefetch_buffer_size=2 * batch)
    return data.to_iter_dataset(options).batch(batch, drop_remainder=True)


def records(folder: Path) -> Any:
    """Random crops of the ArrayRecord's pixels."""
    grain: Any = importlib.import_module("grain.python")
    _parse_flags()
    cropped = packed.Cropped()

    def work(record: bytes) -> Any:
        return cropped(np.frombuffer(record, np.uint8).reshape(packed.SIDE, packed.SIDE, 3))

    source = grain.ArrayRecordDataSource(str(folder / _RECORDS))
    return _batches(grain.MapDataset.source(source).shuffle(seed=0).map(work), packed.BATCH)


def files(folder: Path, side: int, boxes: Boxes) -> Any:
    """JPEG files, in threads."""
    grain: Any = importlib.import_module("grain.python")
    source = Files(folder, side, pictures.with_opencv, boxes)
    return _batches(grain.MapDataset.source(source).shuffle(seed=0), jpegs.BATCH)


def _parse_flags() -> None:
    """ArrayRecord's data source reads flags that a program without absl has not parsed."""
    flags: Any = importlib.import_module("absl.flags")
    if not flags.FLAGS.is_parsed():
        flags.FLAGS(["contender"])


def _cropped(name: str, side: int, folder: Path) -> Any:
    return files(folder / name, side, pictures.fixed(side))


_FILES = ("grain.python", "cv2", "simplejpeg")

CONTENDERS = {
    "Grain, ArrayRecord, 2 threads": Contender(records, packed.BATCH, ("grain.python",), _RECORDS),
    "Grain, simplejpeg, 2 threads": Contender(
        lambda f: files(f / "files", 224, pictures.resized), jpegs.BATCH, _FILES, "files"
    ),
}
for _name, (_folder, _side) in jpegs.CROPS.items():
    CONTENDERS[f"Grain, simplejpeg, 2 threads, {_name}"] = Contender(
        partial(_cropped, _folder, _side), jpegs.BATCH, _FILES, _folder
    )
