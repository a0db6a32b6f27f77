"""The data that loaders are compared on: tiles of real photos as files, arrays and packs."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import simplejpeg
from PIL import Image

from benchmarks import record
from stoker.pack import Codec, crop_jpeg, write_arrays

PACKED_SAMPLES = 4_000
PACKED_SIDE = 256
TILES, WIDE = 600, 96
# Each picture is there so many times, under other names: epochs long enough that their ends, which
# are dear to some, don't decide.
COPIES = 4
_MADE = ".made"


@contextmanager
def folder(kept: Path | None) -> Iterator[Path]:
    """The folder of the data; it stays where one is named."""
    if kept is not None:
        make(kept)
        yield kept
        return
    with tempfile.TemporaryDirectory() as made:
        make(Path(made))
        yield Path(made)


def make(folder: Path) -> None:
    """All of it; does nothing where it is there already."""
    if (folder / _MADE).exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    tiles = make_tiles(folder / "files")
    _copy(folder / "files")
    images = parts_of(tiles)
    np.save(folder / "images.npy", images)
    write_arrays(folder / "pack", {"image": images, "label": np.arange(PACKED_SAMPLES) % 10})
    _pack_cut(folder / "cut", [Image.fromarray(tile) for tile in tiles])
    (folder / "wide").mkdir()
    wide = []
    for number in range(WIDE):
        wide.append(Image.fromarray(tiles[number]).resize((2048, 1024), Image.Resampling.BICUBIC))
        wide[-1].save(folder / "wide" / f"{number:03}.jpg", quality=90)
    _copy(folder / "wide")
    _pack_cut(folder / "widecut", wide)
    (folder / _MADE).touch()


def make_tiles(folder: Path) -> list[Any]:
    """Photo tiles of 512² as JPEG files in the folder; their pixels, in the order of the names."""
    script = str(record.ROOT / "examples" / "make_tiles.py")
    make = [sys.executable, script, str(folder), "--count", str(TILES)]
    subprocess.run(make, check=True, capture_output=True)
    paths = sorted(folder.rglob("*.jpg"))
    return [simplejpeg.decode_jpeg(path.read_bytes()) for path in paths]


def parts_of(tiles: list[Any]) -> Any:
    """Parts of the tiles, uint8 (PACKED_SAMPLES, PACKED_SIDE, PACKED_SIDE, 3)."""
    images = np.empty((PACKED_SAMPLES, PACKED_SIDE, PACKED_SIDE, 3), np.uint8)
    for number in range(PACKED_SAMPLES):
        top, left = number * 7 % 257, number * 13 % 257
        tile = tiles[number % len(tiles)]
        images[number] = tile[top : top + PACKED_SIDE, left : left + PACKED_SIDE]
    return images


def _copy(folder: Path) -> None:
    """The same pictures under other names, without their bytes."""
    for path in sorted(folder.rglob("*.jpg")):
        for copy in range(1, COPIES):
            os.link(path, path.with_stem(f"{path.stem}-{copy}"))


def _pack_cut(path: Path, pictures: list[Image.Image]) -> None:
    """A pack of crop-addressable JPEGs at quality 90."""
    jpegs = [crop_jpeg.encode(picture) for picture in pictures]
    shapes = [(picture.height, picture.width, 3) for picture in pictures]
    columns: dict[str, Any] = {
        "image": list(zip(jpegs, shapes, strict=True)) * COPIES,
        "image.segments": [crop_jpeg.segment_lengths(jpeg) for jpeg in jpegs] * COPIES,
    }
    write_arrays(path, columns, codecs={"image": Codec.CROP_JPEG})
