"""JPEG bytes to the rows of a batch: decode, cut, resize, all without the GIL.

Of a crop-addressable JPEG only the segments under the crop are decoded; of any other the rows down
to the end of the crop, at half scale or less when the crop is shrunk by as much.
"""

from __future__ import annotations

import importlib
import io
import threading
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from stoker.errors import InputError, LoaderError
from stoker.loader import draws, upper
from stoker.loader.boxes import Boxes
from stoker.loader.crops import Crop, is_resized, sides
from stoker.loader.packed import Rows
from stoker.loader.slots import Field
from stoker.pack import crop_jpeg, jpeg_head
from stoker.pack.crop_jpeg import Box

Decoder = Literal["simplejpeg", "pillow"]
DECODERS: tuple[Decoder, ...] = ("simplejpeg", "pillow")
_CHANNELS = 3
_JPEG = b"\xff\xd8"


class Picture(NamedTuple):
    """An encoded picture. `segments` are those of a crop-addressable JPEG."""

    data: bytes | bytearray | memoryview
    name: str
    segments: NDArray[np.uint16] | None = None


class Pictures(Protocol):
    """Where encoded pictures come from."""

    def read(self, sample: int) -> Picture:
        """The bytes of one."""
        ...

    def name(self, sample: int) -> str:
        """What to call it in a message."""
        ...


class JpegColumn:
    """Pictures that are decoded when they are asked for, RGB (height, width, 3) of one size."""

    def __init__(self, name: str, pictures: Pictures, *, crop: Crop, decoder: Decoder) -> None:
        self._pictures = pictures
        self._crop = crop
        self._decode = _WAYS[decoder](crop)
        self._scratch = threading.local()
        self.field = Field.of(name, (*sides(crop.size), _CHANNELS), np.uint8)

    def fill(self, rows: Rows, out: NDArray[Any]) -> None:
        """Read all of them, draw their boxes together, then decode one after the other."""
        samples, activity = rows.samples, rows.activity
        pictures = []
        for sample in samples.tolist():
            activity.enter("read", sample, self._pictures.name(sample))
            pictures.append(self._pictures.read(sample))
        sizes = np.empty((2, len(samples)), np.int64)
        for number, picture in enumerate(pictures):
            activity.enter("header", int(samples[number]), picture.name)
            sizes[:, number] = self._decode.size(picture)
            self._check_fits(sizes[:, number], picture)
        cut = self._crop.boxes(draws.Chance(rows.keys, draws.CROP_STEP), (sizes[0], sizes[1]))
        for number, picture in enumerate(pictures):
            activity.enter("decode", int(samples[number]), picture.name)
            pixels = self._decode.pixels(picture, _box(cut, number), self._scratch)
            activity.enter("resize", int(samples[number]), picture.name)
            self._decode.place(pixels, out[number])

    def _check_fits(self, size: NDArray[np.int64], picture: Picture) -> None:
        height, width = sides(self._crop.size)
        if is_resized(self._crop) or (height <= size[0] and width <= size[1]):
            return
        raise InputError(
            f"{picture.name} has {size[0]}x{size[1]} pixels, and {height}x{width} are to be cut",
            looked_at="the head of the picture",
            run_next="crop less, or use RandomResizedCrop, which enlarges",
        )


class _Decoding(NamedTuple):
    """At which DCT scale, 1/`scale`, and whether coarser chroma is interpolated."""

    scale: int
    is_chroma_blended: bool


