"""How fast this machine reads packs: the disk beside one, and the processors out of one.

Writes one file of DISK_BYTES and removes it; everything else is read.
"""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stoker.pack.manifest import Codec, Field
from stoker.pack.reader import Pack
from stoker.stats import Spread, bootstrap

# Enough to be past a disk's own cache, little enough to be written in a second or so.
DISK_BYTES = 128 * 2**20
_PIECE = 2**20
_READERS = 4
# Stretches whose rates make the interval; together half a second a candidate.
_STRETCHES, _STRETCH_S = 5, 0.1
# The share of a picture's area that RandomResizedCrop(0.08 to 1) takes on average.
CROP_SHARE = 0.54
_BATCH = 32
_JPEG = b"\xff\xd8"

_Take = Callable[[NDArray[np.int64], np.random.Generator], None]


class Disk(NamedTuple):
    """Bytes a second in order: written and flushed, and read with nothing cached."""

    write_bytes_per_s: float
    read_bytes_per_s: float


def disk(folder: Path) -> Disk:
    """Write a file there, flush it, drop it from the page cache, read it with some threads."""
    piece = np.random.default_rng(0).integers(0, 256, _PIECE, np.uint8).tobytes()
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".stoker-plan-") as file:
        began = time.perf_counter()
        for _ in range(DISK_BYTES // _PIECE):
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())
        written_s = time.perf_counter() - began
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

        def read(offset: int) -> int:
            return len(os.pread(file.fileno(), _PIECE, offset))

        began = time.perf_counter()
        with ThreadPoolExecutor(_READERS) as pool:
            total = sum(pool.map(read, range(0, DISK_BYTES, _PIECE)))
        read_s = time.perf_counter() - began
    return Disk(DISK_BYTES / written_s, total / read_s)


def reads(pack: Pack, threads: int) -> Spread:
    """Samples a second that so many threads take out of a pack that is in the page cache.

    Raw pixels are copied, JPEGs decoded; of a crop-jpeg the part that a random crop takes.
    """
    indices = pack.usable
    with ThreadPoolExecutor(threads) as pool:

        def stretch(seed: int) -> float:
            counts = pool.map(
                lambda n: _read_for(pack, indices, seed * threads + n), range(threads)
            )
            return sum(counts) / _STRETCH_S

        stretch(99)  # pages and maps are there afterwards
        return bootstrap([stretch(seed) for seed in range(_STRETCHES)])


def _read_for(pack: Pack, indices: NDArray[np.int64], seed: int) -> int:
    """How many samples one thread read in a stretch."""
    random = np.random.default_rng(seed)
    field = pack.field("image") if "image" in pack.fields else pack.batch_fields[0]
    take = _gatherer(pack, field.name) if field.is_fixed else _decoder(pack, field)
    end = time.perf_counter() + _STRETCH_S
    count = 0
    while time.perf_counter() < end:
        chosen = random.choice(indices, _BATCH)
        take(chosen, random)
        count += len(chosen)
    return count


def _gatherer(pack: Pack, name: str) -> _Take:
    """Copies of a batch into memory that is used again, as a loader makes them."""
    buffers = {
        shard: np.empty((_BATCH, *pack.array(name, shard).shape[1:]), pack.field(name).dtype)
        for shard in range(len(pack.shards))
    }

    def take(indices: NDArray[np.int64], _: np.random.Generator) -> None:
        shards, rows = pack.locate_many(indices)
        for shard in np.unique(shards).tolist():
            chosen = rows[shards == shard]
            out = buffers[shard][: len(chosen)]
            np.take(pack.array(name, shard), chosen, axis=0, out=out, mode="clip")

    return take


def _decoder(pack: Pack, field: Field) -> _Take:
    """Decodes of pictures; other bytes are only touched."""
    buffer = bytearray(4 * 2**20)

    def take(indices: NDArray[np.int64], random: np.random.Generator) -> None:
        for index in indices.tolist():
            if field.codec is Codec.CROP_JPEG:
                _decode_crop(pack, index, random, buffer)
            elif field.codec in (Codec.JPEG, Codec.SOURCE):
                shard, row = pack.locate(index)
                needed = int(np.prod(pack.shapes(field.name, shard)[row]))
                fits = buffer if needed <= len(buffer) else None
                _decode_whole(bytes(pack.raw(field.name, index)), fits)
            else:
                bytes(pack.raw(field.name, index))

    return take


def _decode_whole(data: bytes, buffer: bytearray | None) -> None:
    """As the Loader does: JPEGs by simplejpeg, into memory that is used again."""
    if data.startswith(_JPEG):
        import simplejpeg

        # CMYK is no JPEG that it turns RGB.
        with contextlib.suppress(ValueError):
            simplejpeg.decode_jpeg(data, colorspace="RGB", buffer=buffer)
            return
    from PIL import Image

    with Image.open(io.BytesIO(data)) as image:
        image.convert("RGB")


def _decode_crop(pack: Pack, index: int, random: np.random.Generator, buffer: bytearray) -> None:
    from stoker.pack import crop_jpeg

    shard, row = pack.locate(index)
    height, width, _ = pack.shapes("image", shard)[row].tolist()
    across, down = (max(1, int(side * CROP_SHARE**0.5)) for side in (width, height))
    left, top = int(random.integers(width - across + 1)), int(random.integers(height - down + 1))
    box = crop_jpeg.Box(left, top, left + across, top + down)
    crop_jpeg.decode(
        bytes(pack.raw("image", index)), pack.segments("image", index), box, buffer=buffer
    )
