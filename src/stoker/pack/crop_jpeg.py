"""Crop-addressable JPEG: an ordinary JPEG whose crops decode at the cost of their area.

A restart marker every few MCUs makes the segments of the entropy-coded data independent. A crop is
then a byte-level operation: the segments that cover it, renumbered, under a head with the crop's
size, for any stock decoder. Other programs see an ordinary picture.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stoker.pack import jpeg_head
from stoker.pack.jpeg_head import Buffer

# The DCT scales that libjpeg-turbo has fast code for; others are slower than a full decode.
SCALES = (1, 2, 4, 8)
# Width of a segment in pixels. Measured (benchmarks/crop_jpeg.py): in pictures of 512 pixels a crop
# takes a tenth longer from segments of 64 than of 32; from 1024 on it takes the same, and the
# markers cost half as many bytes.
_SPAN, _WIDE_SPAN, _WIDE = 32, 64, 768


class Box(NamedTuple):
    """A part of a picture in its pixels: columns left … right − 1, rows top … bottom − 1."""

    left: int
    top: int
    right: int
    bottom: int


class Head(NamedTuple):
    """What the bytes before the entropy-coded data say."""

    length: int  # bytes up to the entropy-coded data
    size_at: int  # where height and width stand
    width: int
    height: int
    span: tuple[int, int]  # width and height of a segment in pixels
    columns: int  # segments a row
    channels: int
    # Where chroma is coarser than luma a decoder interpolates over the border of segments.
    is_blended: tuple[bool, bool]  # across, down


class Cut(NamedTuple):
    """A JPEG of a part of a picture, and where in the picture it lies."""

    jpeg: bytearray
    box: Box
    channels: int


def read_head(jpeg: Buffer) -> Head:
    """The head of a crop-jpeg. Raises ValueError for a JPEG that isn't one."""
    found = jpeg_head.read(jpeg)
    if not found.is_sequential:
        raise ValueError("a progressive JPEG has no segments that can be cut out")
    if not found.interval:
        raise ValueError("a JPEG without restart markers can't be cut")
    across, down = found.mcu
    per_row = -(-found.width // across)
    if per_row % found.interval:
        raise ValueError(f"rows of {per_row} MCUs are no multiple of a segment's {found.interval}")
    return Head(
        length=found.length,
        size_at=found.size_at,
        width=found.width,
        height=found.height,
        span=(across * found.interval, down),
        columns=per_row // found.interval,
        channels=len(found.sampling),
        is_blended=(across > 8, down > 8),
    )


@functools.lru_cache(maxsize=256)
def _known_head(head: bytes) -> Head:
    """Heads of one encoder and size are equal: the same pack has few."""
    return read_head(head)


def encode(
    image: Any, *, quality: int = 90, subsampling: str = "4:2:0", span: int | None = None
) -> bytes:
    """A crop-jpeg of a Pillow image, RGB or L. `subsampling` is 4:2:0, 4:2:2 or 4:4:4.

    `span` is the greatest width of a segment in pixels, chosen by the picture's width if None.
    """
    span = span or (_WIDE_SPAN if image.width >= _WIDE else _SPAN)
    across = 1 if image.mode == "L" or subsampling == "4:4:4" else 2
    columns = -(-image.width // (8 * across))
    interval = restart_interval(columns, wanted=max(1, span // (8 * across)))
    buffer = io.BytesIO()
    options = {} if image.mode == "L" else {"subsampling": subsampling}
    image.save(buffer, "JPEG", quality=quality, restart_marker_blocks=interval, **options)
    return buffer.getvalue()


def restart_interval(mcu_columns: int, *, wanted: int) -> int:
    """MCUs a segment: a divisor of the MCUs a row, so that no segment runs over two rows.

    The largest divisor up to `wanted`; a prime number of columns leaves 1.
    """
    return max(n for n in range(1, wanted + 1) if mcu_columns % n == 0)


def segment_lengths(jpeg: bytes) -> NDArray[np.uint16]:
    """Bytes of every segment, markers not counted, row by row.

    Raises ValueError when the JPEG can't be cut or a segment is longer than 65,535 bytes.
    """
    head = read_head(jpeg)
    data = np.frombuffer(jpeg, np.uint8)
    body = data[head.length : len(data) - 2]
    # FF in the data is followed by 00 always, so FF D0 … FF D7 are markers and nothing else.
    markers = np.flatnonzero((body[:-1] == 0xFF) & ((body[1:] & 0xF8) == 0xD0))
    lengths = np.diff(markers, prepend=-2, append=len(body)) - 2
    rows = -(-head.height // head.span[1])
    if len(lengths) != rows * head.columns:
        raise ValueError(f"{len(lengths)} segments, {rows} × {head.columns} expected")
    if lengths.max() > np.iinfo(np.uint16).max:
        raise ValueError(f"a segment of {lengths.max():,} bytes")
    return lengths.astype(np.uint16)


def cut(jpeg: Buffer, lengths: NDArray[np.uint16], box: Box, *, scale: int = 1) -> Cut:
    """The smallest JPEG that decodes to the box, equal to the whole decode in every pixel of it.

    `lengths` are the segment lengths that the pack keeps; `scale` is the DCT scale 1/`scale` that
    it will be decoded at. The result covers the box and some pixels around it. Raises ValueError
    for a box that isn't inside the picture.
    """
    view = memoryview(jpeg)
    ends = np.cumsum(lengths, dtype=np.int64)
    head_length = len(view) - 2 - int(ends[-1]) - 2 * (len(lengths) - 1)
    head = _known_head(bytes(view[:head_length]))
    left, right = _covering((box.left, box.right), head.width, head, axis=0, scale=scale)
    top, bottom = _covering((box.top, box.bottom), head.height, head, axis=1, scale=scale)
    # Ends of the segments in the file: a marker of two bytes stands before each but the first.
    ends += _markers_before(len(ends))
    ends += head_length
    grid_ends = ends.reshape(-1, head.columns)[top:bottom, left:right]
    grid_starts = grid_ends - lengths.reshape(-1, head.columns)[top:bottom, left:right]
    first, last = grid_starts[:, 0], grid_ends[:, -1]
    area = Box(
        left * head.span[0],
        top * head.span[1],
        min(head.width, right * head.span[0]),
        min(head.height, bottom * head.span[1]),
    )
    out, moved = _joined(view, head, area, zip(first.tolist(), last.tolist(), strict=True))
    # Restart markers count 0 to 7 in turn from the start of the picture, so they are renumbered.
    at = (grid_starts + np.array(moved)[:, None]).ravel()[1:] - 1
    np.frombuffer(out, np.uint8)[at] = _restart_markers(at.size)
    return Cut(out, area, head.channels)


def _covering(
    ends: tuple[int, int], size: int, head: Head, *, axis: int, scale: int
) -> tuple[int, int]:
    """First and last-but-one segment that the pixels `ends` need along an axis."""
    start, stop = ends
    if not 0 <= start < stop <= size:
        raise ValueError(f"pixels {start} to {stop} of {size}")
    span = head.span[axis]
    # One pixel more of what is decoded where chroma is interpolated: libjpeg's "fancy upsampling"
    # looks one chroma sample to either side, so only the outermost pixel at a cut is wrong.
    more = scale if head.is_blended[axis] else 0
    first, last = max(0, start - more) // span, -(-min(size, stop + more) // span)
    # libjpeg doesn't interpolate in pictures of less than three chroma samples a row, and up to
    # eight pixels have the same size at two scales: a sliver is decoded with its neighbour.
    while (found := min(size, last * span) - first * span) <= 4 * scale and found < size:
        first, last = (first - 1, last) if first else (first, last + 1)
    return first, last


def _joined(
    view: memoryview, head: Head, area: Box, rows: Iterable[tuple[int, int]]
) -> tuple[bytearray, list[int]]:
    """A JPEG of these parts of a file, one a row of segments, and how far each was moved."""
    start = bytearray(view[: head.length])
    height, width = area.bottom - area.top, area.right - area.left
    size = height.to_bytes(2, "big") + width.to_bytes(2, "big")
    start[head.size_at : head.size_at + 4] = size
    parts: list[Any] = [start]
    moved, at = [], head.length
    for begin, end in rows:
        parts += (view[begin:end], b"\xff\xd0")
        moved.append(at - begin)
        at += end - begin + 2
    parts[-1] = b"\xff\xd9"
    return bytearray().join(parts), moved


@functools.lru_cache(maxsize=16)
def _markers_before(count: int) -> NDArray[np.int64]:
    """Bytes of the markers before each of so many segments."""
    return 2 * np.arange(count)


@functools.lru_cache(maxsize=256)
def _restart_markers(count: int) -> NDArray[np.uint8]:
    """The second bytes of so many restart markers in turn."""
    return (0xD0 + (np.arange(count) & 7)).astype(np.uint8)


def scale_for(box: Box, target: tuple[int, int]) -> int:
    """The largest of SCALES at which the box still has at least `target` (height, width) pixels."""
    height, width = box.bottom - box.top, box.right - box.left
    fitting = [s for s in SCALES if height // s >= target[0] and width // s >= target[1]]
    return fitting[-1] if fitting else 1


def decode(
    jpeg: Buffer,
    lengths: NDArray[np.uint16],
    box: Box,
    *,
    scale: int = 1,
    buffer: bytearray | None = None,
    is_chroma_blended: bool = True,
) -> NDArray[np.uint8]:
    """The pixels of a box: (height, width, channels) uint8, a view of what was decoded.

    With `scale` 2, 4 or 8 the picture at that fraction of its size, and the pixels of it that
    cover the box. Coarser chroma is interpolated, unless `is_chroma_blended` is False. `buffer` is
    reused when it is large enough: fresh memory costs half a decode.
    Needs simplejpeg. Raises ValueError for bytes that are no crop-jpeg, or damaged.
    """
    import simplejpeg

    part = cut(jpeg, lengths, box, scale=scale)
    area = part.box
    height, width = -(-(area.bottom - area.top) // scale), -(-(area.right - area.left) // scale)
    needed = height * width * part.channels
    if buffer is not None and len(buffer) < needed:
        buffer = None
    pixels: NDArray[np.uint8] = simplejpeg.decode_jpeg(
        part.jpeg,
        colorspace="GRAY" if part.channels == 1 else "RGB",
        min_height=height if scale > 1 else 0,
        min_width=width if scale > 1 else 0,
        min_factor=scale,
        fastupsample=not is_chroma_blended,
        buffer=buffer,
    )
    top, left = box.top // scale - area.top // scale, box.left // scale - area.left // scale
    bottom = -(-box.bottom // scale) - area.top // scale
    right = -(-box.right // scale) - area.left // scale
    return pixels[top:bottom, left:right]
