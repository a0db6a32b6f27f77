"""Claim: a crop out of a crop-jpeg costs its area, and the picture is a few per cent longer.

Photos at several sizes and lengths of segments; decoded by simplejpeg into one buffer, in turns
with the whole decode of the plain JPEG. `python -m benchmarks.crop_jpeg`
"""

from __future__ import annotations

import io
import sys
import time
from typing import Any

import numpy as np
import simplejpeg
import skimage.data
from PIL import Image
from sklearn.datasets import load_sample_image

from benchmarks import record
from stoker.pack import crop_jpeg
from stoker.pack.crop_jpeg import Box
from stoker.stats import Spread, median_spread, ratio

CLAIM = "A random 224² crop of a 512² crop-jpeg decodes in half the time of the whole JPEG or less."
ALLOWED = 0.5
SIZES = (512, 1024, 2048)
SPANS = (16, 32, 64, 128)  # pixels of a segment
TURNS, CROPS = 15, 16
SIDE = 224


def _photos(size: int) -> list[Image.Image]:
    bundled = [skimage.data.astronaut(), skimage.data.coffee(), load_sample_image("china.jpg")]
    return [Image.fromarray(pixels).resize((size, size)) for pixels in bundled]


def _plain(image: Image.Image) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=90)
    return buffer.getvalue()


def _timed(work: Any, count: int) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) / count


def measure(size: int, span: int) -> tuple[Spread, Spread, Spread, float]:
    """Seconds of a whole plain decode, of a whole crop-jpeg and of a crop; bytes over plain."""
    images = _photos(size)
    plain = [_plain(image) for image in images]
    cuttable = [crop_jpeg.encode(image, span=span) for image in images]
    lengths = [crop_jpeg.segment_lengths(jpeg) for jpeg in cuttable]
    buffer = bytearray(size * size * 3)
    random = np.random.default_rng(0)
    corners = random.integers(0, size - SIDE + 1, (CROPS, 2)).tolist()

    def crops() -> None:
        for jpeg, own in zip(cuttable, lengths, strict=True):
            for left, top in corners:
                box = Box(left, top, left + SIDE, top + SIDE)
                crop_jpeg.decode(jpeg, own, box, buffer=buffer)

    times: tuple[list[float], list[float], list[float]] = ([], [], [])
    for _ in range(TURNS):
        times[0].append(_timed(lambda: _decode(plain, buffer), len(plain)))
        times[1].append(_timed(lambda: _decode(cuttable, buffer), len(plain)))
        times[2].append(_timed(crops, len(plain) * CROPS))
    longer = sum(map(len, cuttable)) / sum(map(len, plain))
    whole, own_whole, crop = (median_spread(one) for one in times)
    return whole, own_whole, crop, longer


def _decode(jpegs: list[bytes], buffer: bytearray) -> None:
    for jpeg in jpegs:
        simplejpeg.decode_jpeg(jpeg, buffer=buffer)


def main() -> int:
    """Measure, print and keep."""
    rows, numbers, passed = {}, {}, {}
    for size in SIZES:
        for span in SPANS:
            key = f"{size:04} {span:03}"
            whole, own_whole, crop, longer = measure(size, span)
            share = ratio(crop, whole)
            rows[key] = (
                f"{size}²",
                f"{span} pixels",
                f"{whole.median * 1e3:.2f} ms",
                f"{own_whole.median * 1e3:.2f} ms",
                f"{crop.median * 1e3:.3f} ms",
                f"{share.median:.2f} ({share.low:.2f}–{share.high:.2f})",
                f"+{longer - 1:.1%}",
            )
            numbers[key] = {"whole_s": whole.median, "crop_s": crop.median, "bytes": longer}
            passed[key] = share.median <= ALLOWED or span != 32
    held = record.write(
        "crop_jpeg",
        claim=CLAIM,
        columns=(
            *("photo", "segments", "plain, whole", "crop-jpeg, whole", "224² crop"),
            *("of a plain whole", "bytes"),
        ),
        rows=rows,
        numbers=numbers,
        passed=passed,
    )
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
