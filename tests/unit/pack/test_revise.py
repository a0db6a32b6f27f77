"""A pack whose sources changed: seen, refused, repaired, added to; nothing of it mixed up."""

from __future__ import annotations

import io
import itertools
import json
import os
import shutil
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from stoker.errors import InputError
from stoker.pack import Pack, layout, open_pack
from stoker.pack.build import How, Packed, Progress, build
from stoker.pack.job import make_job
from stoker.pack.manifest import Transform
from stoker.pack.revise import appended, repacked
from stoker.pack.sources.find import list_source
from tests.unit.pack.conftest import contents, job_of, packed, photo

RESUME = How(resume=True)


def again(source: Path | str, folder: Path, **options: object) -> Packed:
    return build(repacked(job_of(source, **options), folder), folder, How())


def more(source: Path | str, folder: Path, **options: object) -> Packed:
    return build(appended(job_of(source, **options), folder), folder, How())


def later(path: Path) -> None:
    """As if it had been written a second later."""
    found = path.stat()
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns + 10**9))


def sources(pack: Pack | None) -> list[str]:
    assert pack is not None
    return [pack.source(index) for index in range(len(pack))]


# What is added has to have the fields of what is there.


def flat(folder: Path, size: tuple[int, int] | None = None, first: int = 70) -> Path:
    folder.mkdir()
    for number in range(first, first + 3):
        photo(number, size).save(folder / f"{number}.jpg")
    return folder


def test_other_fields_are_not_appended(photos: Path, tmp_path: Path) -> None:
    packed(photos, tmp_path / "p")
    before = contents(tmp_path / "p")
    photo(60).save(photos / "a" / "new.jpg")
    with pytest.raises(InputError, match=r"what it holds was .*, is '.*source_hash'"):
        appended(job_of(photos, hashes=True), tmp_path / "p")
    with pytest.raises(InputError, match="what it holds was 'image, label, source, source_stat'"):
        appended(job_of(flat(tmp_path / "flat")), tmp_path / "p")
    assert contents(tmp_path / "p") == before


def test_pictures_of_another_size_are_not_appended(tmp_path: Path) -> None:
    options = {"size": None, "shard_bytes": 50_000}
    packed(flat(tmp_path / "small", (48, 48)), tmp_path / "p", **options)
    large = flat(tmp_path / "large", (64, 64), first=80)
    with pytest.raises(InputError, match=r"the shape of image was \(48, 48, 3\), is \(64, 64, 3"):
        appended(job_of(large, **options), tmp_path / "p")


def table(path: Path, photos: Path, numbers: list[int], label: Callable[[int], object]) -> Path:
    names = sorted(str(p.relative_to(path.parent)) for p in photos.rglob("*.*"))
    rows = [f"{names[n]},{label(n)}" for n in numbers]
    path.write_text("\n".join(["image,label", *rows]) + "\n")
    return path


def test_labels_that_are_numbers_are_not_mixed_with_names(photos: Path, tmp_path: Path) -> None:
    first = table(tmp_path / "1.csv", photos, [0, 1], lambda n: n)
    second = table(tmp_path / "2.csv", photos, [2, 3], lambda n: f"class {n}")
    for one, other in ((first, second), (second, first)):
        packed(one, tmp_path / f"p{one.stem}")
        with pytest.raises(InputError, match=rf"the labels of {second} are names|p2 are names"):
            appended(job_of(other), tmp_path / f"p{one.stem}")


# What it is added to has to be what it was.


