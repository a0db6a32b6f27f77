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
# A loader's batches are written to memory, not to a cache: so much of it, in turn, for a thread.
_TURNED_OVER = 64 * 2**20
# Larger ones are decoded into memory of their own, and are no part of a batch.
_LARGEST_PICTURE = 16 * 2**20
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

    Raw pixels are copied, JPEGs decoded, of a crop-jpeg the part that a random crop takes; all is
    put into memory that is turned over as a loader's batches are.
    """
    takes = [_taker(pack) for _ in range(threads)]
    with ThreadPoolExecutor(threads) as pool:

        def stretch(seed: int) -> float:
            counts = pool.map(
                lambda n: _read_for(pack.usable, takes[n], seed * threads + n), range(threads)
            )
            return sum(counts) / _STRETCH_S

        stretch(99)  # pages and maps are there afterwards
        return bootstrap([stretch(seed) for seed in range(_STRETCHES)])


def _read_for(indices: NDArray[np.int64], take: _Take, seed: int) -> int:
    """How many samples one thread read in a stretch."""
    random = np.random.default_rng(seed)
    end = time.perf_counter() + _STRETCH_S
    count = 0
    while time.perf_counter() < end:
        chosen = random.choice(indices, _BATCH)
        take(chosen, random)
        count += len(chosen)
    return count


def _taker(pack: Pack) -> _Take:
    """Reads a batch of the pictures, or of the first field of a pack without."""
    field = pack.field("image") if "image" in pack.fields else pack.batch_fields[0]
    return _gatherer(pack, field.name) if field.is_fixed else _decoder(pack, field)


class _Batches:
    """Memory that batches are written to in turn: more than a processor's cache holds."""

    def __init__(self, least: int) -> None:
        self._memory = np.empty(max(_TURNED_OVER, 2 * least), np.uint8)
        self._next = 0

    def room(self, size: int) -> NDArray[np.uint8]:
        """The next so many bytes, at most half of all."""
        if self._next + size > len(self._memory):
            self._next = 0
        start, self._next = self._next, self._next + size
        return self._memory[start : start + size]


def _gatherer(pack: Pack, name: str) -> _Take:
    """Copies of samples into a batch."""
    arrays = [pack.array(name, shard) for shard in range(len(pack.shards))]
    largest = max(array.nbytes // len(array) for array in arrays)
    batches = _Batches(_BATCH * largest)

    def take(indices: NDArray[np.int64], _: np.random.Generator) -> None:
        shards, rows = pack.locate_many(indices)
        for shard in np.unique(shards).tolist():
            array, chosen = arrays[shard], rows[shards == shard]
            room = batches.room(len(chosen) * (array.nbytes // len(array)))
            out = room.view(array.dtype).reshape(len(chosen), *array.shape[1:])
            np.take(array, chosen, axis=0, out=out, mode="clip")

    return take


def _decoder(pack: Pack, field: Field) -> _Take:
    """Decodes of pictures, each put into its batch; other bytes are only touched."""
    buffer = bytearray(_LARGEST_PICTURE)
    batches = _Batches(_LARGEST_PICTURE)

    def take(indices: NDArray[np.int64], random: np.random.Generator) -> None:
        for index in indices.tolist():
            if field.codec is Codec.CROP_JPEG:
                pixels = _decode_crop(pack, index, random, buffer)
            elif field.codec in (Codec.JPEG, Codec.SOURCE):
                shard, row = pack.locate(index)
                needed = int(np.prod(pack.shapes(field.name, shard)[row]))
                fits = buffer if needed <= len(buffer) else None
                pixels = _decode_whole(bytes(pack.raw(field.name, index)), fits)
            else:
                pixels = np.frombuffer(pack.raw(field.name, index), np.uint8)
            if pixels.nbytes <= _LARGEST_PICTURE:
                batches.room(pixels.nbytes).reshape(pixels.shape)[:] = pixels

    return take


def _decode_whole(data: bytes, buffer: bytearray | None) -> NDArray[np.uint8]:
    """As the Loader does: JPEGs by simplejpeg, into memory that is used again."""
    if data.startswith(_JPEG):
        import simplejpeg

        # CMYK is no JPEG that it turns RGB.
        with contextlib.suppress(ValueError):
            decoded: NDArray[np.uint8] = simplejpeg.decode_jpeg(
                data, colorspace="RGB", buffer=buffer
            )
            return decoded
    from PIL import Image

    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(image.convert("RGB"))


def _decode_crop(
    pack: Pack, index: int, random: np.random.Generator, buffer: bytearray
) -> NDArray[np.uint8]:
    from stoker.pack import crop_jpeg

    shard, row = pack.locate(index)
    height, width, _ = pack.shapes("image", shard)[row].tolist()
    across, down = (max(1, int(side * CROP_SHARE**0.5)) for side in (width, height))
    left, top = int(random.integers(width - across + 1)), int(random.integers(height - down + 1))
    box = crop_jpeg.Box(left, top, left + across, top + down)
    return crop_jpeg.decode(
        bytes(pack.raw("image", index)), pack.segments("image", index), box, buffer=buffer
    )
