"""What a batch holds, by the shapes of its parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import PIL.Image
import pytest
import torch

from stoker.probe.delivered import delivered


def held(*shape: int, samples: int = 4) -> dict[str, int]:
    """Of a tensor of that shape."""
    return delivered(torch.empty(shape, dtype=torch.uint8), samples)


@pytest.mark.parametrize(
    ("shape", "frames"),
    [
        ((4, 16, 3, 64, 48), 64),  # frames first
        ((4, 3, 16, 64, 48), 64),  # channels first
        ((4, 16, 64, 48, 3), 64),  # channels last
        ((4, 16, 64, 48), 64),  # grey
        ((4, 16, 1, 64, 48), 64),
        ((4, 3, 64, 48), 4),  # a frame each
        ((4, 64, 48, 3), 4),
        ((4, 2, 8, 3, 64, 48), 64),  # two clips of eight
        ((4, 16, 768), 0),  # features of 16 frames: how many frames they were nobody knows
        ((4, 17, 2), 0),  # points
    ],
)
def test_frames_are_told_by_the_axes_that_are_no_picture(
    shape: tuple[int, ...], frames: int
) -> None:
    assert held(*shape)["frame"] == frames
    assert held(*shape[1:], samples=7)["frame"] in (frames // 4, 0), "samples in a list"


def test_a_fetch_of_one_sample_has_as_many_frames_with_an_axis_for_it_as_without() -> None:
    assert held(1, 16, 3, 64, 48, samples=1)["frame"] == 16
    assert held(16, 3, 64, 48, samples=1)["frame"] == 16


def test_pixels_are_those_of_all_pictures_and_masks() -> None:
    batch = {"image": torch.empty(4, 3, 224, 224), "mask": torch.empty(4, 224, 224)}
    assert delivered(batch, 4)["pixel"] == 2 * 4 * 224 * 224
    picture = PIL.Image.new("RGB", (60, 40))
    assert delivered([(picture, 1), (picture, 0)], 2)["pixel"] == 2 * 2400


@pytest.mark.parametrize(
    ("shape", "values"),
    [
        ((4, 16_000), 64_000),
        ((4, 1, 16_000), 64_000),
        ((4, 16_000, 2), 128_000),
        ((4, 80, 5_000), 0),  # a spectrum: of how many values nobody knows
        ((4, 512), 0),  # features
    ],
)
def test_a_wave_is_long_and_has_few_channels(shape: tuple[int, ...], values: int) -> None:
    assert held(*shape)["audio-frame"] == values


def test_bytes_are_those_of_arrays_and_texts() -> None:
    batch = [np.zeros((4, 10), np.float32), ["four", b"bytes"], 7]
    assert delivered(batch, 4)["byte"] == 160 + 9


@pytest.mark.parametrize("batch", [list(range(2_000)), [[0] * 600, [1] * 600]])
def test_a_batch_of_very_many_parts_is_not_walked_through(batch: Any) -> None:
    assert delivered(batch, 2) == {}


def test_a_part_that_cannot_be_asked_leaves_all_of_it_open() -> None:
    class Odd:
        @property
        def shape(self) -> tuple[int, ...]:
            raise RuntimeError("no shape yet")

    assert delivered([Odd()], 1) == {}
