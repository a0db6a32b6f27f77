"""The certificate: equal pipelines are told to be, others by how much they differ."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from stoker.errors import InputError
from stoker.pack import Pack
from stoker.pack.fidelity import certify
from stoker.pack.job import Order
from stoker.report.pack import render_certificate
from tests.unit.pack.conftest import packed

DATASET = """
from pathlib import Path
from PIL import Image
import numpy as np

class Own:
    def __init__(self):
        self.paths = sorted(Path({folder!r}).rglob("*.*"))[{first}:]
    def __len__(self):
        return len(self.paths)
    def __getitem__(self, index):
        path = self.paths[index]
        image = Image.open(path).convert("RGB")
        scale = 24 / min(image.size)
        size = [max(24, int(side * scale + 1e-9)) for side in image.size]
        image = image.resize(size, Image.Resampling.{resampler})
        left, top = (round((side - 24) / 2) for side in image.size)
        image = image.crop((left, top, left + 24, top + 24))
        return {returned}
"""

Write = Callable[..., str]


@pytest.fixture
def own(photos: Path, tmp_path: Path) -> Write:
    def write(returned: str = 'image, "abc".index(path.parent.name)', **given: object) -> str:
        known = {"resampler": "BILINEAR", "first": 0, **given}
        name = f"fidelity_{abs(hash((returned, str(known), str(tmp_path))))}.py"
        text = DATASET.format(folder=str(photos), returned=returned, **known)
        (tmp_path / name).write_text(text)
        return f"{tmp_path / name}:Own"

    return write


@pytest.fixture
def pack(photos: Path, tmp_path: Path) -> Pack:
    found = packed(photos, tmp_path / "p").pack
    assert found is not None
    return found


def test_the_users_own_pipeline_is_equal_to_the_last_bit(own: Write, pack: Pack) -> None:
    found = certify(pack, own())
    assert found.is_equivalent
    assert (found.mean_difference, found.equal_pictures) == (0.0, 21)
    assert (found.labels_compared, found.labels_equal) == (21, 21)


def test_the_certificate_says_what_was_compared_and_no_more(own: Write, pack: Pack) -> None:
    told = render_certificate(certify(pack, own(), count=8))
    assert "equivalent (8 of 21 samples compared, by their index)" in told
    assert "mean difference 0.000 grey levels (up to 1 is allowed), largest 0; 8 equal" in told
    assert "labels: 8 of 8 equal" in told
    assert "hash of the sources' names in the pack's order, to compare packs by: " in told
    assert "labels: none to compare" in render_certificate(certify(pack, own("(image,)")))


def test_the_hash_of_the_order_is_that_of_the_order_alone(
    own: Write, pack: Pack, photos: Path
) -> None:
    def hash_of(name: str, **options: object) -> str:
        other = packed(photos, pack.path.parent / name, **options).pack
        assert other is not None
        return certify(other, own(), count=4).order_hash

    assert certify(pack, own(), count=4).order_hash == hash_of("large", shard_bytes=10**6)
    (photos / "a" / "00.png").rename(photos / "a" / "01.png")
    assert hash_of("renamed") != certify(pack, own(), count=4).order_hash


def test_another_resampler_is_told_by_how_much(own: Write, pack: Pack) -> None:
    found = certify(pack, own(resampler="NEAREST"), count=10)
    assert not found.is_equivalent
    assert found.compared == 10
    assert found.mean_difference is not None and found.mean_difference > 1


def test_other_labels_are_not_equivalent(own: Write, pack: Pack) -> None:
    found = certify(pack, own("image, 0"))
    assert not found.is_equivalent
    assert found.labels_equal == 7


def test_another_size_is_not_equivalent(own: Write, pack: Pack) -> None:
    found = certify(pack, own("image.crop((0, 0, 20, 24)), 0"))
    assert (found.is_equivalent, found.other_sizes, found.mean_difference) == (False, 21, None)


def test_what_cannot_be_compared_is_refused(own: Write, pack: Pack, photos: Path) -> None:
    with pytest.raises(InputError, match=r"has 20 samples, .* has 21"):
        certify(pack, own(first=1))
    with pytest.raises(InputError, match="gives float32 of shape"):
        certify(pack, own("np.float32(image)"))
    shuffled = packed(photos, pack.path.parent / "s", order=Order(1)).pack
    assert shuffled is not None
    with pytest.raises(InputError, match="isn't in the order of its source"):
        certify(shuffled, own())


COMPOSED = """
import random
from pathlib import Path
from PIL import Image
import numpy as np

