"""Where transforms are cut: by what they do under other seeds, not by what they are called."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from stoker.split import digest, find_cut, find_row, seed_all, with_steps

torch = pytest.importorskip("torch")


def doubled(value: Any) -> Any:
    return value * 2


def as_floats(value: Any) -> Any:
    return value / 4


def scaled(value: Any) -> Any:
    return value - 1.5


def random_but_not_at_all(value: Any) -> Any:
    """Random by name only."""
    return value + 1


def seldom(value: Any) -> Any:
    return value + (random.random() < 1e-9)


def written_into(value: Any) -> Any:
    value += 1
    return value


def shifted(value: Any) -> Any:
    return value + np.random.randint(1000)


class Jittered:
    """Has a generator of its own, and hardly ever uses what it draws."""

    def __init__(self, generator: Any) -> None:
        self.generator = generator

    def __call__(self, value: Any) -> Any:
        return value + int(self.generator.random() < 1e-9)


class Numbers:
    """Arrays of whole numbers through a list of steps."""

    def __init__(self, *steps: Callable[[Any], Any]) -> None:
        self.augmentations = list(steps)

    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> Any:
        value = np.arange(4) + index
        for step in self.augmentations:
            value = step(value)
        return value, index


def told(*steps: Callable[[Any], Any]) -> str:
    return str(find_cut(Numbers(*steps)))


@pytest.mark.parametrize(
    ("steps", "cut"),
    [
        ((doubled, shifted, doubled), "packed once: doubled | in every epoch: shifted, doubled"),
        ((random_but_not_at_all,), "packed once: random_but_not_at_all | in every epoch: nothing"),
        ((doubled, seldom), "packed once: doubled | in every epoch: seldom"),
        ((written_into, shifted), "packed once: written_into | in every epoch: shifted"),
        (
            (doubled, shifted, as_floats, scaled),
            "packed once: doubled | in every epoch: shifted | there or on the device: "
            "as_floats, scaled",
        ),
        (
            (doubled, as_floats, shifted, scaled),
            "packed once: doubled | in every epoch: as_floats, shifted | there or on the device: "
            "scaled",
        ),
    ],
)
def test_steps_are_told_apart_by_what_they_do(steps: Any, cut: str) -> None:
    assert told(*steps) == cut


class OfTorch:
    """torch's generator with the method of the others."""

    def __init__(self, seed: int) -> None:
        self.state = torch.Generator().manual_seed(seed)

    def random(self) -> float:
        return float(torch.rand((), generator=self.state))


class TorchJittered(Jittered):
    """Holds the generator itself, as one writes it for torch."""

    def __init__(self, generator: OfTorch) -> None:
        super().__init__(generator)
        self.state = generator.state


def seeded_mersenne(seed: int) -> Any:
    return np.random.Generator(np.random.MT19937(seed))


@pytest.mark.parametrize(
    "make",
    [np.random.default_rng, random.Random, np.random.RandomState, seeded_mersenne, OfTorch],
)
@pytest.mark.parametrize("print_threshold", [1000, 3])
def test_a_draw_from_a_generator_of_its_own_is_seen_and_taken_back(
    make: Any, print_threshold: int
) -> None:
    step = TorchJittered(make(3)) if make is OfTorch else Jittered(make(3))
    with np.printoptions(threshold=print_threshold):
        cut = told(doubled, step)
    assert cut == f"packed once: doubled | in every epoch: {type(step).__name__}"
    assert step.generator.random() == make(3).random()


def test_a_generator_that_has_no_state_leaves_all_to_every_epoch() -> None:
    step = Jittered(random.SystemRandom())
    assert told(doubled, step) == "packed once: nothing | in every epoch: doubled, Jittered"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e4m3fn, torch.complex64])
def test_types_that_numpy_lacks_are_compared_as_well(dtype: Any) -> None:
    def tensors(value: Any) -> Any:
        return torch.from_numpy(value).to(torch.float32).requires_grad_().to(dtype).detach()

    def integers(value: Any) -> Any:
        return torch.from_numpy(value).to(torch.int16)

    assert told(doubled, integers, shifted).startswith("packed once: doubled, integers |")
    assert told(doubled, tensors).startswith("packed once: doubled")
    one, other = (torch.tensor([1.0, second]).to(dtype) for second in (2.0, 3.0))
    assert digest(one) == digest(one.clone()) != digest(other)
    assert digest(one[1]) != digest(other[1])
    assert digest(one) != digest(one.view(2, 1))


