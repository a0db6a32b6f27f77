"""Damage that leaves every file its size is named before a wrong sample is given; what mends it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from stoker.errors import CorruptShardError, InputError, PackError
from stoker.pack import Pack, layout, open_pack, write_arrays
from stoker.pack.build import How, build
from stoker.pack.export import export
from stoker.pack.repair import way_to_repair
from stoker.pack.summary import summarise, write_sheet
from stoker.pack.verify import verify
from stoker.report.pack import render_verified
from tests.unit.pack.conftest import job_of, packed


def overwrite(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def made(photos: Path, folder: Path, tier: str = "raw") -> Pack:
    packed(photos, folder, tier=tier)
    return open_pack(folder)


HEADERS = {
    "nothing": b"no header of numpy at all",
    "objects": layout.header(np.dtype(object), (5,))[:80],
    "type": layout.header(np.dtype(np.int8), (5, 24, 24, 3))[:80],
    "shape": layout.header(np.dtype(np.uint8), (5, 12, 48, 3))[:80],
}


@pytest.mark.parametrize("kind", HEADERS)
def test_a_header_that_was_changed_names_its_file(photos: Path, tmp_path: Path, kind: str) -> None:
    pack = made(photos, tmp_path / "p")
    overwrite(pack.path / "shard-00001.image.npy", 0, HEADERS[kind])
    for _ in range(2):  # also when it is asked for again
        with pytest.raises(CorruptShardError, match=r"1\.image\.npy was changed") as caught:
            pack.value("image", 7)
    assert "stoker verify" in caught.value.run_next and "--repack" in caught.value.run_next
    with pytest.raises(CorruptShardError, match=r"shard-00001\.image\.npy"):
        export(open_pack(pack.path), tmp_path / "tars", "webdataset")
    assert not (tmp_path / "tars").exists()  # it can be exported there once it is mended
    assert pack.value("image", 0).shape == (24, 24, 3)


def test_labels_behind_a_changed_header_are_not_counted(photos: Path, tmp_path: Path) -> None:
    pack = made(photos, tmp_path / "p")
    overwrite(pack.path / "shard-00002.label.npy", 0, bytes(200))
    with pytest.raises(CorruptShardError, match=r"shard-00002\.label\.npy was changed"):
        summarise(pack)


@pytest.mark.parametrize("wild", [3, 2**40, 2**64 - 1])
@pytest.mark.parametrize("row", [0, 2, 5])
def test_wild_offsets_are_no_samples(photos: Path, tmp_path: Path, wild: int, row: int) -> None:
    pack = made(photos, tmp_path / "p", tier="jpeg")
    path = pack.path / "shard-00001.image.off.npy"
    overwrite(path, layout.HEADER_BYTES + 8 * row, np.uint64(wild).tobytes())
    uses: list[Callable[[], object]] = [
        lambda: pack.raw("image", 5),
        lambda: pack.file_range("image", 6),
        lambda: write_sheet(open_pack(pack.path), tmp_path / "sheet.png"),
        lambda: export(open_pack(pack.path), tmp_path / "tars", "webdataset"),
    ]
    for use in uses:
        with pytest.raises(CorruptShardError, match=r"shard-00001\.image\.off\.npy was changed"):
            use()


def test_wild_shapes_and_headers_of_tables_are_told(tmp_path: Path) -> None:
    columns = {"x": [np.arange(n, dtype=np.float32) for n in range(1, 9)]}
    pack = write_arrays(tmp_path / "p", columns, shard_samples=4)
    path = pack.path / "shard-00001.x.shape.npy"
    overwrite(path, layout.HEADER_BYTES, np.int32(7).tobytes())
    for _ in range(2):
        with pytest.raises(CorruptShardError, match=r"shard-00001\.x\.shape\.npy was changed"):
            pack.value("x", 4)
    assert pack.value("x", 3).tolist() == [0, 1, 2, 3]
    overwrite(pack.path / "shard-00001.x.off.npy", 1, b"?")
    with pytest.raises(CorruptShardError, match=r"shard-00001.x.off.npy .* header") as caught:
        open_pack(pack.path).value("x", 4)
    assert "write_arrays" in caught.value.run_next


def test_a_picture_whose_bytes_were_changed_is_told_by_the_sheet(
    photos: Path, tmp_path: Path
) -> None:
    pack = made(photos, tmp_path / "p", tier="jpeg")
    overwrite(pack.path / "shard-00000.image.bin", 0, bytes(100))
    with pytest.raises(PackError, match=r"sample 0 of .* can't be decoded") as caught:
        write_sheet(pack, tmp_path / "sheet.png")
    assert "stoker verify" in caught.value.run_next


@pytest.mark.parametrize("resume", [True, False])
def test_a_finished_pack_with_a_cut_file_is_not_called_whole(
    photos: Path, tmp_path: Path, resume: bool
) -> None:
    packed(photos, tmp_path / "p")
    os.truncate(tmp_path / "p" / "shard-00001.image.npy", 100)
    with pytest.raises(CorruptShardError, match=r"shard-00001\.image\.npy has 100 bytes") as caught:
        build(job_of(photos), tmp_path / "p", How(resume=resume))
    assert "stoker verify" in caught.value.run_next and "--repack" in caught.value.run_next


def test_what_mends_a_pack_follows_from_what_it_was_made_of(
    photos: Path, tmp_path: Path, in_hand: Callable[..., Path]
) -> None:
    pack = made(photos, tmp_path / "p")
    assert "--repack" in way_to_repair(pack.path, pack.manifest)
    own = open_pack(in_hand([(b"%d" % n, n) for n in range(9)]))
    told = way_to_repair(own.path, own.manifest)
    assert f"remove {own.path} and make it anew: stoker pack --from DIAGNOSIS {own.path}" in told
    os.truncate(own.path / "shard-00000.source_stat.npy", 100)
    found = verify(own.path)
    assert f"\nnext: {told}\n" in render_verified(found)
    assert verify(pack.path).repair == ""


def test_a_pack_of_a_script_is_not_sent_to_repack(
    in_hand: Callable[..., Path],
) -> None:
    folder = in_hand([(b"%d" % n, n) for n in range(9)])
    job = job_of(f"here.py:{folder.name}", size=None, shard_bytes=20_000)
    with pytest.raises(InputError, match="is a pack already") as caught:
        build(job, folder, How())
    assert "--repack" not in caught.value.run_next and "--resume" in caught.value.run_next


def test_samples_that_could_not_be_read_are_not_packed(photos: Path, tmp_path: Path) -> None:
    for path in sorted(photos.rglob("*.jpg"))[:3]:
        path.write_bytes(b"nothing")
    done = packed(photos, tmp_path / "p")
    assert (done.samples, len(done.quarantine)) == (18, 3)
