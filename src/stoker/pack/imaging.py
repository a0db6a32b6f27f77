"""From the bytes of a picture to what is stored: decoded, turned RGB, resized, encoded.

Pillow throughout, as torchvision, timm and most scripts have it, so that pixels are theirs. Its
JPEG decoder gives the same pixels as simplejpeg's, and resizing costs more than either.
"""

from __future__ import annotations

import io
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from stoker.pack.manifest import Transform

RESAMPLERS = {
    "nearest": Image.Resampling.NEAREST,
    "box": Image.Resampling.BOX,
    "bilinear": Image.Resampling.BILINEAR,
    "hamming": Image.Resampling.HAMMING,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}
FITS = ("shorter", "exact", "pad", "bucket")
# Longer side over shorter: the families of --fit bucket. Each picture goes to the nearest.
BUCKET_RATIOS = (1.0, 5 / 4, 4 / 3, 3 / 2, 16 / 9, 2.0)
_ORIENTATION = 0x0112
# How a picture of each EXIF orientation is set upright; 1 is upright.
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
# Those that lay a picture on its side.
_LYING = (5, 6, 7, 8)
# Pixels of the whole picture at its new scale, beyond which only the centre is made: what Pillow
# allows a picture to have.
_LARGEST_SCALED = 178_956_970
BombWarning = Image.DecompressionBombWarning


class Opened(NamedTuple):
    """A picture, and what was found about it ("cmyk", "exif-ignored", …)."""

    image: Image.Image
    notes: tuple[str, ...]


def open_picture(data: bytes | Image.Image | NDArray[np.uint8], *, exif: str) -> Opened:
    """Decode to RGB; of an animation the first frame. `exif` is "ignore" or "apply".

    Sixteen bits are cut to the upper eight, transparency is dropped, as `convert("RGB")` does.
    Raises what Pillow raises for bytes that are no picture, or a damaged one; its
    DecompressionBombError is for more than 179 million pixels.
    """
    if not isinstance(data, bytes):
        given = Image.fromarray(data) if isinstance(data, np.ndarray) else data
        return Opened(_rgb(given), _mode_notes(given))
    if not data:
        raise ValueError("the file is empty")
    with Image.open(io.BytesIO(data)) as opened:
        notes = list(_mode_notes(opened))
        if getattr(opened, "is_animated", False):
            notes.append("first-frame")
        image: Image.Image = opened
        turn = _orientation(opened)
        if turn is None:
            notes.append("exif-unreadable")
        elif turn in _TURNS:
            notes.append("exif-applied" if exif == "apply" else "exif-ignored")
            if exif == "apply":
                image = opened.transpose(_TURNS[turn])
        return Opened(_rgb(image), tuple(notes))


def _mode_notes(image: Image.Image) -> tuple[str, ...]:
    if image.mode == "CMYK":
        return ("cmyk",)
    if image.mode.startswith("I"):
        return ("16-bit",)
    return ("gray",) if image.mode in ("L", "LA", "1") else ()


def _orientation(image: Image.Image) -> int | None:
    """As EXIF counts it, 1 where nothing is said; None where the EXIF data can't be read."""
    if "exif" not in image.info:
        return 1
    try:
        found = int(image.getexif().get(_ORIENTATION, 1))
    except Exception:  # noqa: BLE001 - Pillow parses these bytes with whatever errors they bring
        return None
    return found


def _rgb(image: Image.Image) -> Image.Image:
    image.load()
    if image.mode == "RGB":
        return image
    if image.mode.startswith("I"):
        upper = (np.asarray(image).astype(np.int64) >> 8).clip(0, 255).astype(np.uint8)
        return Image.fromarray(upper).convert("RGB")
    if image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")
    return image.convert("RGB")


