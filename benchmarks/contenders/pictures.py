"""What contenders on JPEG files have in common: random boxes, and bytes to the pixels of one.

Runs in the environments of peers: each function imports what it needs.
"""

from __future__ import annotations

import io
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

# Left, top, right, bottom.
Box = tuple[int, int, int, int]
# Chooses a box in a picture of (height, width).
Boxes = Callable[[int, int], Box]
# From the bytes of a JPEG to a square of pixels.
Decode = Callable[[bytes, Boxes, int], Any]


def resized(height: int, width: int) -> Box:
    """RandomResizedCrop's box."""
    for _ in range(10):
        area = random.uniform(0.08, 1) * height * width
        ratio = math.exp(random.uniform(math.log(3 / 4), math.log(4 / 3)))
        wide, high = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if wide <= width and high <= height:
            left, top = random.randint(0, width - wide), random.randint(0, height - high)
            return left, top, left + wide, top + high
    return 0, 0, width, height


def fixed(side: int) -> Boxes:
    """Random boxes of one size."""

    def box(height: int, width: int) -> Box:
        left, top = random.randint(0, width - side), random.randint(0, height - side)
        return left, top, left + side, top + side

    return box


def with_torch(data: bytes, boxes: Boxes, side: int, *, buffer: Any = None, out: Any = None) -> Any:
    """simplejpeg, and torch's antialiased resize of uint8 in the memory format that is fast."""
    import simplejpeg
    import torch

    pixels = simplejpeg.decode_jpeg(data, buffer=buffer)
    left, top, right, bottom = boxes(pixels.shape[0], pixels.shape[1])
    part = pixels[top:bottom, left:right]
    if part.shape[:2] == (side, side):
        return np.ascontiguousarray(part)
    picture = torch.from_numpy(np.ascontiguousarray(part)[None]).permute(0, 3, 1, 2)
    if out is not None:
        target = torch.from_numpy(out[None]).permute(0, 3, 1, 2)
        torch.ops.aten._upsample_bilinear2d_aa.out(picture, [side, side], False, out=target)
        return out
    made = torch.nn.functional.interpolate(picture, (side, side), mode="bilinear", antialias=True)
    return made[0].permute(1, 2, 0).numpy()


def with_opencv(data: bytes, boxes: Boxes, side: int) -> Any:
    """simplejpeg, and OpenCV's bilinear resize, which does not antialias."""
    import importlib

    import simplejpeg

    opencv: Any = importlib.import_module("cv2")
    opencv.setNumThreads(1)
    pixels = simplejpeg.decode_jpeg(data)
    left, top, right, bottom = boxes(pixels.shape[0], pixels.shape[1])
    part = pixels[top:bottom, left:right]
    if part.shape[:2] == (side, side):
        return np.ascontiguousarray(part)
    return opencv.resize(part, (side, side), interpolation=opencv.INTER_LINEAR)


def with_pillow(data: bytes, boxes: Boxes, side: int) -> Any:
    """Pillow, as torchvision's transforms use it."""
    from PIL import Image

    image = Image.open(io.BytesIO(data)).convert("RGB")
    part = image.crop(boxes(image.height, image.width))
    return np.asarray(part.resize((side, side), Image.Resampling.BILINEAR))


class Files:
    """A map-style data set over the files of a folder, as one writes it."""

    def __init__(self, folder: Path, side: int, decode: Decode, boxes: Boxes) -> None:
        self.paths = [str(path) for path in sorted(folder.rglob("*.jpg"))]
        self.side, self.decode, self.boxes = side, decode, boxes

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: Any) -> Any:
        with open(self.paths[index], "rb") as file:  # noqa: PTH123 - a Path costs more
            return self.decode(file.read(), self.boxes, self.side)