class Compose:
    def __init__(self, *transforms):
        self.transforms = list(transforms)
    def __call__(self, value):
        for transform in self.transforms:
            value = transform(value)
        return value

def small(image): return image.resize((24, 24))
def flip(image): return image.transpose(0) if random.random() < 0.5 else image
def floats(image): return np.asarray(image, dtype=np.float32) / 255

class Own:
    def __init__(self):
        self.paths = sorted(Path({folder!r}).rglob("*.*"))
        self.transform = Compose(small, flip, floats)
    def __len__(self):
        return len(self.paths)
    def __getitem__(self, index):
        image = Image.open(self.paths[index]).convert("RGB")
        return self.transform(image), "abc".index(self.paths[index].parent.name)
"""


def test_a_dataset_is_cut_as_it_was_for_the_pack(photos: Path, tmp_path: Path) -> None:
    path = tmp_path / f"fidelity_composed_{abs(hash(str(tmp_path)))}.py"
    path.write_text(COMPOSED.format(folder=str(photos)))
    pack = packed(f"{path}:Own", tmp_path / "p", size=None).pack
    assert pack is not None
    found = certify(pack, f"{path}:Own")
    assert found.dataset == f"{path}:Own#1"
    assert (found.is_equivalent, found.equal_pictures, found.labels_equal) == (True, 21, 21)


def test_arrays_have_to_be_equal(own: Write, tmp_path: Path) -> None:
    made = own("np.float32(image)[0] / 255 + np.nan * (index % 2), index % 3")
    pack = packed(made, tmp_path / "p", size=None).pack
    assert pack is not None
    found = certify(pack, made)
    assert (found.field, found.is_picture, found.is_equivalent) == ("data", False, True)
    assert (found.equal_pictures, found.largest_difference) == (21, 0.0)
    assert "data: mean difference 0, largest 0; 21 equal" in render_certificate(found)
    other = certify(pack, own("np.float32(image)[0] / 255 + (index == 4), index % 3"))
    assert not other.is_equivalent
    sized = certify(pack, own("np.float32(image)[:2, 0] / 255, index % 3"))
    assert (sized.is_equivalent, sized.other_sizes) == (False, 21)
    assert "of another size: 21 arrays" in render_certificate(sized)


def test_a_pack_without_pictures_and_numbers_is_refused(own: Write, tmp_path: Path) -> None:
    pack = packed(own("{'text': path.stem}"), tmp_path / "p", size=None).pack
    assert pack is not None
    with pytest.raises(InputError, match="neither pictures nor arrays") as told:
        certify(pack, own())
    assert "without --against" in told.value.run_next


def test_a_file_imports_what_lies_beside_it_as_python_has_it(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    name = f"beside_{abs(hash(str(tmp_path)))}"
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / f"{name}.py").write_text(COMPOSED.format(folder=str(photos)))
    # One is imported with the file, the other when a sample is made.
    (tmp_path / "code" / f"{name}_late.py").write_text("one = 1\n")
    path = tmp_path / "code" / f"{name}_main.py"
    path.write_text(
        f"from {name} import Own as Other\n"
        "class Own(Other):\n"
        "    def __getitem__(self, index):\n"
        f"        from {name}_late import one\n"
        "        return super().__getitem__(index)\n"
    )
    pack = packed(f"{path}:Own", tmp_path / "p", size=None).pack
    assert pack is not None
    assert certify(pack, f"{path}:Own").is_equivalent


@pytest.mark.parametrize(
    ("text", "kind"), [("class Own:\n    def __init__(self, folder): ...", "class"),
                       ("def Own(folder): ...", "function")]
)  # fmt: skip
def test_a_class_or_function_that_wants_arguments_is_told_what_to_give(
    pack: Pack, tmp_path: Path, text: str, kind: str
) -> None:
    path = tmp_path / f"wanting_{kind}_{abs(hash(str(tmp_path)))}.py"
    path.write_text(text + "\n")
    with pytest.raises(InputError, match=f"is a {kind} and can't be called without") as caught:
        certify(pack, f"{path}:Own")
    assert "write `photos = Own(…)` into the file" in caught.value.run_next
    assert "(folder)" in caught.value.looked_at
