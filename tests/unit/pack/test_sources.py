"""Every kind of source: the same samples out of a folder, a table, tars, a zip and a Dataset."""

from __future__ import annotations

import csv
import io
import json
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest

from stoker.errors import InputError
from stoker.pack import Codec, Pack, layout, manifest, open_pack
from stoker.pack.sources.dataset import load_object
from stoker.pack.sources.find import list_source
from stoker.pack.summary import summarise
from tests.unit.pack.conftest import job_of, packed, photo


def whole(source: Path | str, folder: Path, **options: object) -> Pack:
    done = packed(source, folder, **options)
    assert done.quarantine == ()
    assert done.pack is not None
    return done.pack


def pictures(pack: Pack) -> dict[str, bytes]:
    """The pixels by the number in the file's name."""
    names = [Path(pack.source(index)).stem for index in range(len(pack))]
    return {name: bytes(pack.raw("image", index)) for index, name in enumerate(names)}


@pytest.fixture
def expected(photos: Path, tmp_path: Path) -> dict[str, bytes]:
    return pictures(whole(photos, tmp_path / "expected"))


def test_a_flat_folder_has_no_labels(tmp_path: Path) -> None:
    (tmp_path / "f").mkdir()
    photo(1).save(tmp_path / "f" / "1.jpg")
    pack = whole(tmp_path / "f", tmp_path / "p")
    assert list(pack.fields) == ["image", "source", "source_stat"]


def test_pictures_in_and_beside_folders_are_refused(photos: Path) -> None:
    photo(1).save(photos / "1.jpg")
    with pytest.raises(InputError, match="21 pictures in folders and 1 beside them"):
        job_of(photos)


def test_a_circle_of_links_ends(photos: Path, tmp_path: Path) -> None:
    (photos / "a" / "loop").symlink_to(photos / "a")
    assert len(whole(photos, tmp_path / "p")) == 21


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl"])
def test_a_table_names_pictures_labels_numbers_text_and_arrays(
    photos: Path, tmp_path: Path, expected: dict[str, bytes], suffix: str
) -> None:
    table = photos / f"train.{suffix}"
    rows = []
    for number, path in enumerate(sorted(photos.rglob("??.*"))):
        np.save(photos / f"{number}.npy", np.full((2, 3), number, np.float32))
        mask = photos / f"{number}.mask.png"
        photo(number).convert("L").point(lambda v: v // 64).save(mask)
        rows.append(
            {
                "path": str(path.relative_to(photos)),
                "mask": mask.name,
                "label": "ab"[number % 2],
                "age": number,
                "weight": number / 2,
                "caption": f"photo {number}, ü",
                "volume": f"{number}.npy",
            }
        )
    if suffix == "jsonl":
        table.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        with table.open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0], delimiter="\t" if suffix == "tsv" else ",")
            writer.writeheader()
            writer.writerows(rows)
    pack = whole(table, tmp_path / "p")
    assert pictures(pack) == expected
    assert pack.classes == ("a", "b")
    index = 7
    assert int(pack.value("label", index)) == 1
    assert (int(pack.value("age", index)), float(pack.value("weight", index))) == (7, 3.5)
    assert pack.value("caption", index) == "photo 7, ü"
    np.testing.assert_array_equal(pack.value("volume", index), np.full((2, 3), 7, np.float32))
    mask_values = pack.value("mask", index)
    assert mask_values.shape == (24, 24)
    assert set(np.unique(mask_values)) <= {0, 1, 2, 3}


LINES = ["one\u2028two", "three\x85four", "five\x0bsix\x0cseven", "eight\nnine", "ten\r\neleven"]


