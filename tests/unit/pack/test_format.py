"""The format: read by numpy alone, found by index, refused when it isn't whole."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.errors import CorruptShardError, InputError, PackError, PackVersionError
from stoker.pack import Codec, Pack, layout, manifest, open_pack, write_arrays

COUNT = 25
RANDOM = np.random.default_rng(0)
COLUMNS = {
    "image": RANDOM.integers(0, 256, (COUNT, 8, 6, 3), np.uint8),
    "label": np.arange(COUNT, dtype=np.int64) % 3,
    "volume": RANDOM.normal(size=(COUNT, 2, 3, 4)).astype(np.float32),
    "audio": [RANDOM.integers(-9, 9, (n % 7, 2)).astype(np.int16) for n in range(COUNT)],
    "text": [f"sample {n} ü" * (n % 3) for n in range(COUNT)],
    "blob": [bytes(range(n)) for n in range(COUNT)],
}


@pytest.fixture
def pack(tmp_path: Path) -> Pack:
    return write_arrays(tmp_path / "pack", COLUMNS, shard_samples=10, classes=("a", "b", "c"))


@pytest.mark.parametrize("name", COLUMNS)
def test_every_kind_of_column_comes_back_as_it_was(pack: Pack, name: str) -> None:
    for index in range(COUNT):
        found, expected = pack.value(name, index), COLUMNS[name][index]
        if isinstance(expected, np.generic | np.ndarray):
            np.testing.assert_array_equal(found, expected)
            assert found.dtype == expected.dtype
        else:
            assert found == expected


def test_a_stranger_reads_it_with_numpy_alone(pack: Pack) -> None:
    code = """
import numpy as np, sys
folder = sys.argv[1]
images = np.load(folder + "/shard-00001.image.npy", mmap_mode="r")
off = np.load(folder + "/shard-00001.audio.off.npy")
shape = np.load(folder + "/shard-00001.audio.shape.npy")
audio = np.fromfile(folder + "/shard-00001.audio.bin", np.int16)
third = audio[off[3] // 2 : off[4] // 2].reshape(shape[3])
assert "stoker" not in sys.modules
print(images[3].sum(), third.sum(), third.shape)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(pack.path)], capture_output=True, text=True, check=True
    )
    image, audio = COLUMNS["image"][13], COLUMNS["audio"][13]
    assert done.stdout.split(maxsplit=2) == [
        *(str(image.sum()), str(audio.sum()), f"{audio.shape}\n")
    ]


def test_the_first_sample_lies_on_a_page(pack: Pack) -> None:
    for path in pack.path.glob("*.npy"):
        assert path.read_bytes()[layout.HEADER_BYTES - 1 : layout.HEADER_BYTES] == b"\n"
        np.load(path)


@pytest.mark.parametrize("name", COLUMNS)
def test_the_bytes_of_a_sample_lie_where_its_file_range_says(pack: Pack, name: str) -> None:
    for index in (0, 9, 10, 24):
        place = pack.file_range(name, index)
        with Path(place.path).open("rb") as file:
            file.seek(place.offset)
            assert file.read(place.length) == bytes(pack.raw(name, index))


def test_samples_are_found_one_by_one_and_many_at_once(pack: Pack) -> None:
    shards, rows = pack.locate_many(np.arange(COUNT))
    assert [pack.locate(n) for n in range(COUNT)] == list(zip(shards, rows, strict=True))
    assert pack.locate(24) == (2, 4)
    for outside in (-1, COUNT):
        with pytest.raises(IndexError):
            pack.locate(outside)


def test_a_pack_goes_to_another_process_and_back(pack: Pack) -> None:
    again = pickle.loads(pickle.dumps(pack))
    np.testing.assert_array_equal(again.value("image", 7), COLUMNS["image"][7])


def test_a_pack_of_another_generation_is_not_mistaken_for_this_one(pack: Pack) -> None:
    data = pickle.dumps(pack)
    newer = msgspec.structs.replace(pack.manifest, generation=2)
    manifest.write(pack.path, newer)
    with pytest.raises(PackError, match="generation 2, 1 was opened"):
        pickle.loads(data)


def test_the_same_columns_give_the_same_bytes(tmp_path: Path) -> None:
    first, second = (write_arrays(tmp_path / n, COLUMNS, shard_samples=9) for n in "ab")
    names = sorted(path.name for path in first.path.iterdir())
    assert names == sorted(path.name for path in second.path.iterdir())
    for name in names:
        assert (first.path / name).read_bytes() == (second.path / name).read_bytes()


