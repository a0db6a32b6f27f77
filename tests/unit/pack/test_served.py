"""A pack in the place of the Dataset that it was made of: the same samples, or a refusal."""

from __future__ import annotations

import copy
import pickle
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from stoker import split
from stoker.errors import InputError
from stoker.pack import errand
from stoker.pack.served import Served, in_place_of
from stoker.random_state import states
from tests.unit.pack.conftest import packed, photo

torch = pytest.importorskip("torch")

COUNT = 24


class Compose:
    """As one writes it oneself."""

    def __init__(self, *transforms: Any) -> None:
        self.transforms = list(transforms)

    def __call__(self, value: Any) -> Any:
        for transform in self.transforms:
            value = transform(value)
        return value


class ByName(Compose):
    """As albumentations has it: parts by name, a dict back."""

    def __call__(self, **parts: Any) -> Any:
        for transform in self.transforms:
            parts = transform(**parts)
        return parts


class Module(torch.nn.Module):  # type: ignore[misc]
    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, value: Any) -> Any:
        return self.function(value)


def small(image: Any) -> Any:
    return image.resize((24, 24))


def flip(image: Any) -> Any:
    return image.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if random.random() < 0.5 else image


def floats(image: Any) -> Any:
    return torch.from_numpy(np.array(image, dtype=np.float32)).permute(2, 0, 1) / 255


def noise(tensor: Any) -> Any:
    return tensor + torch.rand(3, 1, 1)