def test_another_source_is_appended_when_no_name_is_there_already(
    photos: Path, tmp_path: Path
) -> None:
    before = sources(packed(photos, tmp_path / "p").pack)
    flat(tmp_path / "photos2").rename(tmp_path / "d")
    (tmp_path / "photos2").mkdir()
    (tmp_path / "d").rename(tmp_path / "photos2" / "d")
    pack = more(tmp_path / "photos2", tmp_path / "p").pack
    assert sources(pack) == [*before, *(f"d/{number}.jpg" for number in (70, 71, 72))]
    assert pack is not None and pack.classes == ("a", "b", "c", "d")
    for source in (photos, tmp_path / "photos2"):
        with pytest.raises(InputError, match="was made from several sources"):
            packed(source, tmp_path / "p", RESUME)
        with pytest.raises(InputError, match="was made from several sources"):
            repacked(job_of(source), tmp_path / "p")


def test_files_of_another_source_with_the_names_of_the_first_are_refused(
    photos: Path, tmp_path: Path
) -> None:
    packed(photos, tmp_path / "p")
    other = tmp_path / "photos2"
    for name in ("a/03.jpg", "a/new.jpg"):
        (other / name).parent.mkdir(parents=True, exist_ok=True)
        photo(61).save(other / name)
    (other / "b").mkdir()
    (other / "c").mkdir()
    with pytest.raises(InputError, match=r"has 1 of the 21 samples of .*: a/03.jpg for one, and"):
        appended(job_of(other), tmp_path / "p")
    shutil.copytree(photos, other, dirs_exist_ok=True)
    later(other / "b" / "13.jpg")
    with pytest.raises(InputError, match="out of date: of the samples 10 to 14 some changed"):
        appended(job_of(other), tmp_path / "p")


def test_nothing_is_appended_to_sources_that_changed(photos: Path, tmp_path: Path) -> None:
    packed(photos, tmp_path / "p")
    photo(60).save(photos / "c" / "zz.jpg")
    photo(61).save(photos / "a" / "03.jpg")
    later(photos / "a" / "03.jpg")
    with pytest.raises(InputError, match="of the samples 0 to 4 some changed"):
        appended(job_of(photos), tmp_path / "p")
    assert again(photos, tmp_path / "p").samples == 5 + 2


def tar(path: Path, members: list[tuple[str, bytes]], mtime: int = 0) -> Path:
    with tarfile.open(path, "w") as archive:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(data), mtime
            archive.addfile(info, io.BytesIO(data))
    return path


def test_a_member_with_a_name_that_is_there_is_another_sample(photos: Path, tmp_path: Path) -> None:
    data = [(photos / "a" / f"{name}.jpg").read_bytes() for name in ("03", "06", "09")]
    path = tar(tmp_path / "t.tar", [("x.jpg", one) for one in data[:2]])
    packed(path, tmp_path / "p", hashes=True)
    packed(path, tmp_path / "q")
    tar(path, [("x.jpg", one) for one in data])
    later(path)
    # By their hashes the first two are what they were, though the archive is another.
    assert sources(more(path, tmp_path / "p", hashes=True).pack) == ["x", "x", "x"]
    with pytest.raises(InputError, match="of the samples 0 to 1 some changed"):
        appended(job_of(path), tmp_path / "q")


# Changes are seen in every kind of source.


def is_up_to_date(source: Path | str, folder: Path, **options: object) -> bool:
    try:
        return packed(source, folder, RESUME, **options).was_whole
    except InputError as error:
        assert "out of date" in str(error)
        return False


@pytest.mark.parametrize("what", ["archive", "member"])
def test_a_tar_that_was_written_anew_is_another(tmp_path: Path, what: str) -> None:
    arrays = [io.BytesIO(), io.BytesIO()]
    for number, file in enumerate(arrays):
        np.save(file, np.full(3, number))
    path = tar(tmp_path / "t.tar", [("x.npy", arrays[0].getvalue())])
    packed(path, tmp_path / "p", size=None)
    written = path.stat()
    assert is_up_to_date(path, tmp_path / "p", size=None)
    tar(path, [("x.npy", arrays[1].getvalue())], mtime=int(what == "member"))
    os.utime(path, ns=(written.st_atime_ns, written.st_mtime_ns))
    if what == "archive":
        later(path)
    assert not is_up_to_date(path, tmp_path / "p", size=None)
    pack = again(path, tmp_path / "p", size=None).pack
    assert pack is not None and pack.value("array", 0).tolist() == [1, 1, 1]