def size_of(data: bytes | Image.Image | NDArray[np.uint8], *, exif: str) -> tuple[int, int]:
    """Height and width, from the header alone. Raises as `open_picture` does."""
    if isinstance(data, np.ndarray):
        return data.shape[0], data.shape[1]
    if isinstance(data, Image.Image):
        return data.height, data.width
    if not data:
        raise ValueError("the file is empty")
    with Image.open(io.BytesIO(data)) as image:
        is_turned = exif == "apply" and _orientation(image) in _LYING
        return image.size if is_turned else (image.height, image.width)


def is_whole(data: bytes) -> None:
    """Decode at the smallest scale, to find out whether the bytes are good. Raises as above."""
    if not data:
        raise ValueError("the file is empty")
    with Image.open(io.BytesIO(data)) as image:
        image.draft("RGB", (1, 1))
        image.load()


def bucket_of(height: int, width: int, size: int) -> tuple[int, int]:
    """Height and width of the aspect family nearest to a picture."""
    ratio = max(height, width) / min(height, width)
    nearest = min(BUCKET_RATIOS, key=lambda known: abs(np.log(known / ratio)))
    longer = round(size * nearest)
    return (longer, size) if height > width else (size, longer)


def fitted(image: Image.Image, transform: Transform, shape: tuple[int, ...] | None) -> Image.Image:
    """The picture at the size that is stored; `shape` is (height, width, …) of it, if known."""
    size = transform.size
    if size is None:
        return image
    if transform.fit == "bucket" and shape is None:
        shape = bucket_of(image.height, image.width, size)
    how = RESAMPLERS[transform.resampler]
    if transform.fit == "exact":
        return _resized(image, (size, size), how)
    if transform.fit == "pad":
        return _padded(image, size, how)
    height, width = shape[:2] if shape else (size, size)
    # torchvision's Resize and CenterCrop to the pixel: int() there, round() here.
    if image.width * height <= image.height * width:
        scaled = (width, max(height, int(width * image.height / image.width)))
    else:
        scaled = (max(width, int(height * image.width / image.height)), height)
    left, top = round((scaled[0] - width) / 2.0), round((scaled[1] - height) / 2.0)
    if scaled[0] * scaled[1] > _LARGEST_SCALED:
        # A strip of a picture. Not for others: a box with a fraction changes their last bits.
        return _centre(image, scaled, (left, top, left + width, top + height), how)
    image = _resized(image, scaled, how)
    if image.size == (width, height):
        return image
    return image.crop((left, top, left + width, top + height))


def _centre(
    image: Image.Image,
    scaled: tuple[int, int],
    box: tuple[int, int, int, int],
    how: Image.Resampling,
) -> Image.Image:
    """The box out of the picture resized to `scaled`, made without the rest of it."""
    across, down = image.width / scaled[0], image.height / scaled[1]
    left, top, right, bottom = box
    # Fractions of the last pixels must not lead out of the picture.
    source = (
        *(left * across, top * down),
        *(min(image.width, right * across), min(image.height, bottom * down)),
    )
    return image.resize((right - left, bottom - top), how, box=source)


def _resized(image: Image.Image, size: tuple[int, int], how: Image.Resampling) -> Image.Image:
    return image if image.size == size else image.resize(size, how)


def _padded(image: Image.Image, size: int, how: Image.Resampling) -> Image.Image:
    factor = size / max(image.size)
    width, height = (max(1, round(side * factor)) for side in image.size)
    canvas = Image.new(image.mode, (size, size))
    canvas.paste(_resized(image, (width, height), how), ((size - width) // 2, (size - height) // 2))
    return canvas


def jpeg(image: Image.Image, quality: int) -> bytes:
    """An ordinary JPEG, 4:2:0."""
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=quality, subsampling="4:2:0")
    return buffer.getvalue()


def libraries() -> str:
    """The versions that pixels may depend on."""
    import PIL
    from PIL import features

    decoder = features.version("libjpeg_turbo") or "unknown"
    return f"pillow {PIL.__version__}, libjpeg-turbo {decoder}"


def nearest(transform: Transform) -> Transform:
    """The same, without mixing neighbours: for masks."""
    return msgspec.structs.replace(transform, resampler="nearest")