class Curt:
    """Says the same of whatever it holds."""

    def __init__(self, content: Any) -> None:
        self.content = content

    def __repr__(self) -> str:
        return "Curt()"


def test_what_is_not_the_same_or_can_not_be_compared_does_not_agree() -> None:
    assert digest(Curt(1)) == digest(Curt(1)) != digest(Curt(2))
    lock = Curt(threading.Lock())
    assert digest(lock) != digest(lock)
    one, other = (np.array([part, None], dtype=object) for part in ("a", "b"))
    assert digest(one) == digest(one.copy()) != digest(other)
    assert digest(torch.ones(2).to_sparse()) != digest(torch.ones(3).to_sparse())


def test_palettes_are_part_of_a_picture() -> None:
    one = Image.new("P", (2, 2))
    other = one.copy()
    one.putpalette([0, 0, 0])
    other.putpalette([9, 0, 0])
    assert digest(one) != digest(other)


def test_an_error_of_the_digest_is_not_taken_for_a_broken_sample(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(value: Any) -> bytes:
        raise TypeError("not this kind")

    monkeypatch.setattr("stoker.split.cut.digest", broken)
    with pytest.raises(TypeError, match="not this kind"):
        find_cut(Numbers(doubled))


def test_what_is_random_before_the_steps_or_makes_samples_without_them_has_no_cut() -> None:
    class Before(Numbers):
        def __getitem__(self, index: int) -> Any:
            return super().__getitem__(index + np.random.randint(9))

    class Without(Numbers):
        def __getitem__(self, index: int) -> Any:
            return index

    assert find_cut(Before(doubled)) is None
    assert find_cut(Without(doubled)) is None
    assert find_cut([1, 2, 3]) is None


class OddError(Exception):
    """Of a library, as cv2.error: derived from Exception alone."""


@pytest.mark.parametrize("error", [OSError, OddError])
def test_broken_samples_are_passed_over(error: type[Exception]) -> None:
    class Broken(Numbers):
        def __getitem__(self, index: int) -> Any:
            if index < 3:
                raise error("cut short")
            return super().__getitem__(index)

    assert str(find_cut(Broken(doubled, shifted))).startswith("packed once: doubled |")


def test_a_step_that_does_nothing_by_itself_stays_on_the_host() -> None:
    def alone(value: Any) -> Any:
        if len(asked) > 8 * 4:  # after all samples were watched
            raise OddError("not without the others")
        return asked.append(0) or value - 0.5

    asked: list[int] = []
    told = str(find_cut(Numbers(as_floats, alone)))
    assert told == "packed once: nothing | in every epoch: as_floats, alone"


def test_no_further_sample_is_looked_at_when_the_time_is_over() -> None:
    dataset = Numbers(doubled, shifted)
    asked: list[int] = []
    dataset.augmentations.insert(0, lambda value: asked.append(int(value[0])) or value)
    assert find_cut(dataset, limit_s=0.0) is None
    assert asked == []


def test_steps_are_found_where_data_sets_wrap_data_sets_and_replaced_in_copies() -> None:
    inner = Numbers(doubled, shifted)
    outer = SimpleNamespace(dataset=SimpleNamespace(dataset=inner, __getitem__=0, __len__=0))
    outer.dataset.__getitem__ = outer.dataset.__len__ = None
    row = find_row(outer)
    assert row is not None
    assert row.expression == ".dataset.dataset.augmentations"
    changed = with_steps(outer, row, [doubled])
    assert changed.dataset.dataset.augmentations == [doubled]
    assert outer.dataset.dataset is inner
    assert inner.augmentations == [doubled, shifted]


def test_lists_of_anything_else_are_no_steps() -> None:
    assert find_row(SimpleNamespace(paths=["a"], kinds=[int, str], empty=[])) is None
    seed_all(1)
    assert find_row(SimpleNamespace(transform=doubled)) is None
