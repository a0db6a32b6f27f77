"""Crops of arrays while they are read: where the draws say, alike for masks, apart from augment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stoker
from stoker.errors import InputError
from stoker.loader import draws
from stoker.loader.boxes import fixed
from stoker.pack import Pack, write_arrays
from tests.unit.loader.test_loader import SIDE, numpy_loader, pictures


@pytest.fixture
def pack(tmp_path: Path) -> Pack:
    return write_arrays(tmp_path / "pack", {"image": pictures()}, shard_samples=40)


@pytest.mark.parametrize("reading", ["mmap", "preadv"])
def test_a_random_crop_is_cut_where_seed_epoch_and_index_say(pack: Pack, reading: Any) -> None:
    loader = numpy_loader(pack, shuffle=True, seed=5, crop=(7, 8), reading=reading)
    loader.set_epoch(3)
    for batch in loader:
        cut = fixed(draws.Chance(draws.sample_keys(5, 3, batch.index), 0), (SIDE, SIDE), (7, 8))
        assert batch.image.shape[1:] == (7, 8, 3)
        assert np.array_equal(batch.image[:, 0, 0, 0], batch.index)
        assert np.array_equal(batch.image[:, 0, 0, 1], cut.top)
        assert np.array_equal(batch.image[:, 0, 0, 2], cut.left)
        assert np.array_equal(batch.image[:, -1, -1, 2], cut.left + 7)


@pytest.mark.parametrize("reading", ["mmap", "preadv"])
def test_masks_are_cropped_where_their_pictures_are(tmp_path: Path, reading: Any) -> None:
    image = pictures()
    pack = write_arrays(
        tmp_path / "p", {"image": image, "mask": image[..., 1] * SIDE + image[..., 2]}
    )
    for batch in numpy_loader(pack, shuffle=True, crop=(7, 8), reading=reading):
        assert batch.mask.shape[1:] == (7, 8)
        assert np.array_equal(batch.mask, batch.image[..., 1] * SIDE + batch.image[..., 2])


def test_a_mask_of_another_size_is_not_cropped_elsewhere(tmp_path: Path) -> None:
    columns = {"image": pictures(), "mask": pictures()[:, ::2, ::2, 1].copy()}
    pack = write_arrays(tmp_path / "p", columns)
    with pytest.raises(InputError, match="other parts of 'mask' than of 'image'"):
        numpy_loader(pack, crop=5)
    center = numpy_loader(pack, crop=stoker.augment.CenterCrop(4))
    assert next(iter(center)).mask.shape == (8, 4, 4)


def test_whether_a_picture_is_flipped_does_not_follow_from_its_crop(tmp_path: Path) -> None:
    count = 4000
    pack = write_arrays(tmp_path / "p", {"image": pictures(count)})
    flip = stoker.augment.Recipe(stoker.augment.HorizontalFlip())
    (batch,) = stoker.Loader(pack, count, crop=(4, 4), augment=flip)
    image = batch["image"].numpy().astype(int)
    top, left = image[:, 1].min(axis=(1, 2)), image[:, 2].min(axis=(1, 2))
    is_flipped = image[:, 2, 0, 0] > image[:, 2, 0, -1]
    assert 0.4 < is_flipped.mean() < 0.6 and set(top) == set(range(SIDE - 3))
    # Of independent draws it is below 3 / sqrt(4000) in 99.7 of 100 runs; the draws are fixed.
    assert abs(np.corrcoef(is_flipped, top)[0, 1]) < 0.05
    assert abs(np.corrcoef(is_flipped, left)[0, 1]) < 0.05
