"""Small folders of real photos, and packs of them made in this process."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import skimage.data
from PIL import Image

from stoker.pack.build import How, Packed, build
from stoker.pack.job import Job, Order, make_job
from stoker.pack.manifest import Transform
from stoker.pack.sources import dataset as sources
from stoker.pack.sources.find import list_source

SIZES = [(40, 30), (30, 40), (36, 36), (52, 34)]


@functools.cache
def bundled(number: int) -> Image.Image:
    """A photo that comes with scikit-image."""
    return Image.fromarray((skimage.data.astronaut, skimage.data.coffee)[number]())


def photo(number: int, size: tuple[int, int] | None = None) -> Image.Image:
    """A cut out of a bundled photo, another one for each number."""
    whole = bundled(number % 2)
    left, top = 7 * number % 200, 5 * number % 150
    size = size or SIZES[number % len(SIZES)]
    return whole.crop((left, top, left + 160, top + 120)).resize(size)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """21 JPEG and PNG photos of several sizes in three class folders."""
    folder = tmp_path / "photos"
    for number in range(21):
        suffix = "png" if number % 5 == 0 else "jpg"
        path = folder / "abc"[number % 3] / f"{number:02}.{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        photo(number).save(path)
    return folder


MakePack = Callable[..., Packed]


def job_of(source: Path | str, **options: Any) -> Job:
    """A job with small shards: 5 samples of 24 × 24 raw pixels."""
    settings: dict[str, Any] = {
        "tier": "raw",
        "size": 24,
        "fit": "shorter",
        "quality": None,
        "exif": "ignore",
    }
    settings |= {name: options.pop(name) for name in list(options) if name in settings}
    transform = Transform(**settings)
    # A JPEG is taken to have half a byte a pixel.
    per_sample = 24 * 24 * 3 if settings["tier"] == "raw" else 24 * 24 // 2
    shard_bytes = options.pop("shard_bytes", 5 * per_sample)
    order = options.pop("order", Order())
    return make_job(
        list_source(str(source)), transform, order=order, shard_bytes=shard_bytes, **options
    )


def packed(source: Path | str, folder: Path, how: How | None = None, **options: Any) -> Packed:
    """The pack of a source, made in this process."""
    return build(job_of(source, **options), folder, how or How())


def contents(folder: Path) -> dict[str, bytes]:
    """The bytes of every file of a pack."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.fixture
def in_hand(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Packs a Dataset object into a folder, at the size that it has unless another is given."""
    before = dict(sources._IN_HAND)

    def pack(dataset: Any, **options: Any) -> Path:
        folder = tmp_path / f"p{len(list(tmp_path.iterdir()))}"
        spec = f"here.py:{folder.name}"
        sources.take_in_hand(spec, dataset)
        packed(spec, folder, **{"size": None, "shard_bytes": 20_000, **options})
        return folder

    yield pack
    sources._IN_HAND.clear()
    sources._IN_HAND.update(before)
