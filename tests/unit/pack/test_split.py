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
    code = snippet(spec, 1, str(tmp_path / "p"), is_resized=False) + (
        f"\nimport numpy as np\nfrom {module} import Own\nours, theirs = Packed(), Own()\n"
        "assert len(ours) == len(theirs)\n"
        "for n in range(len(ours)):\n"
        "    assert ours[n][1] == theirs[n][1]\n"
        "    np.testing.assert_array_equal(ours[n][0], theirs[n][0])\n"
    )
    assert "in_place_of" not in code
    run_in(tmp_path, code)


def run_in(folder: Path, code: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


MADE = """
import numpy as np
from PIL import Image

def small(image, mask):
    return image.resize((20, 20)), mask.resize((20, 20), 0)

def floats(image, mask):
    return np.asarray(image, dtype=np.float32), np.asarray(mask)

class Masked:
    def __init__(self, paths):
        self.paths, self.transforms = paths, [small, floats]
    def __len__(self):
        return len(self.paths)
    def __getitem__(self, index):
        image = Image.open(self.paths[index]).convert("RGB")
        parts = image, image.convert("L").point(lambda v: v // 64)
        for transform in self.transforms:
            parts = transform(*parts)
        return parts

class holder:
    @staticmethod
    def masked():
        from pathlib import Path
        return Masked(sorted(Path({folder!r}).rglob("*.*")))
"""


def test_of_other_samples_the_snippet_is_the_pack_in_their_place(
    photos: Path, tmp_path: Path
) -> None:
    path = tmp_path / "split_pairs.py"
    path.write_text(MADE.format(folder=str(photos)))
    spec = f"{path}:holder.masked"
    try:
        packed(spec, tmp_path / "p", size=None)
        code = snippet(spec, 1, "p", is_resized=False)
        assert snippet(spec, 1, "p", is_resized=True) == ""
    finally:
        del sys.modules["split_pairs"]
    assert "dataset = stoker.pack.in_place_of(holder.masked(), 'p')" in code
    run_in(
        tmp_path,
        code + "import numpy as np\ntheirs = holder.masked()\n"
        "for n in (0, 20):\n"
        "    for a, b in zip(dataset[n], theirs[n], strict=True):\n"
        "        np.testing.assert_array_equal(a, b)\n",
    )


def test_the_datasets_own_transform_is_left_as_it_was(own: object) -> None:
    spec = own("Resize(), Flip(), ToFloats()")  # type: ignore[operator]
    job_of(spec, size=None)
    dataset = sys.modules[Path(spec.rpartition(":")[0]).stem].Own()
    assert len(dataset.transform.transforms) == 3
    assert dataset[0][0].dtype == np.float32
