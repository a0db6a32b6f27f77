"""Masks and other grids of numbers keep their numbers, whatever source they come out of."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from stoker import split
from stoker.pack import Pack, open_pack
from stoker.pack.served import in_place_of
from tests.unit.pack.conftest import packed, photo

COUNT = 12
SIZE = (36, 30)


def classes(number: int) -> NDArray[np.uint8]:
    """Class numbers (30, 36) with sharp edges, and 255 for what is none of them."""
    grid = np.indices(SIZE[::-1]).sum(0) // 7 % 21 + number
    grid[:3] = 255
    return grid.astype(np.uint8)


def of_palette(number: int) -> Image.Image:
    """As VOCSegmentation gives them: the colours of the palette mean nothing."""
    mask = Image.frombytes("P", SIZE, classes(number).tobytes())
    mask.putpalette([value * 7 % 256 for value in range(768)])
    return mask


def instances(number: int) -> Image.Image:
    """Numbers of objects, few and many."""
    return Image.fromarray(classes(number).astype(np.uint16) * 260)


MASKS: dict[str, Callable[[int], Image.Image]] = {
    "palette": of_palette,
    "gray": lambda number: Image.fromarray(classes(number)),
    "1 bit": lambda number: Image.fromarray(classes(number) > 9),
    "16 bits": instances,
    "32 bits": lambda number: Image.fromarray(classes(number).astype(np.int32) * 70_000),
    "floats": lambda number: Image.fromarray(classes(number) / np.float32(255)),
}


class Pairs:
    """A photo in colours, and what belongs to each of its pixels."""

    def __init__(self, mask: Callable[[int], Image.Image]) -> None:
        self.mask = mask

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index: int) -> Any:
        return photo(index, SIZE), self.mask(index)


class Several(Pairs):
    """Parts by name."""

    def __init__(self, **parts: Callable[[int], Image.Image]) -> None:
        self.parts = parts

    def __getitem__(self, index: int) -> Any:
        return {name: part(index) for name, part in self.parts.items()}


def gray(number: int) -> Image.Image:
    return photo(number, SIZE).convert("L")


@pytest.mark.parametrize("kind", MASKS)
def test_a_mask_of_a_dataset_is_the_numbers_that_it_gave(
    in_hand: Callable[..., Path], kind: str
) -> None:
    pack = open_pack(in_hand(Pairs(MASKS[kind])))
    assert pack.field("label").axes == "HW"
    for index in range(COUNT):
        found, given = pack.value("label", index), np.asarray(MASKS[kind](index))
        np.testing.assert_array_equal(found, given)
        assert found.dtype == (np.uint8 if given.dtype == bool else given.dtype)


@pytest.mark.parametrize("kind", MASKS)
def test_a_smaller_mask_has_no_other_numbers(in_hand: Callable[..., Path], kind: str) -> None:
    pack = open_pack(in_hand(Pairs(MASKS[kind]), size=24, fit="exact"))
    for index in range(COUNT):
        found, given = pack.value("label", index), np.asarray(MASKS[kind](index))
        assert found.shape == (24, 24)
        rows, columns = (np.arange(24) * 2 + 1) * 30 // 48, (np.arange(24) * 2 + 1) * 36 // 48
        np.testing.assert_array_equal(found, given[np.ix_(rows, columns)])


@pytest.mark.parametrize("kind", ["gray", "1 bit", "16 bits", "32 bits", "floats"])
def test_a_pack_gives_a_dataset_its_masks_back(in_hand: Callable[..., Path], kind: str) -> None:
    dataset = Pairs(MASKS[kind])
    served = in_place_of(dataset, in_hand(dataset))
    for index in range(COUNT):
        assert split.digest(served[index]) == split.digest(dataset[index])


def axes_of(pack: Pack) -> dict[str, str]:
    return {field.name: field.axes for field in pack.batch_fields}


@pytest.mark.parametrize(
    ("dataset", "axes"),
    [
        (Pairs(gray), {"image": "HWC", "label": "HW"}),
        (Pairs(lambda n: photo(n, SIZE)), {"image": "HWC", "label": "HWC"}),
        (Several(left=gray, right=gray), {"left": "HWC", "right": "HWC"}),
        (Several(image=gray, target=gray), {"image": "HWC", "target": "HW"}),
        (Several(image=gray, seg_map=gray), {"image": "HWC", "seg_map": "HW"}),
        (Several(image=of_palette, label=of_palette), {"image": "HWC", "label": "HW"}),
        (Several(depth=instances), {"depth": "HW"}),
    ],
    ids=["gray", "colours", "stereo", "target", "name", "palette", "depth"],
)
def test_what_is_a_mask_is_told_by_its_bands_its_place_and_its_name(
    in_hand: Callable[..., Path], dataset: Any, axes: dict[str, str]
) -> None:
    assert axes_of(open_pack(in_hand(dataset))) == axes


def test_several_views_of_one_gray_picture_are_of_one_kind(in_hand: Callable[..., Path]) -> None:
    class Views(Pairs):
        def __getitem__(self, index: int) -> Any:
            return [gray(index), gray(index)], index

    pack = open_pack(in_hand(Views(gray)))
    assert axes_of(pack) == {"image.0": "HWC", "image.1": "HWC", "label": ""}


@pytest.fixture
def table(tmp_path: Path) -> Callable[[Callable[[int], Image.Image]], Path]:
    """A CSV file of photos and PNG masks."""

    def write(mask: Callable[[int], Image.Image]) -> Path:
        lines = ["image,mask"]
        for number in range(COUNT):
            photo(number, SIZE).save(tmp_path / f"{number}.jpg")
            mask(number).save(tmp_path / f"{number}.png")
            lines.append(f"{number}.jpg,{number}.png")
        (tmp_path / "t.csv").write_text("\n".join(lines))
        return tmp_path / "t.csv"

    return write


@pytest.mark.parametrize("kind", ["palette", "gray", "1 bit", "16 bits"])
def test_masks_in_files_keep_their_numbers(
    table: Callable[..., Path], tmp_path: Path, kind: str
) -> None:
    pack = packed(
        table(MASKS[kind]), tmp_path / "p", size=None, tier="keep", shard_bytes=10_000
    ).pack
    assert pack is not None
    assert pack.quarantined.tolist() == []
    for index in range(COUNT):
        np.testing.assert_array_equal(pack.value("mask", index), np.asarray(MASKS[kind](index)))


def test_gray_in_three_bands_is_a_mask_and_colours_are_none(
    table: Callable[..., Path], tmp_path: Path
) -> None:
    def mask(number: int) -> Image.Image:
        return photo(number, SIZE) if number == 9 else MASKS["gray"](number).convert("RGB")

    done = packed(table(mask), tmp_path / "p")
    (bad,) = done.quarantine
    assert bad.source == "9.jpg"
    assert bad.reason == "ValueError: a mask of mode RGB: which class a colour means is not known"
    assert done.pack is not None
    assert set(np.unique(done.pack.value("mask", 3))) <= set(np.unique(classes(3)))


def deep_in_ninth_place(number: int) -> Image.Image:
    return instances(number) if number == 9 else MASKS["gray"](number)


def test_of_files_the_widest_of_the_first_says_how_masks_are_stored(
    table: Callable[..., Path], tmp_path: Path
) -> None:
    pack = packed(table(deep_in_ninth_place), tmp_path / "p").pack
    assert pack is not None
    assert pack.field("mask").dtype == "uint16"
    assert pack.value("mask", 9).max() > 255


def test_a_mask_of_more_bits_than_the_field_has_is_left_out(in_hand: Callable[..., Path]) -> None:
    (bad,) = open_pack(in_hand(Pairs(deep_in_ninth_place))).manifest.quarantine
    assert (bad.index, bad.reason) == (
        9,
        "ValueError: a mask of uint16, the first are of uint8",
    )


@pytest.mark.parametrize("tier", ["raw", "jpeg", "crop-jpeg"])
def test_masks_in_buckets_have_the_shape_of_their_pictures(
    table: Callable[..., Path], tmp_path: Path, tier: str
) -> None:
    pack = packed(table(MASKS["gray"]), tmp_path / "p", tier=tier, fit="bucket").pack
    assert pack is not None
    assert {pack.value("mask", index).shape for index in range(COUNT)} == {(24, 30)}
    if tier == "raw":
        assert {shard.shapes["mask"] for shard in pack.shards} == {(24, 30)}
    else:
        assert set(map(tuple, pack.shapes("image", 0).tolist())) == {(24, 30, 3)}


def test_a_source_of_masks_alone_has_buckets_too(tmp_path: Path) -> None:
    for number in range(3):
        MASKS["gray"](number).save(tmp_path / f"{number}.png")
    (tmp_path / "t.csv").write_text("mask\n0.png\n1.png\n2.png\n")
    pack = packed(tmp_path / "t.csv", tmp_path / "p", fit="bucket").pack
    assert pack is not None
    assert pack.value("mask", 2).shape == (24, 30)
