"""Crops out of a crop-jpeg: equal to the whole decode in every pixel, for any box and sampling."""

from __future__ import annotations

import base64
import io
import json
import re
import shutil
import subprocess
from pathlib import Path

import cv2
import numpy as np
import pytest
import simplejpeg
import skimage.data
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image
from sklearn.datasets import load_sample_image

from stoker.pack import crop_jpeg
from stoker.pack.crop_jpeg import SCALES, Box

PHOTOS = [
    Image.fromarray(pixels)
    for pixels in (skimage.data.astronaut(), skimage.data.coffee(), load_sample_image("china.jpg"))
]
SAMPLINGS = ("4:2:0", "4:2:2", "4:4:4", "gray")


def picture(photo: int, size: tuple[int, int], sampling: str) -> Image.Image:
    image = PHOTOS[photo].resize(size)
    return image.convert("L") if sampling == "gray" else image


def encoded(image: Image.Image, sampling: str, quality: int = 90) -> bytes:
    given = "4:2:0" if sampling == "gray" else sampling
    return crop_jpeg.encode(image, quality=quality, subsampling=given)


def whole(jpeg: bytes, scale: int = 1) -> NDArray[np.uint8]:
    head = crop_jpeg.read_head(jpeg)
    pixels: NDArray[np.uint8] = simplejpeg.decode_jpeg(
        jpeg,
        colorspace="GRAY" if head.channels == 1 else "RGB",
        min_factor=scale,
        min_height=-(-head.height // scale),
        min_width=-(-head.width // scale),
    )
    return pixels


@st.composite
def cases(draw: st.DrawFn) -> tuple[Image.Image, str, int, Box, int]:
    width, height = (draw(st.integers(1, 300)) for _ in range(2))
    sampling = draw(st.sampled_from(SAMPLINGS))
    left, top = draw(st.integers(0, width - 1)), draw(st.integers(0, height - 1))
    right, bottom = draw(st.integers(left + 1, width)), draw(st.integers(top + 1, height))
    image = picture(draw(st.integers(0, len(PHOTOS) - 1)), (width, height), sampling)
    quality = draw(st.sampled_from((50, 90, 100)))
    return image, sampling, quality, Box(left, top, right, bottom), draw(st.sampled_from(SCALES))


@settings(max_examples=150, deadline=None)
@given(cases())
def test_every_pixel_of_a_crop_equals_the_whole_decode(
    case: tuple[Image.Image, str, int, Box, int],
) -> None:
    image, sampling, quality, box, scale = case
    jpeg = encoded(image, sampling, quality)
    expected = whole(jpeg, scale)[
        box.top // scale : -(-box.bottom // scale), box.left // scale : -(-box.right // scale)
    ]
    found = crop_jpeg.decode(jpeg, crop_jpeg.segment_lengths(jpeg), box, scale=scale)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_every_box_at_a_segments_border_equals_the_whole_decode(sampling: str) -> None:
    jpeg = encoded(picture(0, (96, 64), sampling), sampling)
    lengths, expected = crop_jpeg.segment_lengths(jpeg), whole(jpeg)
    for left in range(28, 37):
        for right in range(60, 69):
            box = Box(left, left // 2, right, right - 10)
            found = crop_jpeg.decode(jpeg, lengths, box)
            np.testing.assert_array_equal(
                found, expected[box.top : box.bottom, box.left : box.right]
            )


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("size", [(512, 512), (500, 375), (496, 481), (31, 17)])
@pytest.mark.parametrize("program", ["Pillow", "OpenCV"])
def test_other_programs_see_an_ordinary_picture(
    sampling: str, size: tuple[int, int], program: str
) -> None:
    image = picture(1, size, sampling)
    jpeg = encoded(image, sampling)
    if program == "Pillow":
        opened = Image.open(io.BytesIO(jpeg))
        assert (opened.size, opened.mode) == (size, image.mode)
        found = np.asarray(opened)
    else:
        found = cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_UNCHANGED)
        if found.ndim == 3:
            found = cv2.cvtColor(found, cv2.COLOR_BGR2RGB)
    expected = whole(jpeg)
    assert np.abs(found.reshape(expected.shape).astype(int) - expected).max() <= 1


# Draws the picture, and leaves what it sees as text: what --dump-dom prints.
PAGE = """<!doctype html><body><img id="p" src="data:image/jpeg;base64,{data}"><script>
addEventListener("load", () => {{
  const image = document.getElementById("p"), canvas = document.createElement("canvas");
  canvas.width = image.naturalWidth; canvas.height = image.naturalHeight;
  const context = canvas.getContext("2d");
  context.drawImage(image, 0, 0);
  const pixels = context.getImageData(0, 0, canvas.width, canvas.height).data;
  document.body.textContent = JSON.stringify([canvas.width, canvas.height, Array.from(pixels)]);
}});
</script></body>"""
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@pytest.mark.full
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_a_browser_sees_an_ordinary_picture(sampling: str, tmp_path: Path) -> None:
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        pytest.skip(f"none of {', '.join(BROWSERS)} is installed")
    jpeg = encoded(picture(1, (150, 83), sampling), sampling)
    page = tmp_path / "page.html"
    page.write_text(PAGE.format(data=base64.b64encode(jpeg).decode()))
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    command += [f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    seen = re.search(r"\[150,83,\[[0-9,]+\]\]", done.stdout)
    assert seen, done.stdout[:500]
    pixels = np.array(json.loads(seen[0])[2]).reshape(83, 150, 4)[:, :, :3]
    assert np.abs(pixels - whole(jpeg)).max() <= 1


def test_the_picture_is_the_same_as_without_markers_and_a_few_bytes_longer() -> None:
    image = picture(0, (512, 512), "4:2:0")
    plain = io.BytesIO()
    image.save(plain, "JPEG", quality=90, subsampling="4:2:0")
    jpeg = encoded(image, "4:2:0")
    np.testing.assert_array_equal(whole(jpeg), simplejpeg.decode_jpeg(plain.getvalue()))
    assert len(plain.getvalue()) < len(jpeg) < 1.05 * len(plain.getvalue())


def test_a_crop_takes_the_bytes_of_its_area() -> None:
    jpeg = encoded(picture(0, (512, 512), "4:2:0"), "4:2:0")
    part = crop_jpeg.cut(jpeg, crop_jpeg.segment_lengths(jpeg), Box(100, 100, 200, 200))
    assert part.box == Box(96, 96, 224, 208)
    assert len(part.jpeg) < len(jpeg) / 8


@pytest.mark.parametrize(("width", "span"), [(512, 32), (768, 64), (1000, 48)])
def test_wide_pictures_have_longer_segments_and_equal_crops(width: int, span: int) -> None:
    jpeg = encoded(picture(2, (width, 200), "4:2:0"), "4:2:0")
    lengths, expected = crop_jpeg.segment_lengths(jpeg), whole(jpeg)
    assert crop_jpeg.read_head(jpeg).span == (span, 16)
    for left in range(0, width - 130, 61):
        box = Box(left, 30, left + 130, 97)
        found = crop_jpeg.decode(jpeg, lengths, box)
        np.testing.assert_array_equal(found, expected[30:97, left : left + 130])


def test_a_buffer_is_used_again_when_it_is_large_enough() -> None:
    jpeg = encoded(picture(0, (64, 64), "4:2:0"), "4:2:0")
    lengths, buffer = crop_jpeg.segment_lengths(jpeg), bytearray(64 * 64 * 3)
    large = crop_jpeg.decode(jpeg, lengths, Box(0, 0, 64, 64), buffer=buffer)
    assert np.shares_memory(large, np.frombuffer(buffer, np.uint8))
    small = crop_jpeg.decode(jpeg, lengths, Box(0, 0, 64, 64), buffer=bytearray(8))
    np.testing.assert_array_equal(small, large)


@pytest.mark.parametrize(
    ("target", "scale"), [((224, 224), 1), ((128, 128), 2), ((100, 64), 4), ((1, 1), 8)]
)
def test_the_scale_leaves_at_least_the_target(target: tuple[int, int], scale: int) -> None:
    assert crop_jpeg.scale_for(Box(0, 0, 400, 440), target) == scale


def test_a_segment_never_runs_over_the_end_of_a_row() -> None:
    assert [crop_jpeg.restart_interval(n, wanted=2) for n in (32, 31, 1)] == [2, 1, 1]
    assert crop_jpeg.restart_interval(21, wanted=4) == 3


def _plain(**options: object) -> bytes:
    buffer = io.BytesIO()
    picture(0, (64, 64), "4:2:0").save(buffer, "JPEG", **options)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("jpeg", "message"),
    [
        (_plain(), "without restart markers"),
        (_plain(progressive=True), "progressive"),
        (_plain(restart_marker_blocks=3), "rows of 4 MCUs are no multiple of a segment's 3"),
        (b"\x89PNG", "no JPEG"),
        (_plain()[:100], "ends before its picture"),
    ],
    ids=["plain", "progressive", "uneven", "png", "cut"],
)
def test_a_jpeg_that_cannot_be_cut_is_refused(jpeg: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        crop_jpeg.segment_lengths(jpeg)


@pytest.mark.parametrize("box", [Box(0, 0, 65, 10), Box(5, 5, 5, 9), Box(-1, 0, 5, 5)])
def test_a_box_outside_the_picture_is_refused(box: Box) -> None:
    jpeg = encoded(picture(0, (64, 64), "4:2:0"), "4:2:0")
    with pytest.raises(ValueError, match="pixels"):
        crop_jpeg.cut(jpeg, crop_jpeg.segment_lengths(jpeg), box)
