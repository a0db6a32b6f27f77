"""The upper part of a JPEG: the whole decode's pixels, less decoding, damage still an error."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
import simplejpeg
import skimage.data
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from stoker.errors import LoaderError
from stoker.loader import crops, jpeg, upper
from stoker.pack import jpeg_head
from stoker.pack.crop_jpeg import SCALES, Box

PHOTOS = [Image.fromarray(skimage.data.astronaut()), Image.fromarray(skimage.data.coffee())]
SAMPLINGS = {"4:2:0": 2, "4:2:2": 1, "4:4:4": 0}


class Scratch:
    """As threading.local is."""


def encoded(image: Image.Image, **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", **{"quality": 90, **options})
    return buffer.getvalue()


def fast(side: int = 224) -> Any:
    return jpeg._Fast(crops.RandomResizedCrop(side))


@settings(max_examples=120, deadline=None)
@given(data=st.data())
def test_rows_down_to_any_bottom_equal_those_of_the_whole_decode(data: st.DataObject) -> None:
    width, height = (data.draw(st.integers(1, 300)) for _ in range(2))
    image = PHOTOS[data.draw(st.integers(0, 1))].resize((width, height))
    sampling = data.draw(st.sampled_from([*SAMPLINGS, "gray"]))
    source = (
        encoded(image.convert("L"))
        if sampling == "gray"
        else encoded(image, subsampling=SAMPLINGS[sampling], quality=data.draw(st.integers(40, 99)))
    )
    scale, bottom = data.draw(st.sampled_from(SCALES)), data.draw(st.integers(1, height))
    box = Box(0, 0, width, bottom)
    is_blended = data.draw(st.booleans())
    decoding = jpeg._Decoding(scale, is_blended)
    found = fast()._ordinary(jpeg.Picture(source, "a"), box, decoding, Scratch())
    whole = simplejpeg.decode_jpeg(
        source,
        fastupsample=not is_blended,
        min_factor=scale,
        min_height=-(-height // scale),
        min_width=-(-width // scale),
    )
    np.testing.assert_array_equal(found, whole[: -(-bottom // scale)])


def decoded_sizes(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """(height, width) of what is handed to the decoder from now on."""
    seen: list[tuple[int, int]] = []
    real = simplejpeg.decode_jpeg

    def watched(data: Any, **options: Any) -> Any:
        head = jpeg_head.read(data)
        seen.append((head.height, head.width))
        return real(data, **options)

    monkeypatch.setattr(simplejpeg, "decode_jpeg", watched)
    return seen


def test_nothing_below_the_crop_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = decoded_sizes(monkeypatch)
    fast().pixels(jpeg.Picture(encoded(PHOTOS[0]), "a"), Box(100, 10, 300, 200), Scratch())
    assert seen == [(201, 512)]  # chroma is interpolated from one row more


@pytest.mark.parametrize("options", [{"progressive": True}, {"restart_marker_rows": 1}])
def test_what_can_not_be_ended_early_is_decoded_whole(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = decoded_sizes(monkeypatch)
    source = encoded(PHOTOS[0], **options)
    found = fast().pixels(jpeg.Picture(source, "a"), Box(100, 10, 300, 200), Scratch())
    assert seen == [(512, 512)]
    np.testing.assert_array_equal(found, simplejpeg.decode_jpeg(source)[10:200, 100:300])


def test_a_file_cut_below_the_crop_is_an_error_too() -> None:
    source = encoded(PHOTOS[0])
    cut = jpeg.Picture(source[: len(source) * 3 // 4], "cut.jpg")
    with pytest.raises(LoaderError, match=r"cut\.jpg cannot be decoded: Premature end"):
        fast().pixels(cut, Box(0, 0, 100, 100), Scratch())


def test_a_file_damaged_in_the_crop_is_an_error() -> None:
    source = bytearray(encoded(PHOTOS[0]))
    start = jpeg_head.read(bytes(source)).length + 2_000
    source[start : start + 40] = b"\xff\xd9" * 20
    with pytest.raises(LoaderError, match=r"bad\.jpg cannot be decoded"):
        fast().pixels(jpeg.Picture(bytes(source), "bad.jpg"), Box(0, 0, 300, 300), Scratch())


def test_chroma_is_interpolated_unless_the_crop_is_shrunk() -> None:
    source = encoded(PHOTOS[0])
    smooth = simplejpeg.decode_jpeg(source)
    fast_ = simplejpeg.decode_jpeg(source, fastupsample=True)
    assert (smooth != fast_).any()
    for box, whole in ((Box(9, 9, 309, 309), fast_), (Box(9, 9, 209, 309), smooth)):
        found = fast().pixels(jpeg.Picture(source, "a"), box, Scratch())
        np.testing.assert_array_equal(found, whole[9:309, 9 : box.right])
    cut = jpeg._Fast(crops.RandomCrop(300)).pixels(jpeg.Picture(source, "a"), box, Scratch())
    np.testing.assert_array_equal(cut, smooth[9:309, 9:209])


def test_only_the_decoders_word_on_the_rest_is_passed_over() -> None:
    rest = "Corrupt JPEG data: 30723 extraneous bytes before marker 0xd9"
    assert upper.is_only_rest(ValueError(rest))
    for other in ("Corrupt JPEG data: bad Huffman code", "Premature end of JPEG file", rest + "!"):
        assert not upper.is_only_rest(ValueError(other))


def test_resizing_writes_into_the_row_what_torch_gives() -> None:
    part = np.asarray(PHOTOS[0])[20:390, 40:400]
    row = np.zeros((224, 224, 3), np.uint8)
    fast().place(part, row)
    picture = torch.from_numpy(np.array(part)).permute(2, 0, 1)[None]
    wanted = torch.nn.functional.interpolate(picture, (224, 224), mode="bilinear", antialias=True)
    np.testing.assert_array_equal(row, wanted[0].permute(1, 2, 0).numpy())