@pytest.mark.parametrize("change", ["changed", "renamed"])
def test_a_mask_that_changed_is_seen(photos: Path, tmp_path: Path, change: str) -> None:
    mask = tmp_path / "mask.png"
    photo(5, (40, 30)).convert("L").save(mask)
    path = tmp_path / "t.csv"
    path.write_text("image,mask\nphotos/a/03.jpg,mask.png\nphotos/a/06.jpg,mask.png\n")
    packed(path, tmp_path / "p")
    assert is_up_to_date(path, tmp_path / "p")
    if change == "changed":
        later(mask)
    else:
        shutil.copy2(mask, tmp_path / "other.png")
        path.write_text(path.read_text().replace("06.jpg,mask", "06.jpg,other"))
    assert not is_up_to_date(path, tmp_path / "p")


def test_classes_that_were_renamed_are_seen(photos: Path, tmp_path: Path) -> None:
    path = table(tmp_path / "t.csv", photos, [0, 1], lambda n: f"class {n}")
    packed(path, tmp_path / "p")
    path.write_text(path.read_text().replace("class 1", "class 2"))
    assert not is_up_to_date(path, tmp_path / "p")


def test_the_fingerprint_does_not_depend_on_how_numpy_writes_numbers(photos: Path) -> None:
    listing = list_source(str(photos))
    plain = {"label": listing.values["label"].tolist()}
    before = listing.fingerprint(range(21))
    listing.values = plain
    assert listing.fingerprint(range(21)) == before


# A Dataset shows it only when its samples are made.

DATASET = """
import json
from pathlib import Path
import numpy as np

class Own:
    def __init__(self):
        self.numbers = json.loads(Path({path!r}).read_text())
    def __len__(self):
        return len(self.numbers)
    def __getitem__(self, index):
        if self.numbers[index] < 0:
            raise RuntimeError("a broken sample")
        return np.full((2, 2), self.numbers[index], np.uint8), index % 2

class Other(Own):
    pass
"""
# Five samples a shard.
SMALL = {"size": None, "shard_bytes": 80}


class Numbers:
    """A Dataset of numbers in a file."""

    def __init__(self, folder: Path, name: str) -> None:
        self._path = folder / "numbers.json"
        self._module = folder / f"{name}.py"
        self._module.write_text(DATASET.format(path=str(self._path)))
        self.spec = f"{self._module}:Own"
        self.set(range(40))

    def set(self, numbers: object) -> None:
        self._path.write_text(json.dumps(list(numbers)))  # type: ignore[call-overload]


@pytest.fixture
def numbers(tmp_path: Path) -> Iterator[Numbers]:
    name = f"own_numbers_{len(sys.modules)}"
    yield Numbers(tmp_path, name)
    sys.modules.pop(name, None)


def test_a_dataset_that_changed_is_refused_and_made_again(numbers: Numbers, tmp_path: Path) -> None:
    packed(numbers.spec, tmp_path / "p", **SMALL)
    assert packed(numbers.spec, tmp_path / "p", RESUME, **SMALL).was_whole
    assert again(numbers.spec, tmp_path / "p", **SMALL).was_whole
    numbers.set(range(1, 41))
    with pytest.raises(InputError, match="out of date: sample 0: its 'data' is another than"):
        packed(numbers.spec, tmp_path / "p", RESUME, **SMALL)
    numbers.set(range(1, 42))
    with pytest.raises(InputError, match="out of date: sample 0: its 'data' is another than"):
        appended(job_of(numbers.spec, **SMALL), tmp_path / "p")
    pack = again(numbers.spec, tmp_path / "p", **SMALL).pack
    assert pack is not None
    assert [int(pack.value("data", n)[0, 0]) for n in range(41)] == list(range(1, 42))