@pytest.mark.parametrize("suffix", ["image.npy", "text.bin", "text.off.npy"])
def test_a_file_that_is_cut_or_gone_is_named(pack: Pack, suffix: str) -> None:
    path = pack.path / f"shard-00001.{suffix}"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CorruptShardError, match=f"{path.name} has .* bytes were written"):
        open_pack(pack.path)
    path.unlink()
    with pytest.raises(CorruptShardError, match=f"{path.name} is missing"):
        open_pack(pack.path)


def test_a_pack_without_a_manifest_is_half_a_pack_or_none(pack: Pack, tmp_path: Path) -> None:
    (pack.path / layout.MANIFEST).unlink()
    with pytest.raises(PackError, match="is no pack: it has no manifest"):
        open_pack(pack.path)
    (pack.path / layout.JOURNAL).touch()
    with pytest.raises(PackError, match="is half a pack") as caught:
        open_pack(pack.path)
    assert "--resume" in caught.value.run_next
    with pytest.raises(PackError, match="is no folder"):
        open_pack(tmp_path / "nothing")


def test_a_file_in_the_place_of_a_folder_is_told(pack: Pack) -> None:
    with pytest.raises(PackError, match="the pack is its folder") as caught:
        open_pack(pack.path / layout.MANIFEST)
    assert caught.value.run_next == f"give the folder, {pack.path}"
    with pytest.raises(PackError, match="is no folder"):
        open_pack(next(pack.path.glob("shard-*")))


def test_another_version_is_refused_and_told(pack: Pack) -> None:
    path = pack.path / layout.MANIFEST
    path.write_text(path.read_text().replace("stoker.pack/1", "stoker.pack/9"))
    with pytest.raises(PackVersionError, match=r"schema 'stoker.pack/9', .* 'stoker.pack/1'"):
        open_pack(pack.path)


def test_a_changed_manifest_is_found_out(pack: Pack) -> None:
    path = pack.path / layout.MANIFEST
    text = path.read_text()
    path.write_text(text.replace('"shard_samples":10', '"shard_samples":11'))
    with pytest.raises(CorruptShardError, match="its checksum is"):
        open_pack(pack.path)
    path.write_text(text[: len(text) // 2])
    with pytest.raises(CorruptShardError):
        open_pack(pack.path)


def test_the_manifest_is_json_that_others_can_read(pack: Pack) -> None:
    found = json.loads((pack.path / layout.MANIFEST).read_text())
    assert found["samples"] == COUNT
    assert [field["name"] for field in found["fields"]] == list(COLUMNS)


def test_a_wrong_field_or_use_is_refused_in_three_parts(pack: Pack) -> None:
    for wrong in (
        lambda: pack.value("picture", 0),
        lambda: pack.array("text", 0),
        lambda: pack.offsets("image", 0),
    ):
        with pytest.raises(InputError) as caught:
            wrong()
        assert caught.value.looked_at
        assert caught.value.run_next


def test_columns_must_have_one_length_and_the_folder_must_be_empty(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="must have the same number"):
        write_arrays(tmp_path / "a", {"x": np.zeros(3), "y": np.zeros(4)})
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "mine.txt").touch()
    with pytest.raises(InputError, match="not empty"):
        write_arrays(tmp_path / "b", {"x": np.zeros(3)})


def test_what_bytes_are_is_kept(tmp_path: Path) -> None:
    pack = write_arrays(tmp_path / "p", {"image": [b"\xff\xd8"]}, codecs={"image": Codec.JPEG})
    assert pack.field("image").codec is Codec.JPEG
    assert pack.value("image", 0) == b"\xff\xd8"


@settings(max_examples=60, deadline=None)
@given(st.lists(st.binary(max_size=40), max_size=8), st.integers(1, 9))
def test_checksums_do_not_depend_on_how_the_bytes_came(pieces: list[bytes], block: int) -> None:
    before, layout.BLOCK_BYTES = layout.BLOCK_BYTES, block
    try:
        in_pieces, at_once = layout.BlockSums(), layout.BlockSums()
        for piece in pieces:
            in_pieces.add(piece)
        at_once.add(b"".join(pieces))
        assert (in_pieces.blocks, in_pieces.size) == (at_once.blocks, at_once.size)
        assert len(at_once.blocks) == 8 * -(-at_once.size // block)
    finally:
        layout.BLOCK_BYTES = before
