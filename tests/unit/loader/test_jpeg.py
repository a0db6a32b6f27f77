"""Pictures from files and from encoded packs: the right pixels in the right rows."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import skimage.data
import torch
from PIL import Image

import stoker
from stoker.errors import InputError, LoaderError
from stoker.loader import boxes, draws, jpeg
from stoker.pack import Codec, Pack, crop_jpeg, write_arrays
from stoker.pack.build import How, build
from stoker.pack.job import make_job
from stoker.pack.manifest import Transform
from stoker.pack.sources.find import list_source

SIDE, TARGET = 160, 64
PHOTOS = ("astronaut", "chelsea", "coffee", "rocket")


def tiles() -> list[Image.Image]:
    """Twelve real pictures."""
    made = []
    for number in range(12):
        photo = getattr(skimage.data, PHOTOS[number % 4])()
        top = 20 * (number // 4)
        made.append(Image.fromarray(photo[top : top + SIDE, 60 : 60 + SIDE]))
    return made


def encoded(image: Image.Image, **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=90, **options)
    return buffer.getvalue()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number, tile in enumerate(tiles()):
        place = tmp_path / "photos" / PHOTOS[number % 4]
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{number:02}.jpg").write_bytes(encoded(tile))
    return tmp_path / "photos"


def decoded(folder: Path) -> list[np.ndarray]:
    return [np.asarray(Image.open(path)) for path in sorted(folder.rglob("*.jpg"))]


def test_labels_are_the_sorted_subfolders_and_pixels_those_of_the_file(folder: Path) -> None:
    loader = stoker.Loader(folder, 5, crop=(SIDE, SIDE), shuffle=True, array="numpy")
    assert loader.classes == tuple(sorted(PHOTOS))
    wanted = decoded(folder)
    seen = []
    for batch in loader:
        assert np.array_equal(batch.label, batch.index // 3)
        for image, index in zip(batch.image, batch.index, strict=True):
            assert np.array_equal(image, wanted[index])
            seen.append(index)
    assert sorted(seen) == list(range(12))


@pytest.mark.parametrize("crop", [TARGET, stoker.augment.CenterCrop(TARGET)])
def test_a_crop_is_the_same_part_as_of_the_whole_picture(folder: Path, crop: Any) -> None:
    loader = stoker.Loader(folder, 12, crop=crop, seed=9, array="numpy")
    batch = next(iter(loader))
    chance = draws.Chance(draws.sample_keys(9, 0, batch.index), 0)
    source = (SIDE, SIDE)
    if isinstance(crop, int):
        cut = boxes.fixed(chance, source, (TARGET, TARGET))
    else:
        cut = boxes.centred(chance, source, (TARGET, TARGET))
    for number, whole in enumerate(decoded(folder)):
        top, left = cut.top[number], cut.left[number]
        assert np.array_equal(batch.image[number], whole[top : top + TARGET, left : left + TARGET])


def test_the_pillow_decoder_gives_pillows_very_pixels(folder: Path) -> None:
    crop = stoker.augment.RandomResizedCrop(TARGET)
    settings: dict[str, Any] = {"crop": crop, "seed": 2, "array": "numpy"}
    exact = next(iter(stoker.Loader(folder, 12, decoder="pillow", **settings)))
    fast = next(iter(stoker.Loader(folder, 12, **settings)))
    chance = draws.Chance(draws.sample_keys(2, 0, exact.index), 0)
    cut = boxes.resized(chance, (SIDE, SIDE), crop.scale, crop.ratio)
    for number, whole in enumerate(decoded(folder)):
        top, left = int(cut.top[number]), int(cut.left[number])
        box = (left, top, left + int(cut.width[number]), top + int(cut.height[number]))
        wanted = Image.fromarray(whole).crop(box)
        if wanted.size != (TARGET, TARGET):
            wanted = wanted.resize((TARGET, TARGET), Image.Resampling.BILINEAR)
        assert np.array_equal(exact.image[number], np.asarray(wanted))
    # The fast way shrinks some pictures while decoding: near, not equal.
    assert np.abs(exact.image.astype(int) - fast.image.astype(int)).mean() < 4


@pytest.mark.filterwarnings("error")
def test_torch_does_not_warn_of_pillows_read_only_pixels(tmp_path: Path) -> None:
    for number, tile in enumerate(tiles()[:2]):
        tile.save(tmp_path / f"{number}.png")
    torch.set_warn_always(True)  # otherwise once in a process, in whichever test is first
    try:
        batch = next(iter(stoker.Loader(tmp_path, 2, crop=stoker.augment.CenterResizedCrop(40))))
    finally:
        torch.set_warn_always(False)
    assert batch["image"].shape == (2, 3, 40, 40)
    assert jpeg.decoded((tmp_path / "0.png").read_bytes(), "0.png").flags.writeable


def packed(path: Path, codec: Codec) -> Pack:
    if codec is Codec.CROP_JPEG:
        jpegs = [crop_jpeg.encode(tile) for tile in tiles()]
        columns = {
            "image": [(jpeg, (SIDE, SIDE, 3)) for jpeg in jpegs],
            "image.segments": [crop_jpeg.segment_lengths(jpeg) for jpeg in jpegs],
        }
    else:
        columns = {"image": [(encoded(tile), (SIDE, SIDE, 3)) for tile in tiles()]}
    columns["label"] = np.arange(12)
    return write_arrays(path, columns, shard_samples=5, codecs={"image": codec})


@pytest.mark.parametrize("reading", ["mmap", "preadv"])
@pytest.mark.parametrize("codec", [Codec.JPEG, Codec.CROP_JPEG, Codec.SOURCE])
def test_an_encoded_pack_gives_the_pixels_of_its_pictures(
    tmp_path: Path, codec: Codec, reading: Any
) -> None:
    pack = packed(tmp_path / "pack", codec)
    loader = stoker.Loader(
        pack, 4, shuffle=True, crop=TARGET, seed=3, reading=reading, array="numpy"
    )
    for batch in loader:
        chance = draws.Chance(draws.sample_keys(3, 0, batch.index), 0)
        cut = boxes.fixed(chance, (SIDE, SIDE), (TARGET, TARGET))
        for number, index in enumerate(batch.index.tolist()):
            whole = np.asarray(Image.open(io.BytesIO(pack.value("image", index))))
            top, left = cut.top[number], cut.left[number]
            part = whole[top : top + TARGET, left : left + TARGET]
            assert np.array_equal(batch.image[number], part)


def test_resized_crops_of_a_crop_addressable_pack_are_those_of_the_whole_pictures(
    tmp_path: Path,
) -> None:
    crop = stoker.augment.RandomResizedCrop(TARGET)
    pack = packed(tmp_path / "pack", Codec.CROP_JPEG)
    whole = write_arrays(
        tmp_path / "whole",
        {"image": [(pack.value("image", n), (SIDE, SIDE, 3)) for n in range(12)]},
        codecs={"image": Codec.JPEG},
    )
    parts = next(iter(stoker.Loader(pack, 12, crop=crop)))
    others = next(iter(stoker.Loader(whole, 12, crop=crop)))
    assert torch.equal(parts.image, others.image)


def test_grey_and_png_pictures_become_rgb(tmp_path: Path) -> None:
    tile = tiles()[0]
    (tmp_path / "0.jpg").write_bytes(encoded(tile.convert("L")))
    tile.save(tmp_path / "1.png")
    batch = next(iter(stoker.Loader(tmp_path, 2, crop=SIDE, array="numpy")))
    assert np.ptp(batch.image[0].astype(int), axis=-1).max() == 0
    assert np.array_equal(batch.image[1], np.asarray(tile))
    assert "label" not in batch


def for_printers() -> list[bytes]:
    """CMYK as Pillow writes it, and YCCK, which differs in the last byte of Adobe's marker."""
    inks = encoded(tiles()[0].convert("CMYK"))
    at = inks.index(b"Adobe") + 11
    return [inks, inks[:at] + b"\2" + inks[at + 1 :]]


