"""Exports come back as they were: through our own tar source and the real libraries."""

from __future__ import annotations

import errno
import io
import itertools
import json
import os
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
import webdataset
from PIL import Image

from stoker.errors import InputError, PackError
from stoker.pack import Pack, write_arrays
from stoker.pack.export import export
from tests.unit.pack.conftest import packed


@pytest.mark.parametrize("tier", ["raw", "jpeg", "keep"])
def test_a_webdataset_packed_again_has_the_same_pixels_and_labels(
    photos: Path, tmp_path: Path, tier: str
) -> None:
    size = None if tier == "keep" else 24
    (photos / "b" / "04.jpg").write_bytes(b"")
    pack = packed(photos, tmp_path / "p", tier=tier, size=size).pack
    assert pack is not None
    files = export(pack, tmp_path / "tars", "webdataset")
    assert [path.name for path in files][-1] == "classes.json"
    if tier == "keep":  # the pictures are JPEG and PNG: not one set of parts
        with tarfile.open(files[0]) as archive:
            member = archive.extractfile("000000000.png")
            assert member is not None
            assert member.read() == pack.value("image", 0)
        return
    again = packed(tmp_path / "tars", tmp_path / "again", tier="keep", size=None).pack
    assert again is not None
    assert len(again) == 20
    for row, index in enumerate(pack.usable.tolist()):
        stored = pack.value("image", index)
        expected = stored if tier == "raw" else np.asarray(Image.open(io.BytesIO(stored)))
        found = np.asarray(Image.open(io.BytesIO(again.value("image", row))))
        np.testing.assert_array_equal(found, expected)
        assert int(again.value("label", row)) == int(pack.value("label", index))


# The library leaves the files that it reads to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_the_webdataset_library_reads_it(photos: Path, tmp_path: Path) -> None:
    pack = packed(photos, tmp_path / "p").pack
    assert pack is not None
    files = [str(p) for p in export(pack, tmp_path / "t", "webdataset") if p.suffix == ".tar"]
    samples = list(webdataset.WebDataset(files, shardshuffle=False).decode("rgb8"))
    assert len(samples) == len(pack)
    for index, sample in enumerate(samples):
        np.testing.assert_array_equal(sample["png"], pack.value("image", index))
        assert sample["cls"] == int(pack.value("label", index))


