"""How large samples are where they are cut: uint8 pictures, not floats that are made of them."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from PIL import Image

from stoker.split import find_cut, packed_bytes
from stoker.split.size import stored_bytes

INDICES = [3, 0, 5, 1, 4]


def small(image: Any) -> Any:
    return image.resize((20, 10))


def flipped(image: Any) -> Any:
    return image.transpose(0) if random.random() < 0.5 else image


def floats(image: Any) -> Any:
    return np.asarray(image, dtype=np.float32).transpose(2, 0, 1) / 255


class Pictures:
    def __init__(self, *transforms: Callable[[Any], Any], broken: int | None = None) -> None:
        self.transforms = list(transforms)
        self.broken = broken

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> Any:
        if index == self.broken:
            raise ValueError("it is broken")
        image: Any = Image.new("RGB", (40 + index, 30), (index, 0, 0))
        for step in self.transforms:
            image = step(image)
        return image, index


def size_of(dataset: Any) -> float | None:
    return packed_bytes(dataset, find_cut(dataset), INDICES, limit_s=10.0)


def test_what_comes_before_floats_counts_and_not_what_is_made_of_it() -> None:
    picture, label = 20 * 10 * 3, 8
    assert size_of(Pictures(small, flipped, floats)) == picture + label
    assert size_of(Pictures(small, floats)) == picture + label


def test_a_sample_that_is_cut_before_its_crop_is_larger_than_a_finished_one() -> None:
    def cropped(image: Any) -> Any:
        left = random.randrange(10)
        return image.crop((left, 0, left + 8, 8))

    widths = [43, 40, 45, 41]  # of the first four that are asked for
    expected = sum(30 * width * 3 for width in widths) / 4 + 8
    assert size_of(Pictures(cropped, floats)) == expected


def test_without_a_cut_the_whole_sample_counts() -> None:
    finished = packed_bytes(Pictures(small, floats), None, INDICES, limit_s=10.0)
    assert finished == 20 * 10 * 3 * 4 + 8


def test_broken_samples_are_left_out_and_none_at_all_is_not_known() -> None:
    assert size_of(Pictures(small, flipped, broken=3)) == 20 * 10 * 3 + 8
    assert packed_bytes(Pictures(broken=3), None, [3], limit_s=10.0) is None


def test_after_its_time_no_further_sample_is_made() -> None:
    asked: list[int] = []

    class Noted(Pictures):
        def __getitem__(self, index: int) -> Any:
            asked.append(index)
            return super().__getitem__(index)

    packed_bytes(Noted(), None, INDICES, limit_s=0.0)
    assert asked == INDICES[:1]


@pytest.mark.parametrize(
    ("sample", "expected"),
    [
        (Image.new("L", (4, 5)), 60),
        (Image.new("CMYK", (4, 5)), 60),
        ((Image.new("RGB", (4, 5)), Image.new("L", (4, 5))), 80),
        ((Image.new("RGB", (4, 5)), Image.new("I;16", (4, 5))), 100),
        ({"wave": np.zeros((2, 7), np.int16), "text": "ü", "data": b"123", "n": 4}, 28 + 2 + 3 + 8),
    ],
)
def test_parts_count_as_a_pack_stores_them(sample: Any, expected: int) -> None:
    assert stored_bytes(sample) == expected


def test_tensors_count_by_their_type() -> None:
    torch = pytest.importorskip("torch")
    assert stored_bytes(torch.zeros(3, 4, dtype=torch.float16)) == 24