def test_a_sample_that_can_not_be_made_any_more_is_a_change(
    numbers: Numbers, tmp_path: Path
) -> None:
    packed(numbers.spec, tmp_path / "p", **SMALL)
    numbers.set([*range(39), -1])
    with pytest.raises(InputError, match="sample 39 can't be made any more: RuntimeError: a bro"):
        packed(numbers.spec, tmp_path / "p", RESUME, **SMALL)


def test_a_dataset_that_grew_is_appended_to(numbers: Numbers, tmp_path: Path) -> None:
    packed(numbers.spec, tmp_path / "p", **SMALL)
    numbers.set(range(43))
    done = more(numbers.spec, tmp_path / "p", **SMALL)
    assert done.samples == 3
    assert done.pack is not None and int(done.pack.value("data", 42)[0, 0]) == 42
    assert packed(numbers.spec, tmp_path / "p", RESUME, **SMALL).was_whole


def test_a_dataset_of_another_name_is_another_one(numbers: Numbers, tmp_path: Path) -> None:
    packed(numbers.spec, tmp_path / "p", **SMALL)
    other = numbers.spec.replace(":Own", ":Other")
    for look in (appended, repacked):
        with pytest.raises(InputError, match=r"the Dataset was '.*:Own', is '.*:Other'"):
            look(job_of(other, **SMALL), tmp_path / "p")


def test_half_a_pack_of_a_dataset_that_changed_is_not_gone_on_with(
    numbers: Numbers, tmp_path: Path
) -> None:
    stop = iter([False, False, True])

    def on_step(_: Progress) -> None:
        if next(stop):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        packed(numbers.spec, tmp_path / "p", How(on_step=on_step), **SMALL)
    numbers.set(range(1, 41))
    with pytest.raises(
        InputError, match=r"the half pack in .* is out of date: sample 0: its 'data"
    ):
        packed(numbers.spec, tmp_path / "p", RESUME, **SMALL)
    numbers.set(range(40))
    assert packed(numbers.spec, tmp_path / "p", RESUME, **SMALL).pack is not None


# Hashes see what sizes and times don't.


def ppm_photos(folder: Path) -> Path:
    """Photos whose files have one size."""
    folder.mkdir()
    for number in range(12):
        photo(number, (30, 30)).save(folder / f"{number:02}.ppm")
    return folder


