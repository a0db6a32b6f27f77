from __future__ import annotations

import functools
import os
import random
import time
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from stoker.probe.twin import Call, digest, examine, split


def work(seconds: float) -> None:
    """Use CPU time in a call of its own."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


class Plain:
    """Nothing random."""

    def __getitem__(self, index: int) -> int:
        work(0.004)
        return index * 3


class FlippedLast:
    """Deterministic work, then a flip that comes out alike under every other seed."""

    def load(self, index: int) -> np.ndarray[Any, Any]:
        work(0.012)
        return np.arange(index, index + 12).reshape(3, 4)

    def augment(self, image: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        work(0.004)
        return image[:, ::-1] if random.random() < 0.5 else image

    def __getitem__(self, index: int) -> np.ndarray[Any, Any]:
        return self.augment(self.load(index))


class RandomFirst:
    """The random part comes first: nothing can be stored."""

    def draw(self) -> float:
        work(0.004)
        return random.random()

    def __getitem__(self, index: int) -> float:
        value = self.draw()
        work(0.012)
        return value + index


class Composed:
    """A list of transforms, the second one random."""

    def __init__(self) -> None:
        self.transforms = [self.blur, self.shift, self.blur]

    def blur(self, image: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        work(0.004)
        return image + 1

    def shift(self, image: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.roll(image, np.random.randint(1, 1000))

    def __getitem__(self, index: int) -> np.ndarray[Any, Any]:
        image = np.arange(1000) + index
        for transform in self.transforms:
            image = transform(image)
        return image


class Counting:
    """Gives another sample each time, whatever the seed."""

    calls = 0

    def __getitem__(self, index: int) -> int:
        work(0.002)
        self.calls += 1
        return self.calls + index


def share(dataset: Any) -> tuple[float, str | None, bool]:
    found = examine(dataset, [3, 4], limit_s=20.0)
    assert found is not None
    return found["random_share"], found["random_op"], found["repeatable"]


def test_a_sample_without_chance_can_be_stored_whole() -> None:
    random_share, operation, repeatable = share(Plain())
    assert random_share == 0.0
    assert operation is None
    assert repeatable


def test_what_comes_before_the_first_random_operation_can_be_stored() -> None:
    random_share, operation, _ = share(FlippedLast())
    assert operation == "FlippedLast.augment"
    assert 0.1 < random_share < 0.45  # 4 of 16 ms


def test_what_is_random_from_the_start_must_be_done_anew() -> None:
    random_share, operation, _ = share(RandomFirst())
    assert operation is not None
    assert random_share > 0.9


def test_a_list_of_transforms_is_cut_at_the_random_one() -> None:
    random_share, operation, _ = share(Composed())
    assert operation == "Composed.shift"
    assert 0.25 < random_share < 0.75  # the second blur comes after the shift


def test_a_sample_that_never_comes_out_the_same_is_not_repeatable() -> None:
    random_share, _, repeatable = share(Counting())
    assert not repeatable
    assert random_share > 0.5


def test_a_crop_of_a_decoded_picture_is_where_chance_begins(tmp_path: Any) -> None:
    path = tmp_path / "photo.png"
    pixels = np.random.default_rng(0).integers(0, 255, (400, 600, 3), np.uint8)
    Image.fromarray(pixels).save(path)

    class Photos:
        def __getitem__(self, index: int) -> np.ndarray[Any, Any]:
            image = Image.open(path).convert("RGB").resize((128, 128))
            left = np.random.randint(0, 32)
            return np.asarray(image.crop((left, left, left + 96, left + 96)))

    random_share, _, _ = share(Photos())
    assert random_share < 0.5


def test_very_many_calls_are_examined_in_bounded_time() -> None:
    def small(value: int) -> int:
        return value + 1

    class Busy:
        def __getitem__(self, index: int) -> int:
            for _ in range(100_000):
                index = small(index)
            return index

    found = examine(Busy(), [0], limit_s=20.0)
    assert found is not None
    assert found["random_share"] == 0.0


def test_time_that_is_up_before_three_runs_tells_nothing() -> None:
    assert examine(Plain(), [0, 1], limit_s=0.0) is None


def test_an_error_of_the_data_set_is_its_own() -> None:
    class Broken:
        def __getitem__(self, index: int) -> int:
            raise KeyError(index)

    with pytest.raises(KeyError):
        examine(Broken(), [0], limit_s=5.0)


def test_equal_content_has_equal_digests() -> None:
    assert digest(np.arange(4)) == digest(np.arange(4))
    assert digest(np.arange(4)) != digest(np.arange(5))
    assert digest({"a": [1, 2.0, "x"]}) == digest({"a": [1, 2.0, "x"]})
    assert digest(object()) is None


def test_a_librarys_operation_below_getitem_goes_by_its_own_name() -> None:
    def sample(cut: bytes) -> Call:
        crop = Call("RandomCrop.forward", "torchvision", 1.0, True, 2.0, cut)
        own = Call("Photos.__getitem__", "__main__", 0.0, False, 2.0, cut, [crop])
        return Call("__getitem__", "", 0.0, False, 2.0, cut, [own])

    found = split(sample(b"left"), [sample(b"left"), sample(b"right")])
    assert (found.random_op, found.stored_s) == ("RandomCrop.forward", 1.0)


class Drawing:
    """Works, then draws in its own body, as most data sets do."""

    def __init__(self, draw: Any, *, first: bool = False) -> None:
        self.draw, self.first = draw, first

    def __getitem__(self, index: int) -> float:
        drawn = self.draw() if self.first else 0.0
        work(0.012)
        return index + (drawn or self.draw())


class Wrapped:
    """A data set around another one."""

    def __init__(self, inner: Drawing) -> None:
        self.inner = inner

    def __getitem__(self, index: int) -> float:
        return self.inner[index]


DRAWS = {
    "random": random.random,
    "numpy": lambda: np.random.random_sample(),
    "torch": lambda: float(torch.rand(1)),
    "of a tensor": lambda: float(torch.empty(1).uniform_()),
    "in Python": lambda: random.uniform(0.0, 1.0),
}


@pytest.mark.parametrize("wrap", [lambda inner: inner, Wrapped], ids=["itself", "wrapped"])
@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS.keys())
def test_what_a_data_set_does_before_it_draws_can_be_stored(draw: Any, wrap: Any) -> None:
    random_share, operation, repeatable = share(wrap(Drawing(draw)))
    assert repeatable and operation is not None
    assert random_share < 0.4
    random_share, *_ = share(wrap(Drawing(draw, first=True)))
    assert random_share > 0.8


class Keeping:
    """A cache of its own, too small for an epoch, before a flip in the same body."""

    def __init__(self) -> None:
        self.load = functools.lru_cache(maxsize=2)(self._load)

    def _load(self, index: int) -> list[int]:
        work(0.012)
        return list(range(index, index + 12))

    def __getitem__(self, index: int) -> list[int]:
        found = self.load(index)
        return found[::-1] if random.random() < 0.5 else found


def test_what_a_data_set_keeps_itself_can_be_stored() -> None:
    random_share, operation, repeatable = share(Keeping())
    assert repeatable and operation is not None
    assert random_share < 0.2


@pytest.mark.parametrize("held", [[0], [1]])
def test_a_sample_that_is_kept_already_hides_no_cache(held: list[int]) -> None:
    dataset = Keeping()
    for index in held:
        dataset[index]
    found = examine(dataset, [0, 1, 2, 3], limit_s=10.0)
    assert found is not None and found["is_kept"]
    assert found["random_share"] < 0.2 and found["sample_s"] > 0.004


def test_a_handle_that_is_opened_late_is_no_cache() -> None:
    class Late:
        def __init__(self) -> None:
            self.is_open = False

        def open(self) -> None:
            self.is_open = True
            work(0.03)

        def __getitem__(self, index: int) -> float:
            if not self.is_open:
                self.open()
            value = random.random()
            work(0.003)
            return value + index

    assert share(Late())[0] > 0.8


def test_a_draw_that_was_not_seen_leaves_nothing_to_store() -> None:
    class Hidden:
        def __getitem__(self, index: int) -> float:
            work(0.004)
            return index + float(np.frombuffer(os.urandom(2), np.uint16)[0])

    random_share, operation, _ = share(Hidden())
    assert operation is not None and random_share > 0.8


def test_a_generator_of_the_data_sets_own_leaves_nothing_to_store() -> None:
    drawn = np.random.default_rng(3)

    class Own:
        def __getitem__(self, index: int) -> float:
            first = drawn.random()
            work(0.004)
            return index + first + random.random()

    random_share, _, repeatable = share(Own())
    assert not repeatable and random_share > 0.8


def test_numpy_is_left_as_it_was() -> None:
    before = dict(vars(np.random))
    with pytest.raises(KeyError):
        examine({}, [0], limit_s=5.0)
    assert dict(vars(np.random)) == before
