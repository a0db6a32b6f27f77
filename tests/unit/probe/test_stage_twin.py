"""Which stages of a real data set give the same under other random seeds."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from stoker.probe import stages
from stoker.probe.stage_reading import read_stages
from stoker.probe.stage_twin import StageTrace, examine_stages


def shrink(image: PIL.Image.Image) -> PIL.Image.Image:
    return image.resize((32, 32))


def to_tensor(image: PIL.Image.Image) -> torch.Tensor:
    return torch.from_numpy(np.array(image))


class Flip:
    def __call__(self, image: PIL.Image.Image) -> PIL.Image.Image:
        if random.random() < 0.5:
            return image.transpose(PIL.Image.Transpose.FLIP_LEFT_RIGHT)
        return image


class Compose:
    def __init__(self, transforms: list[Any]) -> None:
        self.transforms = transforms

    def __call__(self, value: Any) -> Any:
        for transform in self.transforms:
            value = transform(value)
        return value


class Photos(Dataset[Any]):
    def __init__(self, path: Path, transform: Any = None) -> None:
        self.path = path
        self.transform = transform or Compose([shrink, Flip(), to_tensor])
        self.labels = ["a", "b"]

    def __len__(self) -> int:
        return 4

    def load(self, index: int) -> PIL.Image.Image:
        return PIL.Image.open(self.path).convert("RGB")

    def check(self, image: Any) -> None:
        """Gives nothing, whatever it does."""

    def label(self, index: int) -> str:
        return self.labels[index % 2]

    def __getitem__(self, index: int) -> Any:
        image = self.load(index)
        self.check(image)
        return self.transform(image), self.label(index)


class Late(Photos):
    """A check behind the random operation."""

    def __getitem__(self, index: int) -> Any:
        tensor = self.transform(self.load(index))
        self.check(tensor)
        return tensor


class InPlace(Photos):
    """A random operation that gives nothing, and changes what the next one takes."""

    def jitter(self, pixels: Any) -> None:
        pixels += np.uint8(random.randrange(9))

    def brighten(self, pixels: Any) -> Any:
        return pixels + np.uint8(1)

    def __getitem__(self, index: int) -> Any:
        pixels = np.array(self.load(index))
        self.jitter(pixels)
        return self.brighten(pixels)


class Sometimes(Photos):
    """Chance decides which way a sample takes."""

    def turn(self, image: Any) -> Any:
        return image.transpose(PIL.Image.Transpose.ROTATE_180)

    def __getitem__(self, index: int) -> Any:
        image = self.load(index)
        if random.random() < 0.5:
            image = self.turn(image)
        return to_tensor(image), self.label(index)


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    path = tmp_path / "photo.png"
    pixels = np.random.default_rng(0).integers(0, 255, (60, 80, 3), np.uint8)
    PIL.Image.fromarray(pixels).save(path)
    return path


def told(dataset: Any) -> dict[str, bool]:
    return examine_stages(dataset, [0, 1], limit_s=60.0)


def test_what_comes_before_the_random_operation_repeats_and_what_it_feeds_does_not(
    photo: Path,
) -> None:
    found = told(Photos(photo))
    repeating = {
        *("Photos.load", "open (Pillow)", "decode (Pillow)", "convert (Pillow)", "open (file)"),
        *("shrink", "resize (Pillow)", "Photos.label"),
    }
    assert {stage for stage, repeats in found.items() if repeats} >= repeating
    changing = {"Photos.__getitem__", "Compose", "Flip", "flip (Pillow)", "to_tensor"}
    assert {stage for stage, repeats in found.items() if not repeats} >= changing


def test_without_chance_everything_repeats(photo: Path) -> None:
    assert all(told(Photos(photo, Compose([shrink, to_tensor]))).values())


def test_what_gives_nothing_is_known_only_before_the_first_difference(photo: Path) -> None:
    plain = Compose([shrink, to_tensor])
    assert told(Photos(photo, plain))["Photos.check"] is True
    assert "Photos.check" not in told(Late(photo))


def test_what_is_changed_in_place_at_random_is_not_told_to_repeat(photo: Path) -> None:
    found = told(InPlace(photo))
    assert found["Photos.load"] is True
    assert "InPlace.jitter" not in found
    assert found["InPlace.brighten"] is False


def test_what_chance_decides_to_do_does_not_repeat(photo: Path) -> None:
    found = told(Sometimes(photo))
    assert found["Photos.load"] is True
    assert found["Sometimes.turn"] is False
    assert found["Photos.label"] is False  # it comes behind the parting of the ways


def test_the_names_are_those_of_the_timed_stages(photo: Path) -> None:
    photos = Photos(photo)
    lines: list[dict[str, Any]] = []
    with stages.install(photos, lines.append, where="main"):
        list(DataLoader(photos, batch_size=2))
    timed = {row.stage: row.deterministic for row in read_stages(lines, told(photos))}
    assert timed["decode (Pillow)"] is True
    assert timed["Flip"] is False
    # A batch must be put together in any case, of whatever.
    assert timed["collate"] is timed["fetch"] is None


def test_of_the_many_frames_of_a_video_some_are_compared(photo: Path) -> None:
    trace = StageTrace()
    frame = trace.timed("frame", lambda number: bytes([number]))
    root = trace.run(lambda: [frame(number) for number in range(200)])
    assert len(root.below) == 200
    assert [call.result is not None for call in root.below] == [True] * 64 + [False] * 136

    class Video(Photos):
        def frame(self, number: int) -> bytes:
            return bytes([number])

        def __getitem__(self, index: int) -> Any:
            return [self.frame(number) for number in range(200)]

    assert told(Video(photo))["Video.frame"] is True


def test_everything_is_put_back(photo: Path) -> None:
    photos = Photos(photo)
    before: list[Callable[..., Any]] = [Photos.load, Flip.__call__, PIL.Image.open, to_tensor]
    told(photos)
    assert before == [Photos.load, Flip.__call__, PIL.Image.open, to_tensor]
    assert photos.transform.transforms[0] is shrink


def test_a_sample_that_could_not_be_made_under_all_seeds_tells_nothing(photo: Path) -> None:
    assert examine_stages(Photos(photo), [0], limit_s=0.0) == {}