class _Fast:
    """simplejpeg (libjpeg-turbo) and torch's antialiased resize of uint8."""

    def __init__(self, crop: Crop) -> None:
        self._simplejpeg: Any = _needed("simplejpeg", "pip install 'stoker[images]'")
        self._is_resized = is_resized(crop)
        self._target = sides(crop.size)
        if self._is_resized:
            self._torch: Any = _needed("torch", "pip install torch")
            # What torch.nn.functional.interpolate calls, which has no `out`.
            self._resize = self._torch.ops.aten._upsample_bilinear2d_aa.out

    def size(self, picture: Picture) -> tuple[int, int]:
        """(height, width), from the head alone."""
        if bytes(picture.data[:2]) != _JPEG:
            return _size_of(_opened(picture))
        try:
            height, width, _, _ = self._simplejpeg.decode_jpeg_header(picture.data)
        except ValueError as error:
            raise _broken(picture, error) from error
        return height, width

    def pixels(self, picture: Picture, box: Box, scratch: Any) -> NDArray[np.uint8]:
        """The box's pixels, or the same part at a smaller scale that is still large enough."""
        if bytes(picture.data[:2]) != _JPEG:
            return np.asarray(_opened(picture).convert("RGB").crop(box))
        decoding = self._decoding(box)
        try:
            if picture.segments is not None:
                found = crop_jpeg.decode(
                    picture.data,
                    picture.segments,
                    box,
                    scale=decoding.scale,
                    buffer=_buffer(scratch, 0),
                    is_chroma_blended=decoding.is_chroma_blended,
                )
                if found.shape[2] == 1:
                    found = np.broadcast_to(found, (*found.shape[:2], _CHANNELS))
                return found
            return self._ordinary(picture, box, decoding, scratch)
        except ValueError as error:
            raise _broken(picture, error) from error

    def _decoding(self, box: Box) -> _Decoding:
        if not self._is_resized:
            return _Decoding(1, True)
        is_shrunk = box.bottom - box.top >= self._target[0] and (
            box.right - box.left >= self._target[1]
        )
        # Shrinking blends neighbours anyway.
        return _Decoding(crop_jpeg.scale_for(box, self._target), not is_shrunk)

    def _ordinary(
        self, picture: Picture, box: Box, decoding: _Decoding, scratch: Any
    ) -> NDArray[np.uint8]:
        """The box, of a picture that is decoded down to the last row of it."""
        pixels, scale = self._upper(picture, box.bottom, decoding, scratch), decoding.scale
        if pixels is None:
            height, width, _, _ = self._simplejpeg.decode_jpeg_header(picture.data)
            pixels = self._decoded(picture.data, (height, width), decoding, scratch)
        return pixels[
            box.top // scale : -(-box.bottom // scale), box.left // scale : -(-box.right // scale)
        ]

    def _upper(
        self, picture: Picture, bottom: int, decoding: _Decoding, scratch: Any
    ) -> NDArray[np.uint8] | None:
        """The rows above `bottom`; None where the whole picture has to be decoded."""
        try:
            head = jpeg_head.read(picture.data)
        except (ValueError, IndexError):  # the decoder says what is wrong with it
            return None
        rows = upper.rows_for(head, bottom, scale=decoding.scale)
        if rows is None:
            return None
        size = (rows, head.width)
        try:
            return self._decoded(upper.ended_at(picture.data, head, rows), size, decoding, scratch)
        except ValueError as error:
            if not upper.is_only_rest(error):
                return None
        height, width = _scaled(size, decoding.scale)
        count = height * width * _CHANNELS
        decoded = np.frombuffer(_buffer(scratch, count), np.uint8, count)
        return decoded.reshape(height, width, _CHANNELS)

    def _decoded(
        self, data: Any, size: tuple[int, int], decoding: _Decoding, scratch: Any
    ) -> NDArray[np.uint8]:
        """A picture of `size` (height, width), in the thread's own memory."""
        scale = decoding.scale
        height, width = _scaled(size, scale)
        pixels: NDArray[np.uint8] = self._simplejpeg.decode_jpeg(
            data,
            colorspace="RGB",
            min_height=height if scale > 1 else 0,
            min_width=width if scale > 1 else 0,
            min_factor=scale,
            fastupsample=not decoding.is_chroma_blended,
            # Decoding into fresh memory costs half a decode more.
            buffer=_buffer(scratch, height * width * _CHANNELS),
        )
        return pixels

    def place(self, pixels: NDArray[np.uint8], row: NDArray[np.uint8]) -> None:
        """Bring the pixels to the size of the row."""
        if pixels.shape == row.shape:
            row[:] = pixels
            return
        # Pillow's pixels are read-only, of which torch warns.
        own = np.require(pixels, requirements=["C", "W"])
        # Straight into the row: fresh memory for every result takes longer than resizing does. The
        # batch comes first, or torch does not see that the channels are last, and is slow.
        picture, target = (
            self._torch.from_numpy(part[None]).permute(0, 3, 1, 2) for part in (own, row)
        )
        self._resize(picture, row.shape[:2], False, out=target)