@pytest.mark.parametrize("crop", [SIDE, TARGET, stoker.augment.RandomResizedCrop(40)])
def test_pictures_for_printers_become_rgb_as_pillow_has_them(tmp_path: Path, crop: Any) -> None:
    pictures = for_printers()
    for number, data in enumerate(pictures):
        (tmp_path / f"{number}.jpg").write_bytes(data)
        whole = np.asarray(Image.open(io.BytesIO(data)).convert("RGB")).astype(int)
        assert np.abs(jpeg.decoded(data, "inks") - whole).max() <= 1
    columns = {"image": [(data, (SIDE, SIDE, 3)) for data in pictures]}
    pack = write_arrays(tmp_path / "p", columns, codecs={"image": Codec.SOURCE})
    for source in (tmp_path, pack):
        fast, exact = (
            next(iter(stoker.Loader(source, 2, crop=crop, array="numpy", decoder=decoder)))["image"]
            for decoder in jpeg.DECODERS
        )
        # Some are shrunk while they are decoded: near, not equal.
        assert np.abs(fast.astype(int) - exact).mean() < (1 if isinstance(crop, int) else 4)


def test_a_picture_too_small_for_the_crop_is_named(folder: Path) -> None:
    small = folder / "coffee" / "00small.jpg"
    small.write_bytes(encoded(tiles()[0].resize((50, 40))))
    with pytest.raises(InputError, match=r"00small\.jpg has 40x50 pixels, and 64x64"):
        list(stoker.Loader(folder, 4, crop=TARGET))


