"""stoker.augment: torchvision's results, each sample its own draws, the same in any batch."""

from __future__ import annotations

import colorsys
import pickle
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
from stoker.loader.augment.resample import by_matrices, resampled
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


GIVEN: list[tuple[Any, str]] = [
    (lambda: augment.RandomCrop(0), "RandomCrop cannot have size=0"),
    (lambda: augment.CenterCrop((8, -1)), "CenterCrop cannot have size"),
    (lambda: augment.RandomCrop((8, 8, 8)), "RandomCrop cannot have size"),  # type: ignore[arg-type]
    (lambda: augment.RandomResizedCrop(8.5), "RandomResizedCrop cannot have size"),  # type: ignore[arg-type]
    (lambda: augment.RandomResizedCrop(8, (1.0, 0.1)), "cannot have scale"),
    (lambda: augment.RandomResizedCrop(8, (-0.1, 1.0)), "cannot have scale"),
    (lambda: augment.RandomResizedCrop(8, ratio=(0.0, 1.0)), "cannot have ratio"),
    (lambda: augment.CenterResizedCrop(8, 1.5), "CenterResizedCrop cannot have share"),
    (lambda: augment.HorizontalFlip(-0.5), "HorizontalFlip cannot have p"),
    (lambda: augment.RandomGrayscale(1.5), "RandomGrayscale cannot have p"),
    (lambda: augment.ColorJitter(-0.4), "ColorJitter cannot have brightness"),
    (lambda: augment.ColorJitter((0.5, 1.5)), "ColorJitter cannot have brightness"),  # type: ignore[arg-type]
    (lambda: augment.ColorJitter(0, 0, float("inf")), "cannot have saturation"),
    (lambda: augment.ColorJitter(hue=0.6), "ColorJitter cannot have hue"),
    (lambda: augment.RandomErasing(ratio=(3.0, 0.3)), "RandomErasing cannot have ratio"),
    (lambda: augment.RandomErasing(value="random"), "cannot have value"),  # type: ignore[arg-type]
    (lambda: augment.Normalize((0.5,), (0.0,)), "Normalize cannot have std"),
    (lambda: augment.Normalize((0.5, 0.5), (0.2,)), "as many numbers as mean: 2"),
    (lambda: augment.Normalize(dtype=torch.int32), "Normalize cannot have dtype"),
    (lambda: augment.MixUp(0), "MixUp cannot have classes"),
    (lambda: augment.CutMix(10, 0.0), "CutMix cannot have alpha"),
    (lambda: augment.MixUp(10, 3.0), "MixUp cannot have alpha"),
]


@pytest.mark.parametrize("number", range(len(GIVEN)))
def test_a_step_with_parameters_that_cannot_be_is_refused_when_it_is_made(number: int) -> None:
    make, told = GIVEN[number]
    with pytest.raises(InputError, match=told):
        make()


@pytest.mark.parametrize(
    "step",
    [augment.ColorJitter(0.4), augment.RandomGrayscale(0.0), augment.Normalize()],
    ids=["jitter", "grey", "normalise"],
)
def test_floats_are_refused_where_bytes_are_counted_on(step: Any) -> None:
    batch = many(2)
    batch["image"] = batch["image"].float() / 255
    with pytest.raises(InputError, match="needs pictures of bytes, 0 to 255, and was given"):
        augment.Recipe(step)(batch)


def test_pictures_with_other_channels_are_refused_by_steps_that_know_only_three() -> None:
    batch = {"image": torch.zeros(2, 1, 8, 8, dtype=torch.uint8), "index": torch.arange(2)}
    for step in augment.ColorJitter(0.4), augment.RandomGrayscale(1.0), augment.Normalize():
        with pytest.raises(InputError, match="is for 3 channels, and the pictures have 1"):
            augment.Recipe(step)(batch)
    made = augment.Recipe(augment.Normalize((0.5,), (0.5,)))(batch)
    assert made["image"].unique().tolist() == [-1.0]


def test_floats_are_resized_alike_on_the_host_and_on_a_device() -> None:
    image = many(2)["image"].float() / 255
    cut = same_box(BOXES[0])
    out = torch.empty(2, 3, TARGET, TARGET)
    found = by_matrices(image, cut, (TARGET, TARGET))
    assert found.dtype is torch.float32
    assert torch.allclose(resampled(image, cut, out), found, atol=4e-3)
    whole = {"image": many(2)["image"].int(), "index": torch.arange(2)}
    with pytest.raises(InputError, match=r"of torch\.int32 cannot be resized"):
        augment.Recipe(augment.RandomResizedCrop(8))(whole)


@pytest.mark.parametrize("count", [(2, 48, 48), (1, 64, 64)], ids=["smaller", "fewer"])
def test_a_mask_that_does_not_lie_over_its_picture_is_refused(count: tuple[int, ...]) -> None:
    batch = {**many(2), "mask": torch.zeros(*count, dtype=torch.uint8), "label": torch.arange(2)}
    for step in augment.RandomCrop(40), augment.RandomResizedCrop(40), augment.CutMix(10):
        with pytest.raises(InputError, match="the mask 'mask' has the shape"):
            augment.Recipe(step)(batch)
    assert "mask" in augment.Recipe(augment.RandomCrop(40), masks=())(batch)


def test_boxes_that_are_pasted_are_pasted_into_masks_too() -> None:
    flat = torch.arange(6, dtype=torch.uint8).view(6, 1, 1, 1).expand(6, 3, 64, 64).contiguous()
    batch = {"image": flat, "mask": flat[:, 0], "index": torch.arange(6), "label": torch.arange(6)}
    made = augment.Recipe(augment.CutMix(10))(batch)
    assert torch.equal(made["mask"], made["image"][:, 0])
    assert any(len(mask.unique()) == 2 for mask in made["mask"])
    with pytest.raises(InputError, match="masks can't be blended"):
        augment.Recipe(augment.MixUp(10))(batch)


def test_a_batch_of_no_pictures_stays_one() -> None:
    steps = augment.RandomCrop(64), *RECIPE.steps, augment.CutMix(10)
    for image in many(0)["image"], torch.zeros(0, 3, 64, 64, dtype=torch.uint8):
        batch = {"image": image, "index": torch.arange(0), "label": torch.arange(0)}
        made = augment.Recipe(*steps)(batch)
        assert made["image"].shape == (0, 3, 48, 48) and made["label"].shape == (0, 10)
        mixed = augment.Recipe(augment.Normalize(), augment.MixUp(10))(batch)
        assert mixed["image"].shape == image.shape


def test_a_recipe_that_was_used_can_be_pickled() -> None:
    batch = many(4)
    made = RECIPE(batch)["image"]
    again = pickle.loads(pickle.dumps(RECIPE))
    assert torch.equal(again(batch)["image"], made) and repr(again) == repr(RECIPE)


def test_an_index_that_is_not_one_a_picture_is_refused() -> None:
    with pytest.raises(InputError, match=r"there are 4 pictures, and the index has the shape \(2,"):
        RECIPE({"image": many(4)["image"], "index": torch.arange(2)})


def test_a_batch_without_pictures_or_indices_is_refused() -> None:
    with pytest.raises(InputError, match=r'batch\["index"\]'):
        RECIPE({"image": many(2)["image"]})
    with pytest.raises(InputError, match="does not fit"):
        augment.Recipe(augment.RandomCrop(97))(many(2))
    with pytest.raises(InputError, match='no "label"'):
        augment.Recipe(augment.Normalize(), augment.MixUp(10))(many(2))