class _Pillow:
    """Pixel for pixel what Pillow gives for open, convert, crop and a bilinear resize."""

    def __init__(self, crop: Crop) -> None:
        _needed("PIL", "pip install 'stoker[images]'")
        self._resample = importlib.import_module("PIL.Image").Resampling.BILINEAR
        self._target = sides(crop.size)

    def size(self, picture: Picture) -> tuple[int, int]:
        """(height, width), from the head alone."""
        return _size_of(_opened(picture))

    def pixels(self, picture: Picture, box: Box, _: Any) -> NDArray[np.uint8]:
        """The box, resized."""
        image = _opened(picture).convert("RGB").crop(box)
        height, width = self._target
        if (image.height, image.width) != self._target:
            image = image.resize((width, height), self._resample)
        return np.asarray(image)

    def place(self, pixels: NDArray[np.uint8], row: NDArray[np.uint8]) -> None:
        """Copy."""
        row[:] = pixels


_WAYS: dict[Decoder, Any] = {"simplejpeg": _Fast, "pillow": _Pillow}


def decoded(data: bytes, name: str) -> NDArray[np.uint8]:
    """A whole picture, RGB (height, width, 3). `name` is for messages."""
    picture = Picture(data, name)
    if data[:2] != _JPEG:
        return np.array(_opened(picture).convert("RGB"))  # a copy that may be written to
    simplejpeg: Any = _needed("simplejpeg", "pip install 'stoker[images]'")
    try:
        pixels: NDArray[np.uint8] = simplejpeg.decode_jpeg(data, colorspace="RGB")
    except ValueError as error:
        raise _broken(picture, error) from error
    return pixels


def _opened(picture: Picture) -> Any:
    pillow: Any = _needed("PIL.Image", "pip install 'stoker[images]'")
    try:
        return pillow.open(io.BytesIO(picture.data))
    except OSError as error:  # Pillow's UnidentifiedImageError is one
        raise _broken(picture, error) from error


def _size_of(image: Any) -> tuple[int, int]:
    return int(image.height), int(image.width)


def _broken(picture: Picture, error: Exception) -> LoaderError:
    return LoaderError(
        f"{picture.name} cannot be decoded: {error}",
        looked_at=f"its {len(picture.data):,} bytes",
        run_next="leave that file out, or `stoker pack` the folder: it quarantines such files",
    )


def _scaled(size: tuple[int, int], scale: int) -> tuple[int, int]:
    """Height and width of what is decoded at 1/`scale`."""
    return -(-size[0] // scale), -(-size[1] // scale)


def _box(cut: Boxes, number: int) -> Box:
    top, left = int(cut.top[number]), int(cut.left[number])
    return Box(left, top, left + int(cut.width[number]), top + int(cut.height[number]))


def _buffer(scratch: Any, size: int) -> bytearray:
    """This thread's memory for one decoded picture, grown to the largest so far."""
    buffer: bytearray | None = getattr(scratch, "buffer", None)
    if buffer is None or len(buffer) < size:
        # A picture of 512² at least, so that it rarely grows.
        buffer = scratch.buffer = bytearray(max(size, 512 * 512 * _CHANNELS))
    return buffer


def _needed(module: str, install: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise InputError(
            f"decoding pictures needs {module}, which is not installed",
            looked_at=f"import {module}: {error}",
            run_next=install,
        ) from error
