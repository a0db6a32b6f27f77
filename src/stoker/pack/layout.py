"""The whole format on one page: names of files, their headers, their blocks.

A pack is a folder: `manifest.json` and, for every shard and field, files that numpy reads alone.

    manifest.json               written last, by rename; without it there is no pack
    shard-00012.image.npy       fixed-size field: one array (samples, height, width, channels)
    shard-00012.text.bin        ragged field: the samples' bytes, one after the other …
    shard-00012.text.off.npy    … uint64 (samples + 1): where each begins, in bytes …
    shard-00012.text.shape.npy  … int32 (samples, axes): the shape of each
    journal.jsonl               only while packing: the shards that are finished

No file is read or written here, beyond the header of an `.npy`.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

FORMAT_VERSION = 1
MANIFEST = "manifest.json"
JOURNAL = "journal.jsonl"
# What is still being written; no reader looks at it.
PART = ".part"
# An .npy header is padded to one page, so that the first sample is aligned for preadv, O_DIRECT
# and mmap. numpy itself allows any padding.
HEADER_BYTES = 4096
# A damaged byte is told by its block; 1 MiB costs 4 bytes of checksum for 5 photos of 256 pixels.
BLOCK_BYTES = 1 << 20
# The axes of arrays whose shapes differ from sample to sample, as fields name them.
AXES = "NMKLJI"
# Large enough that opening a file is lost in reading it, small enough to be done again.
SHARD_BYTES = 256 * 10**6


def stem(number: int, generation: int = 1) -> str:
    """The name that a shard's files begin with: those of a later generation never collide."""
    return f"shard-{number:05}" if generation == 1 else f"shard-{number:05}-{generation}"


def array_file(shard_stem: str, field: str) -> str:
    """The file of a fixed-size field."""
    return f"{shard_stem}.{field}.npy"


def bytes_file(shard_stem: str, field: str) -> str:
    """The bytes of a ragged field."""
    return f"{shard_stem}.{field}.bin"


def offsets_file(shard_stem: str, field: str) -> str:
    """Where the samples of a ragged field begin: uint64 (samples + 1), in bytes."""
    return f"{shard_stem}.{field}.off.npy"


def shapes_file(shard_stem: str, field: str) -> str:
    """The shapes of the samples of a ragged field: int32 (samples, axes)."""
    return f"{shard_stem}.{field}.shape.npy"


def files_of(shard_stem: str, field: str, *, is_fixed: bool) -> tuple[str, ...]:
    """All files of one field in one shard."""
    if is_fixed:
        return (array_file(shard_stem, field),)
    return (
        bytes_file(shard_stem, field),
        offsets_file(shard_stem, field),
        shapes_file(shard_stem, field),
    )


def header(dtype: np.dtype[Any], shape: Sequence[int]) -> bytes:
    """The first HEADER_BYTES of an .npy file (format 1.0) of that type and shape, C order.

    The text is what numpy writes (numpy.lib.format), padded with spaces to a whole page. Raises
    ValueError for a type or shape whose text is longer than a page.
    """
    described = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False}
    text = repr({**described, "shape": tuple(int(n) for n in shape)}).encode("latin1")
    length = HEADER_BYTES - 10
    if len(text) >= length:
        raise ValueError(f"the type {dtype} with shape {tuple(shape)} doesn't fit in a header")
    padded = text + b" " * (length - len(text) - 1) + b"\n"
    return b"\x93NUMPY\x01\x00" + length.to_bytes(2, "little") + padded


class BlockSums:
    """Checksums (crc32) of the blocks of a stream of bytes that comes in pieces of any size."""

    def __init__(self) -> None:
        self.size = 0
        self._current = 0
        self._blocks: list[int] = []

    def add(self, piece: bytes | memoryview) -> None:
        """Count the next bytes in."""
        view = memoryview(piece).cast("B")
        while len(view):
            room = BLOCK_BYTES - self.size % BLOCK_BYTES
            taken = view[:room]
            self._current = zlib.crc32(taken, self._current)
            self.size += len(taken)
            if self.size % BLOCK_BYTES == 0:
                self._blocks.append(self._current)
                self._current = 0
            view = view[room:]

    @property
    def blocks(self) -> str:
        """The blocks' checksums, eight hexadecimal digits each."""
        tail = [self._current] if self.size % BLOCK_BYTES else []
        return "".join(f"{value:08x}" for value in (*self._blocks, *tail))


def file_sum(blocks: str) -> int:
    """The checksum of a whole file: the crc32 of its blocks' checksums, as text."""
    return zlib.crc32(blocks.encode())


def block_sum(blocks: str, number: int) -> int:
    """The checksum of one block out of the text of `BlockSums.blocks`."""
    return int(blocks[8 * number : 8 * number + 8], 16)