def rows_of(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The features as Hugging Face's datasets reads them, and the rows."""
    with pyarrow.OSFile(str(path)) as file:
        table = pyarrow.ipc.open_stream(file).read_all()
    return json.loads(table.schema.metadata[b"huggingface"])["info"]["features"], table.to_pylist()


def test_pyarrow_reads_it(tmp_path: Path) -> None:
    columns = {
        "text": ["a", "ü", ""],
        "label": np.arange(3),
        "volume": np.arange(12, dtype=np.float32).reshape(3, 2, 2),
        "data": [b"1", b"", b"22"],
        "wave": [np.arange(n * 2, dtype=np.int16).reshape(n, 2) for n in range(3)],
    }
    pack = write_arrays(tmp_path / "p", columns)
    (path,) = export(pack, tmp_path / "a", "arrow")
    features, rows = rows_of(path)
    assert [row["text"] for row in rows] == columns["text"]
    assert [row["data"] for row in rows] == columns["data"]
    assert rows[2]["volume"] == [[8.0, 9.0], [10.0, 11.0]]
    assert [row["wave"] for row in rows] == [[], [[0, 1]], [[0, 1], [2, 3]]]
    assert features["wave"]["feature"]["feature"] == {"dtype": "int16", "_type": "Value"}


@pytest.mark.parametrize("tier", ["raw", "jpeg", "keep"])
def test_pictures_and_classes_come_back_out_of_arrow(
    photos: Path, tmp_path: Path, tier: str
) -> None:
    size = None if tier == "keep" else 24
    pack = packed(photos, tmp_path / "p", tier=tier, size=size, shard_bytes=10**6).pack
    assert pack is not None
    (path,) = export(pack, tmp_path / "a", "arrow")
    features, rows = rows_of(path)
    assert features["image"] == {"_type": "Image"}
    assert features["label"] == {"names": ["a", "b", "c"], "_type": "ClassLabel"}
    assert len(rows) == len(pack)
    for index, row in enumerate(rows):
        stored = pack.value("image", index)
        assert row["label"] == int(pack.value("label", index))
        if tier == "raw":
            found = np.asarray(Image.open(io.BytesIO(row["image"]["bytes"])))
            np.testing.assert_array_equal(found, stored)
        else:
            assert row["image"]["bytes"] == stored


def test_hugging_faces_datasets_reads_it(photos: Path, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets", reason="Hugging Face's datasets is not installed")
    pack = packed(photos, tmp_path / "p", shard_bytes=10**6).pack
    assert pack is not None
    (path,) = export(pack, tmp_path / "a", "arrow")
    found = datasets.Dataset.from_file(str(path))
    assert found.features["label"].names == ["a", "b", "c"]
    for index, sample in enumerate(found):
        np.testing.assert_array_equal(np.asarray(sample["image"]), pack.value("image", index))
        assert sample["label"] == int(pack.value("label", index))


@pytest.mark.parametrize("was_there", [True, False])
@pytest.mark.parametrize("to", ["webdataset", "arrow"])
def test_an_export_that_the_disk_stops_leaves_nothing_and_a_second_one_goes_through(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, to: str, was_there: bool
) -> None:
    pack = packed(photos, tmp_path / "p").pack
    assert pack is not None
    target = tmp_path / "new" / "e"
    if was_there:
        target.mkdir(parents=True)
    value, calls = Pack.value, itertools.count()

    def full(pack: Pack, name: str, index: int) -> Any:
        if next(calls) == 20:  # in the third of five shards
            assert sorted(path.suffix for path in target.iterdir()) == [".part"] * 3
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return value(pack, name, index)

    monkeypatch.setattr(Pack, "value", full)
    with pytest.raises(PackError, match="can't be written: No space left on device") as caught:
        export(pack, target, to)
    assert "2 of 5 files were finished; all that it had made there is removed" in (
        caught.value.looked_at
    )
    monkeypatch.undo()
    assert target.exists() == target.parent.exists() == was_there
    assert not was_there or list(target.iterdir()) == []
    names = [path.name for path in export(pack, target, to)]
    assert sorted(path.name for path in target.iterdir()) == sorted(names)
    assert not any(name.endswith(".part") for name in names)


def test_what_others_put_beside_a_failed_export_stays(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pack = packed(photos, tmp_path / "p").pack
    assert pack is not None

    def broken(_: Pack, name: str, index: int) -> Any:
        (tmp_path / "e" / "notes.txt").write_text("mine")
        raise KeyboardInterrupt

    monkeypatch.setattr(Pack, "value", broken)
    with pytest.raises(KeyboardInterrupt):
        export(pack, tmp_path / "e", "webdataset")
    assert [path.name for path in (tmp_path / "e").iterdir()] == ["notes.txt"]
    with pytest.raises(InputError, match="not empty") as caught:
        export(pack, tmp_path / "e", "webdataset")
    assert caught.value.run_next == "give a new folder"


def test_an_export_that_was_killed_is_told_with_what_to_remove(
    photos: Path, tmp_path: Path
) -> None:
    pack = packed(photos, tmp_path / "p").pack
    assert pack is not None
    (tmp_path / "e").mkdir()
    (tmp_path / "e" / "shard-000000.tar.part").write_bytes(b"half a tar")
    with pytest.raises(InputError, match="not empty") as caught:
        export(pack, tmp_path / "e", "webdataset")
    assert f"or was killed: then remove {tmp_path / 'e'}/*.part and run it" in caught.value.run_next
    assert "shard-000000.tar.part" in caught.value.looked_at
    assert (tmp_path / "e" / "shard-000000.tar.part").exists()


def test_what_cannot_be_exported_is_refused(tmp_path: Path) -> None:
    pack = write_arrays(tmp_path / "p", {"x": np.zeros(3)})
    with pytest.raises(InputError, match="unknown format"):
        export(pack, tmp_path / "a", "beton")
    with pytest.raises(InputError, match="not empty"):
        export(pack, tmp_path, "webdataset")