class Dimmed:
    """With a generator of its own, as albumentations' transforms have one."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(4)

    def __call__(self, image: Any) -> Any:
        factor = self.random.uniform(0.5, 1)
        return image.point(lambda value: value * factor)


def halved(**parts: Any) -> Any:
    return {name: part[::2, ::2].copy() for name, part in parts.items()}


def flipped(**parts: Any) -> Any:
    if np.random.rand() < 0.5:
        return parts
    return {name: np.ascontiguousarray(part[:, ::-1]) for name, part in parts.items()}


class Photos:
    """An image and a label."""

    def __init__(self, transform: Any, size: tuple[int, int] | None = (40, 32)) -> None:
        self.transform = transform
        self.size = size

    def __len__(self) -> int:
        return COUNT

    def image(self, index: int) -> Any:
        return photo(index, self.size)

    def __getitem__(self, index: int) -> Any:
        return self.transform(self.image(index)), index % 5


class Gray(Photos):
    def image(self, index: int) -> Any:
        return photo(index, self.size).convert("L")


class Views(Photos):
    """Two draws of one picture, as contrastive training has it."""

    def __getitem__(self, index: int) -> Any:
        image = self.image(index)
        return [self.transform(image), self.transform(image)], torch.tensor(index)


class Dicts(Photos):
    def __getitem__(self, index: int) -> Any:
        about = {"weight": float(index) / 3, "name": f"photo {index}", "is_odd": bool(index % 2)}
        return {"x": self.transform(self.image(index)), "y": np.int32(index), "about": about}


class Looped(Photos):
    """Transforms in a list of the class, applied by the Dataset itself."""

    transforms = (floats, noise)

    def __getitem__(self, index: int) -> Any:
        frame = self.image(index)
        for transform in self.transforms:
            frame = transform(frame)
        return {"frame": frame, "action": torch.tensor([index % 3, index % 5])}


class Masked(Photos):
    def __getitem__(self, index: int) -> Any:
        pixels = np.array(self.image(index))
        parts = self.transform(image=pixels, mask=pixels[:, :, 0] // 64)
        return parts["image"], parts["mask"], index


class Subset:
    def __init__(self, dataset: Any, indices: list[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: int) -> Any:
        return self.dataset[self.indices[index]]


class Doubled(Photos):
    """Goes on with what its transforms gave."""

    def __getitem__(self, index: int) -> Any:
        return np.array(self.transform(self.image(index))) // 2, index


USUAL = Compose(small, flip, floats)
DATASETS: dict[str, tuple[Any, str]] = {
    "a Compose": (Photos(USUAL), "#1"),
    "gray": (Gray(Compose(small, flip)), "#1"),
    "sizes that differ": (Photos(Compose(flip, floats), None), "#0"),
    "two views": (Views(USUAL), "#1"),
    "a dict of dicts": (Dicts(USUAL), "#1"),
    "a list of the class": (Looped(None), "#0"),
    "parts by name": (Masked(ByName(halved, flipped)), "#1"),
    "a Sequential": (Photos(torch.nn.Sequential(*map(Module, (small, flip, floats)))), "#1"),
    "a generator of its own": (Photos(Compose(small, Dimmed(), floats)), "#1"),
    "a Subset": (Subset(Photos(USUAL), [5, 3, 9, 1, 22]), "#1"),
    "nothing random": (Photos(Compose(small)), ""),
    "no transforms": (Photos(floats), ""),
}


def all_of(dataset: Any) -> tuple[bytes, Any]:
    """A digest of all samples, drawn under one seed, and where the random numbers stand then."""
    split.seed_all(5)
    return split.digest([dataset[index] for index in range(len(dataset))]), states()


@pytest.mark.parametrize("name", DATASETS)
def test_the_samples_are_the_datasets_own_random_numbers_and_all(
    name: str, in_hand: Callable[[Any], Path]
) -> None:
    dataset, cut = DATASETS[name]
    folder = in_hand(dataset)
    split.seed_all(9)
    before = states()
    served = in_place_of(dataset, folder)
    assert states() == before
    own = copy.deepcopy(dataset)  # where generators of its own stand now
    assert served.pack.manifest.origin.location == f"here.py:{folder.name}{cut}"
    assert all_of(served) == all_of(own)
    assert type(served[1]) is type(dataset[1])


def test_memory_lies_as_the_dataset_has_it(in_hand: Callable[[Any], Path]) -> None:
    dataset = Photos(floats)
    served = in_place_of(dataset, in_hand(dataset))
    assert served[2][0].stride() == dataset[2][0].stride() != served[2][0].contiguous().stride()


class Outer(Subset):
    """Has transforms of its own over a data set that has none."""

    transform = Compose(small, flip)

    def __getitem__(self, index: int) -> Any:
        image, label = super().__getitem__(index)
        return self.transform(Image.fromarray(image)), label


class Joined:
    """As ConcatDataset has it, with one below."""

    def __init__(self, *datasets: Any) -> None:
        self.datasets = list(datasets)

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> Any:
        return self.datasets[0][index]


@pytest.mark.parametrize(
    ("wrapped", "transform"),
    [
        (lambda lazy: lazy, USUAL),
        (lambda lazy: Subset(lazy, [3, 1, 2]), USUAL),
        (lambda lazy: Subset(lazy, [3, 1, 2]), floats),
        (lambda lazy: Subset(Subset(lazy, [3, 1, 2]), [0, 1]), floats),
        (lambda lazy: Outer(lazy, [3, 1, 2]), np.array),
        (lambda lazy: Joined(lazy), floats),
    ],
)
def test_no_file_is_opened_in_the_dataset_itself(
    wrapped: Callable[[Any], Any], transform: Any, in_hand: Callable[[Any], Path]
) -> None:
    class Lazy(Photos):
        file: Any = None

        def __getitem__(self, index: int) -> Any:
            self.file = self.file or object()
            return super().__getitem__(index)

    lazy = Lazy(transform)
    dataset = wrapped(lazy)
    folder = in_hand(dataset)
    lazy.file = None
    served = in_place_of(dataset, folder)
    assert lazy.file is None
    assert all_of(served) == all_of(dataset)


def test_it_goes_to_workers_by_pickle(in_hand: Callable[[Any], Path]) -> None:
    dataset = Photos(USUAL)
    served = in_place_of(dataset, in_hand(dataset))
    assert all_of(pickle.loads(pickle.dumps(served))) == all_of(dataset)


def test_what_is_no_part_of_the_pack_is_asked_of_the_dataset(
    in_hand: Callable[[Any], Path],
) -> None:
    class Batched(Photos):
        classes = ("a", "b")

        def __getitems__(self, indices: list[int]) -> list[Any]:
            return [self[index] for index in indices]

        def __getitem__(self, index: int) -> Any:
            if index == 3:
                raise ValueError("sample 3 is broken")
            return super().__getitem__(index)

    dataset = Batched(Compose(small))
    served = in_place_of(dataset, in_hand(dataset))
    assert served.classes == ("a", "b")
    assert [label for _, label in served.__getitems__([7, 1])] == [2, 1]
    assert served.pack.quarantined.tolist() == [3]
    with pytest.raises(ValueError, match="sample 3 is broken"):
        served[3]


def refused(dataset: Any, folder: Path) -> str:
    with pytest.raises(InputError, match="doesn't belong to this data set") as told:
        in_place_of(dataset, folder)
    assert "stoker pack --from" in told.value.run_next
    return told.value.happened


def test_another_dataset_is_refused(in_hand: Callable[[Any], Path]) -> None:
    dataset = Subset(Photos(USUAL), list(range(20)))
    folder = in_hand(dataset)
    fewer, other, blurred, labels = (copy.copy(dataset) for _ in range(4))
    fewer.indices = list(range(19))
    assert "it has 20 samples, the data set 19" in refused(fewer, folder)
    other.indices = [1, 0, *range(2, 20)]
    assert "sample 0: its 'image' is another" in refused(other, folder)

    def larger(image: Any) -> Any:
        return image.resize((25, 25))

    blurred.dataset = Photos(Compose(larger, flip, floats))
    assert "sample 0: its 'image' is another" in refused(blurred, folder)

    class Labelled(Photos):
        def __getitem__(self, index: int) -> Any:
            return super().__getitem__(index)[0], index % 4

    labels.dataset = Labelled(USUAL)
    assert "its 'label' is another" in refused(labels, folder)


class Noted(Photos):
    """Its transforms need what no pixel says, and draw from a generator of their own."""

    def __getitem__(self, index: int) -> Any:
        image = self.image(index)
        image.info["angle"] = 90
        return self.transform(image), index


class Turned:
    def __init__(self) -> None:
        self.random = random.Random(3)

    def __call__(self, image: Any) -> Any:
        times = self.random.randrange(4)
        return image.rotate(times * image.info["angle"])


def test_a_rest_that_can_not_be_done_is_a_refusal_and_no_crash(
    in_hand: Callable[[Any], Path],
) -> None:
    step = Turned()
    dataset = Noted(Compose(small, step))
    folder = in_hand(dataset)
    before = step.random.getstate()
    assert "can't be made of the pack: KeyError: 'angle'" in refused(dataset, folder)
    assert step.random.getstate() == before
    is_servable, told = errand._tried_out(dataset, folder)
    assert not is_servable
    assert "can't be made of the pack" in told


def test_whatever_a_try_out_raises_the_pack_is_made(
    in_hand: Callable[[Any], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    class UnheardError(Exception):
        pass

    def broken(*_: Any, **__: Any) -> None:
        raise UnheardError("of the user's own")

    monkeypatch.setattr(errand, "in_place_of", broken)
    assert errand._tried_out([], Path("p")) == (False, "UnheardError: of the user's own")


def test_samples_are_compared_as_torch_fetches_them(in_hand: Callable[[Any], Path]) -> None:
    class Batched(Photos):
        def __getitems__(self, indices: list[int]) -> list[Any]:
            return [(self[index][0], index) for index in indices]

    dataset = Batched(USUAL)
    assert "its 'label' is another" in refused(dataset, in_hand(dataset))


def test_a_random_first_transform_is_refused(in_hand: Callable[[Any], Path]) -> None:
    folder = in_hand(Photos(USUAL))
    assert "its 'image' is another" in refused(Photos(Compose(flip, small, floats)), folder)


def test_a_dataset_that_goes_on_with_the_result_is_refused(in_hand: Callable[[Any], Path]) -> None:
    dataset = Doubled(Compose(small, flip))
    folder = in_hand(Doubled(Compose(small, flip)))
    assert "goes on with the result of its transforms" in refused(dataset, folder)


def test_jpegs_are_refused_as_other_pixels(in_hand: Callable[[Any], Path], tmp_path: Path) -> None:
    dataset = Photos(USUAL)
    in_hand(dataset)
    packed("here.py:p0", tmp_path / "jpeg", size=None, tier="jpeg", shard_bytes=1 << 20)
    assert "stored as JPEG, which changes pixels" in refused(dataset, tmp_path / "jpeg")


def test_a_pack_of_the_files_serves_a_script_that_does_the_same(
    photos: Path, tmp_path: Path
) -> None:
    class Files(Photos):
        def __init__(self) -> None:
            super().__init__(Compose(squashed, flip, floats))
            self.paths = sorted(photos.rglob("*.*"))

        def __len__(self) -> int:
            return len(self.paths)

        def __getitem__(self, index: int) -> Any:
            path = self.paths[index]
            image = Image.open(path).convert("RGB")
            return self.transform(image), "abc".index(path.parent.name)

    def squashed(image: Any) -> Any:
        return image.resize((24, 24), Image.Resampling.BILINEAR)

    packed(photos, tmp_path / "p", fit="exact")
    dataset = Files()
    served = in_place_of(dataset, tmp_path / "p")
    assert isinstance(served, Served)
    assert served.recipe.rest == "flip, floats"
    assert all_of(served) == all_of(dataset)
