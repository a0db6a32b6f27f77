"""How fast this machine reads packs and sources: the disk, and the processors out of memory.

Writes one file of DISK_BYTES and removes it; everything else is read. Sources and packs are read
in one way, by as many threads with the Loader's decoder, so that their rates can be compared.
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

import msgspec
import numpy as np
from numpy.typing import NDArray

from stoker.errors import PackError
from stoker.pack.imaging import fitted
from stoker.pack.manifest import Codec, Field, Transform
from stoker.pack.reader import Pack
from stoker.pack.sources.dataset import SAMPLE_ERRORS
from stoker.pack.sources.listing import Kind, Listing
from stoker.pack.sources.reading import SampleReader
from stoker.stats import Spread, bootstrap

# Enough to be past a disk's own cache, little enough to be written in a second or so.
DISK_BYTES = 128 * 2**20
_PIECE = 2**20
_READERS = 4
# Stretches whose rates make the interval; together half a second a candidate.
_STRETCHES, _STRETCH_S = 5, 0.1
# The share of a picture's area that RandomResizedCrop(0.08 to 1) takes on average.
CROP_SHARE = 0.54
# Copied at once; decoded pictures are many times dearer, and looked at the clock for after fewer.
_BATCH, _FEW = 32, 4
# A loader's batches are written to memory, not to a cache: so much of it, in turn, for a thread.
_TURNED_OVER = 64 * 2**20
# Larger ones are decoded into memory of their own, and are no part of a batch.
_LARGEST_PICTURE = 16 * 2**20
_JPEG = b"\xff\xd8"

_Take = Callable[[NDArray[np.int64], np.random.Generator], int]


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


def reads(pack: Pack, threads: int, *, fit: Transform) -> Spread:
    """Samples a second that so many threads take out of a pack that is in the page cache.

    Raw pixels are copied, JPEGs decoded, of a crop-jpeg the part that a random crop takes; files
    that were kept are decoded and brought to the size of `fit`. All is put into memory that is
    turned over as a loader's batches are.
    """
    return _rate([_taker(pack, fit) for _ in range(threads)], pack.usable)


def sources(listing: Listing, fit: Transform, threads: int) -> Spread:
    """The same out of the files themselves: opened, read, decoded, brought to the size of `fit`.

    Samples that can't be read count for nothing. Raises PackError where that is all of them.
    """
    # What `reads` takes of a pack, and nothing beside it.
    column = next((one for one in listing.columns if one.name == "image"), listing.columns[0])
    some = msgspec.structs.replace(listing, columns=(column,))
    readers = [SampleReader(some.kind, some.location, some.columns) for _ in range(threads)]
    try:
        takers = [_file_taker(some, reader, fit) for reader in readers]
        found = _rate(takers, np.arange(len(listing)))
    finally:
        for reader in readers:
            reader.close()
    if not found.median:
        raise PackError(
            f"none of the samples of {listing.location} that were tried could be read",
            looked_at=f"{len(listing):,} of them, for {_STRETCHES * _STRETCH_S:.1f} s",
            run_next="see that the source is what you think it is",
        )
    return found


# What is counted of a Dataset, whose samples only its own code makes.
MADE = "made by the Dataset, and stored"


def counted_of(transform: Transform, fit: Transform) -> str:
    """What `reads` does for a sample of a pack that was made so."""
    match transform.tier:
        case "keep":
            return f"decoded{_resized(fit)}"
        case "crop-jpeg":
            return f"a random crop decoded, {CROP_SHARE:.0%} of the area"
        case "jpeg":
            return "decoded"
        case _:
            return "copied"


def counted_of_sources(fit: Transform) -> str:
    """What `sources` does for a sample."""
    return f"read, decoded{_resized(fit)}"


def _resized(fit: Transform) -> str:
    return "" if fit.size is None else f", resized to {fit.size}"


class _Taker(NamedTuple):
    """Takes samples by their indices, so many at once; says how many of them could be taken."""

    take: _Take
    at_once: int


def _rate(takers: list[_Taker], indices: NDArray[np.int64]) -> Spread:
    """Samples a second of all of them at once, each in a thread of its own."""
    threads = len(takers)
    with ThreadPoolExecutor(threads) as pool:

        def stretch(seed: int) -> float:
            rates = pool.map(
                lambda n: _read_for(indices, takers[n], seed * threads + n), range(threads)
            )
            return sum(rates)

        stretch(99)  # pages and maps are there afterwards
        return bootstrap([stretch(seed) for seed in range(_STRETCHES)])


def _read_for(indices: NDArray[np.int64], taker: _Taker, seed: int) -> float:
    """Samples a second of one thread in a stretch; what was begun at its end is finished."""
    random = np.random.default_rng(seed)
    began = now = time.perf_counter()
    count = 0
    while now < began + _STRETCH_S:
        count += taker.take(random.choice(indices, taker.at_once), random)
        now = time.perf_counter()
    return count / (now - began)


def _taker(pack: Pack, fit: Transform) -> _Taker:
    """Reads samples of the pictures, or of the first field of a pack without."""
    field = pack.field("image") if "image" in pack.fields else pack.batch_fields[0]
    if field.is_fixed:
        return _Taker(_gatherer(pack, field.name), _BATCH)
    return _Taker(_decoder(pack, field, fit), _FEW)


def _file_taker(listing: Listing, reader: SampleReader, fit: Transform) -> _Taker:
    """Reads samples of one column as they lie in their files; pictures are decoded."""
    column = listing.columns[0]
    buffer = bytearray(_LARGEST_PICTURE)
    batches = _Batches(_LARGEST_PICTURE)

    def take(indices: NDArray[np.int64], _: np.random.Generator) -> int:
        count = 0
        for index in indices.tolist():
            try:
                read = reader.read(listing.sample(index))[column.name]
                if column.kind is Kind.IMAGE:
                    batches.put(_sized(_decode_whole(read, buffer), fit))
            except ImportError:
                raise
            except SAMPLE_ERRORS:
                continue
            count += 1
        return count

    return _Taker(take, _FEW)


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

    def put(self, pixels: NDArray[np.uint8]) -> None:
        """A picture into its place; one that is too large for a batch stays where it is."""
        if pixels.nbytes <= _LARGEST_PICTURE:
            self.room(pixels.nbytes).reshape(pixels.shape)[:] = pixels


def _gatherer(pack: Pack, name: str) -> _Take:
    """Copies of samples into a batch."""
    arrays = [pack.array(name, shard) for shard in range(len(pack.shards))]
    largest = max(array.nbytes // len(array) for array in arrays)
    batches = _Batches(_BATCH * largest)

    def take(indices: NDArray[np.int64], _: np.random.Generator) -> int:
        shards, rows = pack.locate_many(indices)
        for shard in np.unique(shards).tolist():
            array, chosen = arrays[shard], rows[shards == shard]
            room = batches.room(len(chosen) * (array.nbytes // len(array)))
            out = room.view(array.dtype).reshape(len(chosen), *array.shape[1:])
            np.take(array, chosen, axis=0, out=out, mode="clip")
        return len(indices)

    return take


def _decoder(pack: Pack, field: Field, fit: Transform) -> _Take:
    """Decodes of pictures, each put into its batch; other bytes are only touched."""
    buffer = bytearray(_LARGEST_PICTURE)
    batches = _Batches(_LARGEST_PICTURE)

    def take(indices: NDArray[np.int64], random: np.random.Generator) -> int:
        for index in indices.tolist():
            if field.codec is Codec.CROP_JPEG:
                pixels = _decode_crop(pack, index, random, buffer)
            elif field.codec in (Codec.JPEG, Codec.SOURCE):
                pixels = _decode_whole(bytes(pack.raw(field.name, index)), buffer)
                if field.codec is Codec.SOURCE:
                    pixels = _sized(pixels, fit)
            else:
                pixels = np.frombuffer(pack.raw(field.name, index), np.uint8)
            batches.put(pixels)
        return len(indices)

    return take


def _sized(pixels: NDArray[np.uint8], fit: Transform) -> NDArray[np.uint8]:
    """A whole picture at the size that is asked for."""
    from PIL import Image

    return np.asarray(fitted(Image.fromarray(pixels), fit, None))


def _decode_whole(data: bytes, buffer: bytearray) -> NDArray[np.uint8]:
    """As the Loader does: JPEGs by simplejpeg, into memory that is used again if it holds them."""
    if data.startswith(_JPEG):
        import simplejpeg

        # CMYK is no JPEG that it turns RGB.
        with contextlib.suppress(ValueError):
            height, width, _, _ = simplejpeg.decode_jpeg_header(data)
            fits = 3 * height * width <= len(buffer)
            decoded: NDArray[np.uint8] = simplejpeg.decode_jpeg(
                data, colorspace="RGB", buffer=buffer if fits else None
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