def test_an_unreadable_picture_is_named_in_either_decoder(folder: Path) -> None:
    broken = folder / "cat.jpg"
    for decoder, data in (("simplejpeg", b"\xff\xd8rubbish"), ("pillow", b"rubbish")):
        broken.write_bytes(data)
        loader = stoker.Loader(folder, 4, crop=TARGET, decoder=decoder)  # type: ignore[arg-type]
        with pytest.raises(LoaderError, match=r"cat\.jpg cannot be decoded") as raised:
            list(loader)
        assert "sample" in raised.value.__notes__[0]


def test_without_a_size_encoded_pictures_are_refused(folder: Path) -> None:
    with pytest.raises(InputError, match="what size"):
        stoker.Loader(folder, 4)


@pytest.mark.parametrize("codec", [Codec.JPEG, Codec.CROP_JPEG, Codec.SOURCE])
def test_encoded_pictures_of_one_size_need_no_crop(tmp_path: Path, codec: Codec) -> None:
    pack = packed(tmp_path / "pack", codec)
    batch = next(iter(stoker.Loader(pack, 12, array="numpy")))
    for image, index in zip(batch.image, batch.index.tolist(), strict=True):
        whole = Image.open(io.BytesIO(pack.value("image", index)))
        assert np.array_equal(image, np.asarray(whole))


@pytest.mark.parametrize("fit", ["shorter", "pad"])
def test_a_pack_made_at_a_size_is_loaded_at_that_size(folder: Path, fit: str) -> None:
    (folder / "coffee" / "broken.jpg").write_bytes(b"no picture")
    transform = Transform(tier="jpeg", size=48, fit=fit)
    job = make_job(list_source(str(folder)), transform, shard_bytes=10_000)
    pack = build(job, folder.parent / "packed", How()).pack
    assert len(pack) == 13
    (batch,) = stoker.Loader(pack, 12, array="numpy")
    assert batch.image.shape == (12, 48, 48, 3)


def test_encoded_pictures_of_several_sizes_need_a_crop(tmp_path: Path) -> None:
    sizes = [(40, 50), (50, 40)]
    pictures = [(encoded(tiles()[0].resize((w, h))), (h, w, 3)) for h, w in sizes]
    pack = write_arrays(tmp_path / "p", {"image": pictures}, codecs={"image": Codec.JPEG})
    with pytest.raises(InputError, match="what size"):
        stoker.Loader(pack, 2)


def test_a_pipe_among_the_pictures_is_named_and_not_waited_for(folder: Path) -> None:
    os.mkfifo(folder / "pipe.jpg")
    with pytest.raises(LoaderError, match=r"pipe\.jpg cannot be decoded"):
        list(stoker.Loader(folder, 13, crop=TARGET))