@pytest.mark.parametrize("name", ["t.csv", "t.TSV", "t.jsonl", "t.JSONL"])
def test_texts_of_a_table_keep_their_line_ends(tmp_path: Path, name: str) -> None:
    table = tmp_path / name
    rows = [{"caption": text, "number": number} for number, text in enumerate(LINES)]
    with table.open("w", newline="") as file:
        if name.lower().endswith("v"):
            delimiter = "\t" if name == "t.TSV" else ","
            writer = csv.DictWriter(file, rows[0], delimiter=delimiter)
            writer.writeheader()
            writer.writerows(rows)
        else:
            file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    pack = whole(table, tmp_path / "p")
    assert [pack.value("caption", n) for n in range(len(LINES))] == LINES
    assert [int(pack.value("number", n)) for n in range(len(LINES))] == list(range(len(LINES)))


def test_whole_numbers_beyond_int64_stay_what_they_are(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(f"hash,label\n{2**64 - 1},{2**63}\n5,7\n")
    pack = whole(tmp_path / "t.csv", tmp_path / "p")
    assert [pack.value("hash", n) for n in range(2)] == [str(2**64 - 1), "5"]
    assert pack.classes == ("7", str(2**63))
    assert [int(pack.value("label", n)) for n in range(2)] == [1, 0]


def test_labels_of_a_tar_that_are_no_numbers_are_names(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "t.tar", "w") as archive:
        for number, label in enumerate(("--5", str(2**63), "3")):
            info = tarfile.TarInfo(f"{number}.cls")
            info.size = len(label)
            archive.addfile(info, io.BytesIO(label.encode()))
    assert whole(tmp_path / "t.tar", tmp_path / "p").classes == ("--5", "3", str(2**63))


def test_gifs_in_class_folders_are_left_out_as_image_folder_does(
    photos: Path, tmp_path: Path
) -> None:
    for name in ("a/01.gif", "b/zz.GIF"):
        photo(1).save(photos / name)
    job = job_of(photos)
    assert len(job.listing) == 21
    assert job.listing.remarks[0].startswith("GIFs left out, as by torchvision's ImageFolder: 2")
    labels = job.listing.labels()
    assert labels is not None
    for position in range(21):
        assert job.listing.names[position][0] == "abc"[labels[position]]
    for path in photos.rglob("??.*"):
        if path.suffix.lower() != ".gif":
            path.unlink()
    assert len(job_of(photos).listing) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no samples"),
        ("image,label\n", "has no samples"),
        ("image,label\na.jpg\n", "cells in line 2: 1, in the header: 2"),
        ('image,label\n"a\n.jpg",1\n\nb.jpg,1,2\n', "cells in line 5: 3, in the header: 2"),
        ("image,label,image\na.jpg,1,b.jpg\n", "header has the column 'image' 2 times"),
        ('image\n"a.jpg\n', "cannot be read"),
    ],
)
def test_a_table_that_makes_no_sense_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        job_of(tmp_path / "t.csv")


def test_webdataset_tars_keep_keys_classes_text_and_other_parts(
    photos: Path, tmp_path: Path, expected: dict[str, bytes]
) -> None:
    (tmp_path / "tars").mkdir()
    paths = sorted(p for p in photos.rglob("*.*") if p.suffix == ".jpg")
    for part in range(2):
        with tarfile.open(tmp_path / "tars" / f"{part}.tar", "w") as archive:
            for path in paths[part::2]:
                parts = {
                    "jpg": path.read_bytes(),
                    "cls": str(ord(path.parent.name) - 97).encode(),
                    "txt": f"of {path.stem}".encode(),
                    "json": b"{}",
                }
                for extension, data in parts.items():
                    info = tarfile.TarInfo(f"x/{path.stem}.{extension}")
                    info.size = len(data)
                    archive.addfile(info, io.BytesIO(data))
                link = tarfile.TarInfo(f"x/{path.stem}.link")
                link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
                archive.addfile(link)
    job = job_of(tmp_path / "tars")
    assert job.listing.remarks == ("16 links and devices in the archive left out",)
    pack = whole(tmp_path / "tars", tmp_path / "p")
    found = pictures(pack)
    assert found == {name: expected[name] for name in found}
    assert len(found) == len(paths)
    assert pack.value("text", 0) == f"of {pack.source(0)[2:]}"
    assert pack.value("json", 0) == b"{}"
    label = ord(paths[0].parent.name) - 97
    assert int(pack.value("label", 0)) == label


