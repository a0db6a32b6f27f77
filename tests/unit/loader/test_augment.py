"""stoker.augment: torchvision's results, each sample its own draws, the same in any batch."""

from __future__ import annotations

import colorsys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker import augment
from stoker.errors import InputError
from stoker.loader import boxes, draws
from stoker.loader.augment import colour, geometry, mixing
from stoker.loader.augment.recipe import Working
from stoker.loader.augment.resample import by_matrices
from stoker.loader.augment.room import Room
from tests.unit.loader.references.make import BOXES, FACTORS, MEAN, STD, TARGET

STORED = np.load(Path(__file__).parent / "references" / "torchvision.npz")


@pytest.fixture(params=["channels_last", "contiguous"])
def images(request: pytest.FixtureRequest) -> torch.Tensor:
    stored = torch.from_numpy(STORED["pictures"])
    if request.param == "contiguous":
        return stored
    return stored.contiguous(memory_format=torch.channels_last)


def working(images: torch.Tensor, **masks: torch.Tensor) -> Working:
    return Working(images, masks, None, Room())


def difference(found: torch.Tensor, stored: str, number: int | None = None) -> float:
    wanted = STORED[stored] if number is None else STORED[stored][number]
    return float(np.abs(found.numpy().astype(float) - wanted.astype(float)).max())


def same_box(box: tuple[int, int, int, int], count: int = 2) -> boxes.Boxes:
    return boxes.Boxes(*(np.full(count, side) for side in box))


@pytest.mark.parametrize("number", range(len(BOXES)))
def test_a_resized_crop_is_torchvisions_and_that_of_matrices_within_one_level(
    images: torch.Tensor, number: int
) -> None:
    batch = working(images, mask=images[:, 0])
    cut = same_box(BOXES[number])
    geometry.resized_crop(batch, cut, (TARGET, TARGET))
    # torch's two uint8 kernels, one a memory layout, round differently.
    assert difference(batch.image, "resized", number) <= 1
    assert difference(by_matrices(images, cut, (TARGET, TARGET)), "resized", number) <= 1
    assert difference(batch.masks["mask"], "masks", number) == 0


@pytest.mark.parametrize("change", range(4), ids=list(FACTORS))
@pytest.mark.parametrize("number", [0, 1])
def test_a_change_of_colour_is_torchvisions(images: torch.Tensor, change: int, number: int) -> None:
    name = list(FACTORS)[change]
    factors = [np.full(2, FACTORS[each][number]) for each in FACTORS]
    turns = np.array([[0, 0], [1, 1], [2, 2], [3, 3]])
    wanted = [each == change for each in range(4)]
    found = colour.jittered(images, factors, turns, wanted)
    # The last bit of a float decides now and then which whole number lies below it.
    assert difference(found, name, number) <= (0 if name == "brightness" else 1)
    wrong = (found.numpy() != STORED[name][number]).mean()
    assert wrong < 0.03


def test_hue_turns_every_kind_of_colour_as_the_colour_circle_says() -> None:
    """Ties of channels, greys, and shifts to the ends; by Python's own HSV, pixel by pixel."""
    levels = [0, 1, 127, 128, 254, 255]
    colours = [(r, g, b) for r in levels for g in levels for b in levels]
    image = torch.tensor(colours, dtype=torch.uint8).T.reshape(1, 3, 1, -1).repeat(9, 1, 1, 1)
    shifts = np.array([-0.5, -0.41, -0.25, -1 / 6, -0.08, 0.0, 0.1, 1 / 3, 0.5])
    unused = np.zeros(9)
    turns = np.arange(4)[:, None].repeat(9, 1)
    found = colour.jittered(image, [unused, unused, unused, shifts], turns, [False] * 3 + [True])
    for number, shift in enumerate(shifts):
        for place, (r, g, b) in enumerate(colours):
            hue, saturation, value = colorsys.rgb_to_hsv(r / 255, g / 255, b / 255)
            wanted = colorsys.hsv_to_rgb((hue + shift) % 1.0, saturation, value)
            made = found[number, :, 0, place].tolist()
            apart = max(abs(m - 255 * w) for m, w in zip(made, wanted, strict=True))
            assert apart <= 1.01, (shift, (r, g, b), made)


def test_grey_flip_normalise_erase_and_centre_are_torchvisions(images: torch.Tensor) -> None:
    chance = draws.Chance(draws.sample_keys(0, 0, np.arange(2)), 0)
    for step, stored, allowed in (
        (augment.RandomGrayscale(1.0), "grayscale", 0),
        (augment.HorizontalFlip(1.0), "flipped", 0),
        (augment.Normalize(MEAN, STD), "normalized", 2e-6),
        (augment.CenterCrop((33, 48)), "centred", 0),
    ):
        batch = working(images)
        step.apply(batch, chance)
        assert difference(batch.image, stored) <= allowed, stored


def test_an_erased_box_is_torchvisions(
    images: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boxes, "resized", lambda *_: same_box((10, 20, 30, 40)))
    batch = working(images)
    chance = draws.Chance(draws.sample_keys(0, 0, np.arange(2)), 0)
    augment.RandomErasing(1.0).apply(batch, chance)
    assert difference(batch.image, "erased") == 0


RECIPE = augment.Recipe(
    augment.RandomResizedCrop(48),
    augment.HorizontalFlip(),
    augment.ColorJitter(0.4, 0.4, 0.4, 0.1),
    augment.RandomGrayscale(0.3),
    augment.RandomErasing(),
    augment.Normalize(),
)


