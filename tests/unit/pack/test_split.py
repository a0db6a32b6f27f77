"""The cut between what is packed once and what stays, found by experiment."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from stoker.errors import InputError
from stoker.pack.snippet import snippet
from stoker.pack.sources.dataset import load_object
from stoker.split import cut_at
from tests.unit.pack.conftest import job_of, packed

OWN = """
import random
from pathlib import Path
import numpy as np
from PIL import Image

class Compose:
    def __init__(self, transforms):
        self.transforms = transforms
    def __call__(self, value):
        for transform in self.transforms:
            value = transform(value)
        return value

class Resize:
    def __call__(self, image):
        return image.resize((24, 24))

class Flip:
    def __call__(self, image):
        return image.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if random.random() < 0.5 else image

class ToFloats:
    def __call__(self, image):
        return np.asarray(image, dtype=np.float32).transpose(2, 0, 1) / 255

class Own:
    classes = ["a", "b", "c"]
    def __init__(self):
        self.paths = sorted(Path({folder!r}).rglob("*.*"))
        self.transform = Compose([{steps}])
    def __len__(self):
        return len(self.paths)
    def __getitem__(self, index):
        image = Image.open(self.paths[index]).convert("RGB")
        {before}
        return self.transform(image), "abc".index(self.paths[index].parent.name)
"""


@pytest.fixture
def own(photos: Path, tmp_path: Path) -> Iterator[object]:
    before = set(sys.modules)

    def write(steps: str, line: str = "pass") -> str:
        path = tmp_path / f"split_{len(list(tmp_path.iterdir()))}.py"
        path.write_text(OWN.format(folder=str(photos), steps=steps, before=line))
        return f"{path}:Own"

    yield write
    for name in set(sys.modules) - before:
        if name.startswith("split_"):
            del sys.modules[name]


@pytest.mark.parametrize(
    ("steps", "once", "rest"),
    [
        ("Resize(), Flip(), ToFloats()", "Resize", "Flip | there or on the device: ToFloats"),
        ("Resize(), ToFloats()", "Resize", "nothing | there or on the device: ToFloats"),
        ("Resize(), Resize(), Flip()", "Resize, Resize", "Flip"),
    ],
)
def test_the_cut_is_before_the_first_random_transform_and_before_floats(
    own: object, tmp_path: Path, steps: str, once: str, rest: str
) -> None:
    job = job_of(own(steps), size=None)  # type: ignore[operator]
    assert job.listing.remarks == (f"packed once: {once} | in every epoch: {rest}",)
    pack = packed(job.listing.location, tmp_path / "p", size=None).pack
    assert pack is not None
    assert pack.value("image", 0).shape == (24, 24, 3)


def test_transforms_that_can_all_be_packed_are(own: object) -> None:
    assert job_of(own("Resize(), Resize()"), size=None).listing.remarks == ()  # type: ignore[operator]


def test_what_is_random_before_the_transforms_is_refused(own: object) -> None:
    spec = own("Resize()", "image = image.rotate(random.random() * 90)")  # type: ignore[operator]
    with pytest.raises(InputError, match="differs when it is asked for again"):
        job_of(spec, size=None)


def test_the_snippet_gives_what_the_script_had(own: object, tmp_path: Path) -> None:
    spec = own("Resize(), ToFloats()")  # type: ignore[operator]
    packed(spec, tmp_path / "p", size=None)
    module = Path(spec.rpartition(":")[0]).stem
    cut = cut_at(load_object(spec), 1)
    assert cut is not None
    code = snippet(spec, cut, str(tmp_path / "p")) + (
        f"\nimport numpy as np\nfrom {module} import Own\nours, theirs = Packed(), Own()\n"
        "assert len(ours) == len(theirs)\n"
        "for n in range(len(ours)):\n"
        "    assert ours[n][1] == theirs[n][1]\n"
        "    np.testing.assert_array_equal(ours[n][0], theirs[n][0])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_datasets_own_transform_is_left_as_it_was(own: object) -> None:
    spec = own("Resize(), Flip(), ToFloats()")  # type: ignore[operator]
    job_of(spec, size=None)
    dataset = sys.modules[Path(spec.rpartition(":")[0]).stem].Own()
    assert len(dataset.transform.transforms) == 3
    assert dataset[0][0].dtype == np.float32