def test_with_hashes_a_copy_is_the_same_and_a_change_of_equal_size_and_time_is_seen(
    tmp_path: Path,
) -> None:
    folder = ppm_photos(tmp_path / "photos")
    packed(folder, tmp_path / "p", hashes=True)
    for path in folder.iterdir():
        later(path)
    assert not is_up_to_date(folder, tmp_path / "p", hashes=True)
    done = again(folder, tmp_path / "p", hashes=True)
    assert (done.samples, done.was_whole) == (0, False)
    assert is_up_to_date(folder, tmp_path / "p", hashes=True)

    path = folder / "07.ppm"
    before = path.stat()
    photo(50, (30, 30)).save(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert is_up_to_date(folder, tmp_path / "p", hashes=True)  # reading all is --repack's
    done = again(folder, tmp_path / "p", hashes=True)
    assert (done.samples, done.was_whole) == (5, False)
    assert again(folder, tmp_path / "p", hashes=True).was_whole


def test_with_hashes_one_changed_sample_of_a_dataset_is_found(
    numbers: Numbers, tmp_path: Path
) -> None:
    packed(numbers.spec, tmp_path / "p", hashes=True, **SMALL)
    numbers.set([*range(4), 99, *range(5, 40)])
    assert again(numbers.spec, tmp_path / "p", hashes=True, **SMALL).samples == 5
    assert again(numbers.spec, tmp_path / "p", hashes=True, **SMALL).was_whole


# Repack makes what changed, and only that.


@pytest.mark.parametrize("way", [{"tier": "raw", "size": 24}, {"tier": "keep"}])
def test_a_file_more_or_less_makes_no_other_shard_again(
    photos: Path, tmp_path: Path, way: dict[str, object]
) -> None:
    def listed(shard_samples: int | None = None) -> object:
        transform = Transform(**way)  # type: ignore[arg-type]
        return make_job(list_source(str(photos)), transform, shard_samples=shard_samples)

    first = build(listed(), tmp_path / "p", How()).pack  # type: ignore[arg-type]
    assert first is not None and len(first.shards) == 1
    photo(60, (200, 200)).save(photos / "c" / "zz.png")
    job = repacked(listed(first.manifest.shard_samples), tmp_path / "p")  # type: ignore[arg-type]
    done = build(job, tmp_path / "p", How())
    assert (done.samples, sources(done.pack)[-1]) == (1, "c/zz.png")
    (photos / "c" / "zz.png").unlink()
    job = repacked(listed(first.manifest.shard_samples), tmp_path / "p")  # type: ignore[arg-type]
    done = build(job, tmp_path / "p", How())
    assert (done.samples, len(sources(done.pack))) == (0, 21)


@pytest.mark.parametrize("hashes", [False, True])
def test_what_could_not_be_read_for_a_while_is_made_again(
    photos: Path, tmp_path: Path, hashes: bool
) -> None:
    path = photos / "c" / "02.jpg"
    (photos / "a" / "03.jpg").write_bytes(b"broken for good")
    job = job_of(photos, hashes=hashes)
    path.rename(tmp_path / "away")
    assert len(build(job, tmp_path / "p", How()).quarantine) == 2
    (tmp_path / "away").rename(path)  # as it was, with its time of change
    done = packed(photos, tmp_path / "p", RESUME, hashes=hashes)
    assert (done.was_whole, len(done.quarantine)) == (True, 2)
    done = again(photos, tmp_path / "p", hashes=hashes)
    assert done.samples == 5
    assert [bad.source for bad in done.quarantine] == ["a/03.jpg"]
    assert again(photos, tmp_path / "p", hashes=hashes).was_whole


def test_names_that_are_no_utf8_are_told_apart(photos: Path, tmp_path: Path) -> None:
    # In the names of a file, of a class and of the source itself.
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    photos.rename(folder)
    strange = folder / os.fsdecode(b"d\xe9") / os.fsdecode(b"\xe9.jpg")
    strange.parent.mkdir()
    photo(60).save(tmp_path / "60.jpg")
    (tmp_path / "60.jpg").rename(strange)
    pack = packed(folder, tmp_path / "p").pack
    assert sources(pack)[-1] == str(strange.relative_to(folder))
    assert pack is not None and pack.classes == ("a", "b", "c", "d\\udce9")
    assert packed(folder, tmp_path / "p", RESUME).was_whole
    with pytest.raises(InputError, match="all 22 sources already"):
        appended(job_of(folder), tmp_path / "p")
    photo(61).save(folder / "a" / "new.jpg")
    assert len(sources(more(folder, tmp_path / "p").pack)) == 23


def test_every_shard_of_a_pack_says_where_it_begins(photos: Path, tmp_path: Path) -> None:
    """As docs/pack.md has it: after an append the last shard of before is short."""
    packed(photos, tmp_path / "p")
    for number in range(7):
        photo(60 + number).save(photos / "c" / f"z{number}.jpg")
    more(photos, tmp_path / "p")
    shards = json.loads((tmp_path / "p" / layout.MANIFEST).read_text())["shards"]
    counts = [shard["count"] for shard in shards]
    assert counts == [5, 5, 5, 5, 1, 5, 2]
    assert [shard["start"] for shard in shards] == [0, *itertools.accumulate(counts[:-1])]
    pack = open_pack(tmp_path / "p")
    labels = np.load(tmp_path / "p" / f"{pack.shards[-1].stem}.label.npy")
    assert labels.tolist() == [2, 2]