def test_a_zip_is_read_in_place_with_its_folders_as_classes(
    photos: Path, tmp_path: Path, expected: dict[str, bytes]
) -> None:
    with zipfile.ZipFile(tmp_path / "z.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(photos.rglob("*.*")):
            archive.write(path, path.relative_to(photos))
    pack = whole(tmp_path / "z.zip", tmp_path / "p")
    assert pictures(pack) == expected
    assert pack.classes == ("a", "b", "c")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_members_with_one_name_are_two_samples(photos: Path, tmp_path: Path) -> None:
    first, second = photos / "a" / "03.jpg", photos / "a" / "06.jpg"
    with zipfile.ZipFile(tmp_path / "z.zip", "w") as archive:
        archive.write(first, "same.jpg")
        archive.write(second, "same.jpg")
    pack = whole(tmp_path / "z.zip", tmp_path / "p", tier="keep", size=None)
    assert [pack.value("image", n) for n in range(2)] == [
        path.read_bytes() for path in (first, second)
    ]


DATASET = """
import random
from pathlib import Path
import msgspec
import numpy as np
from PIL import Image

class Photos:
    classes = ["x", "y"]
    def __init__(self, folder={folder!r}):
        self.paths = sorted(Path(folder).rglob("*.*"))
    def __len__(self):
        return len(self.paths)
    def __getitem__(self, index):
        if self.paths[index].name == "13.jpg" and {broken}:
            raise RuntimeError("a broken sample")
        image = Image.open(self.paths[index]).convert("RGB")
        if {random}:
            image = image.rotate(random.uniform(-9, 9))
        return {returned}
"""


@pytest.fixture
def dataset(photos: Path, tmp_path: Path) -> Iterator[object]:
    before = set(sys.modules)

    def write(returned: str = "image, index % 2", **given: bool) -> str:
        known = {"broken": False, "random": False, **given}
        path = tmp_path / f"own_{len(sys.modules)}.py"
        path.write_text(DATASET.format(folder=str(photos), returned=returned, **known))
        return f"{path}:Photos"

    yield write
    for name in set(sys.modules) - before:
        if name.startswith("own_"):
            del sys.modules[name]


def test_a_dataset_is_packed_as_it_gives_its_samples(
    dataset: object, tmp_path: Path, expected: dict[str, bytes]
) -> None:
    pack = whole(dataset(), tmp_path / "p")  # type: ignore[operator]
    found = {bytes(pack.raw("image", index)) for index in range(len(pack))}
    assert found == set(expected.values())
    assert pack.classes == ("x", "y")
    assert [int(pack.value("label", n)) for n in range(4)] == [0, 1, 0, 1]


def test_a_datasets_arrays_and_texts_are_fields_of_their_own(
    dataset: object, tmp_path: Path
) -> None:
    returned = (
        '{"wave": np.arange(index % 3 + 1, dtype=np.int16), "label": index, "name": str(index), '
        '"x": np.float32([index]), "raw": bytes([index]), "y": index / 2}'
    )
    pack = whole(dataset(returned), tmp_path / "p", size=None)  # type: ignore[operator]
    assert pack.value("wave", 5).tolist() == [0, 1, 2]
    assert pack.value("wave", 5).dtype == np.int16
    assert pack.value("x", 5).tolist() == [5.0]
    assert (pack.value("name", 5), pack.value("raw", 5)) == ("5", b"\x05")
    assert float(pack.value("y", 5)) == 2.5
    assert pack.field("name").codec is Codec.TEXT


@pytest.mark.parametrize(
    ("returned", "told"),
    [
        (
            "np.float32(image).transpose(2, 0, 1)[:, :8, :9], index",
            "data: stores float32 (3, 8, 9)",
        ),
        ("{'x': np.float64(image)[:8, :9]}", "x: stores float64 (8, 9, 3), 8 times the bytes"),
        ("np.float32(image)[:8, 0], index", ""),
        ("np.uint8(image).transpose(2, 0, 1), index", ""),
        ("image, index", ""),
    ],
)
def test_pictures_that_are_stored_as_floats_are_told(
    dataset: object, returned: str, told: str
) -> None:
    remarks = list_source(dataset(returned)).remarks  # type: ignore[operator]
    assert [remark.startswith(told) for remark in remarks] == ([True] if told else [])


def test_the_classes_of_a_dataset_are_counted(dataset: object, tmp_path: Path) -> None:
    found = packed(dataset(), tmp_path / "p").pack  # type: ignore[operator]
    assert found is not None
    assert summarise(found).classes == {"x": 11, "y": 10}
    # Packs of before have counts in their manifests; the labels themselves are counted now.
    old = [msgspec.structs.replace(shard, class_counts=(7, 7)) for shard in found.shards]
    manifest.write(found.path, msgspec.structs.replace(found.manifest, shards=tuple(old)))
    assert summarise(open_pack(found.path)).classes == {"x": 11, "y": 10}


def test_labels_that_are_no_classes_are_not_counted(dataset: object, tmp_path: Path) -> None:
    for large, expected in ((90_000, {"x": 5, "y": 5, "90000": 6}), (10**15, {})):
        returned = f"image, index % 3 - 1 if index < 15 else {large}"
        folder = tmp_path / str(large)
        found = packed(dataset(returned), folder).pack  # type: ignore[operator]
        assert found is not None
        assert summarise(found).classes == expected
        # Not a number for each label below the largest.
        assert (folder / layout.MANIFEST).stat().st_size < 20_000


def test_what_a_dataset_raises_is_kept_with_the_sample(dataset: object, tmp_path: Path) -> None:
    done = packed(dataset(broken=True), tmp_path / "p")  # type: ignore[operator]
    (bad,) = done.quarantine
    assert bad.reason == "RuntimeError: a broken sample"


SCRIPT = """
import argparse
import sys

options = argparse.ArgumentParser()
options.add_argument("--epochs", default=1)
{guard}options.parse_args()
{guard}sys.exit(3)
argv = list(sys.argv)
Own = [(b"x", number) for number in range(9)]
"""


def test_a_script_is_imported_with_a_command_line_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", given := ["stoker", "pack", "train.py:Own", "p"])
    script = tmp_path / "own_guarded.py"
    script.write_text(SCRIPT.format(guard="if __name__ == '__main__': "))
    assert len(load_object(f"{script}:Own")) == 9
    assert sys.modules.pop("own_guarded").argv == [str(script)]
    assert sys.argv is given


def test_a_script_that_ends_the_program_is_told_with_the_way_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "own_bare.py"
    script.write_text(SCRIPT.format(guard=""))
    for _ in range(2):  # half a module isn't kept
        with pytest.raises(InputError, match="runs it, and it ended the program with 3") as told:
            load_object(f"{script}:Own")
    assert 'under `if __name__ == "__main__":`' in told.value.run_next
    assert capsys.readouterr().err == ""


def test_a_random_dataset_is_refused(dataset: object, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="part 'image' of sample 0 differs when it is asked"):
        job_of(dataset(random=True))  # type: ignore[operator]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("no/such/folder", "does not exist"),
        ("no_such_module:Photos", "cannot be loaded"),
        ("json:loads.nothing", "cannot be loaded"),
        ("collections:OrderedDict", "has no sample"),
        (__file__, "is a file of an unknown kind"),
    ],
)
def test_what_is_no_source_is_refused(given: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        job_of(given)


def test_hashes_are_kept_when_asked_for(photos: Path, tmp_path: Path) -> None:
    pack = whole(photos, tmp_path / "p", hashes=True)
    values = [int(pack.value("source_hash", index)) for index in range(len(pack))]
    assert len(set(values)) == 21
    assert pack.value("source_stat", 0).tolist()[0] == (photos / pack.source(0)).stat().st_size