def many(count: int) -> dict[str, Any]:
    pictures = torch.from_numpy(STORED["pictures"]).repeat(-(-count // 2), 1, 1, 1)[:count]
    pictures = pictures.contiguous(memory_format=torch.channels_last)
    return {"image": pictures, "index": torch.arange(count)}


def test_a_sample_is_changed_alike_in_any_batch_and_at_any_place_in_it() -> None:
    batch = many(12)
    whole = RECIPE(batch, seed=3, epoch=2)["image"]
    order = torch.tensor([5, 11, 0, 7])
    part = {"image": batch["image"][order], "index": batch["index"][order]}
    assert torch.equal(RECIPE(part, seed=3, epoch=2)["image"], whole[order])
    assert not torch.equal(RECIPE(part, seed=3, epoch=3)["image"], whole[order])
    assert not torch.equal(RECIPE(part, seed=4, epoch=2)["image"], whole[order])


def test_samples_of_a_batch_are_changed_each_in_its_own_way() -> None:
    made = RECIPE(many(12))["image"]
    assert len({made[number].numpy().tobytes() for number in range(12)}) == 12


def test_a_recipe_leaves_the_batch_that_it_is_given_as_it_is() -> None:
    batch = {**many(6), "label": torch.arange(6), "mask": many(6)["image"][:, 0].clone()}
    before = {name: value.clone() for name, value in batch.items()}
    for steps in (RECIPE.steps, (augment.HorizontalFlip(1.0),), (augment.RandomCrop(64),)):
        augment.Recipe(*steps)(batch)
    assert all(torch.equal(batch[name], value) for name, value in before.items())


def test_results_that_are_kept_stay_as_they_were() -> None:
    recipe = augment.Recipe(augment.RandomCrop(40), augment.Normalize())
    kept = [recipe(many(4), epoch=epoch)["image"] for epoch in range(8)]
    again = [recipe(many(4), epoch=epoch)["image"] for epoch in range(8)]
    assert all(torch.equal(a, b) for a, b in zip(kept, again, strict=True))


def test_masks_follow_crops_and_flips() -> None:
    batch = many(8)
    batch["mask"] = batch["image"][:, 0].clone()
    steps = augment.RandomCrop(40), augment.HorizontalFlip()
    made = augment.Recipe(*steps)(batch)
    assert torch.equal(made["mask"], made["image"][:, 0])


@settings(max_examples=50, deadline=None)
@given(
    height=st.integers(1, 600),
    width=st.integers(1, 600),
    least=st.floats(0.01, 1.0),
    seed=st.integers(0, 2**32),
)
def test_every_box_lies_inside_its_picture(
    height: int, width: int, least: float, seed: int
) -> None:
    chance = draws.Chance(draws.sample_keys(seed, 0, np.arange(64)), 0)
    cut = boxes.resized(chance, (height, width), (least, 1.0), (3 / 4, 4 / 3))
    for start, length, side in ((cut.top, cut.height, height), (cut.left, cut.width, width)):
        assert start.min() >= 0 and length.min() >= 1 and (start + length).max() <= side


def test_boxes_have_torchvisions_areas_and_shapes() -> None:
    chance = draws.Chance(draws.sample_keys(1, 0, np.arange(20_000)), 0)
    cut = boxes.resized(chance, (500, 500), (0.08, 1.0), (3 / 4, 4 / 3))
    share = cut.height * cut.width / 250_000
    deciles = np.quantile(share, np.arange(1, 10) / 10)
    assert np.abs(deciles - STORED["box_shares"]).max() < 0.02
    shape = np.log(cut.width / cut.height)
    assert abs(shape.mean()) < 0.01 and abs(shape).max() < np.log(4 / 3) + 0.02


def test_beta_numbers_have_the_mean_and_variance_of_beta() -> None:
    chance = draws.Chance(draws.sample_keys(1, 0, np.arange(20_000)), 0)
    for alpha in (0.2, 1.0, 2.0):
        found = mixing.beta(chance, alpha)
        assert abs(found.mean() - 0.5) < 0.01
        assert abs(found.var() - 1 / (4 * (2 * alpha + 1))) < 0.005


@pytest.mark.parametrize("step", [augment.MixUp(10), augment.CutMix(10)], ids=["mixup", "cutmix"])
def test_mixed_pictures_have_the_shares_of_their_labels(step: augment.Step) -> None:
    flat = torch.arange(6.0).view(6, 1, 1, 1).expand(6, 3, 64, 64).contiguous()
    batch = {"image": flat, "index": torch.arange(6), "label": torch.arange(6)}
    made = augment.Recipe(step)(batch)
    share = made["label"]
    assert share.shape == (6, 10) and torch.allclose(share.sum(1), torch.ones(6))
    for number in range(6):
        neighbour = (number - 1) % 6
        blend = number * share[number, number] + neighbour * share[number, neighbour]
        assert made["image"][number].mean().item() == pytest.approx(blend.item(), abs=1e-4)


def test_a_recipe_shows_its_steps() -> None:
    recipe = augment.Recipe(augment.RandomCrop(8), augment.HorizontalFlip())
    assert repr(recipe) == "Recipe(RandomCrop(size=8), HorizontalFlip(p=0.5))"


def test_a_batch_without_pictures_or_indices_is_refused() -> None:
    with pytest.raises(InputError, match=r'batch\["index"\]'):
        RECIPE({"image": many(2)["image"]})
    with pytest.raises(InputError, match="does not fit"):
        augment.Recipe(augment.RandomCrop(97))(many(2))
    with pytest.raises(InputError, match='no "label"'):
        augment.Recipe(augment.Normalize(), augment.MixUp(10))(many(2))
