"""Changed bytes are found and named; of a share of the blocks so many are compared, no more."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from stoker.errors import CorruptShardError
from stoker.pack import layout, open_pack, write_arrays
from stoker.pack.build import How, build
from stoker.pack.revise import repacked
from stoker.pack.verify import verify
from stoker.report.pack import render_verified
from tests.unit.pack.conftest import job_of, packed


@pytest.mark.parametrize("name", ["image.npy", "source.bin", "image.npy-header"])
def test_a_flipped_byte_is_named_by_shard_block_and_bytes(
    photos: Path, tmp_path: Path, name: str
) -> None:
    packed(photos, tmp_path / "p")
    assert verify(tmp_path / "p").damage == ()
    path = tmp_path / "p" / f"shard-00002.{name.removesuffix('-header')}"
    data = bytearray(path.read_bytes())
    position = 70 if name.endswith("header") else len(data) - 1
    data[position] ^= 0x10
    path.write_bytes(data)
    found = verify(tmp_path / "p")
    (damage,) = found.damage
    assert (damage.shard, damage.file, damage.block) == (2, path.name, 0)
    assert damage.first <= position <= damage.last
    assert damage.samples is not None
    assert damage.samples[0] <= 14 and damage.samples[1] == 14
    with pytest.raises(CorruptShardError, match=f"shard 2, {path.name}, block 0, bytes 0 to"):
        found.raise_damage()


def test_a_block_is_found_among_many(tmp_path: Path) -> None:
    data = np.random.default_rng(0).integers(0, 256, (40, 100_000), np.uint8)
    pack = write_arrays(tmp_path / "p", {"x": data}, shard_samples=40)
    path = pack.path / "shard-00000.x.npy"
    with path.open("r+b") as file:
        file.seek(4096 + 25 * 100_000 + 17)
        file.write(bytes([data[25, 17] ^ 1]))
    (damage,) = verify(pack.path).damage
    assert damage.block == 2
    assert damage.samples == (20, 31)


def test_a_share_of_the_blocks_is_compared_when_asked_for(photos: Path, tmp_path: Path) -> None:
    packed(photos, tmp_path / "p")
    everything = verify(tmp_path / "p").all_blocks
    assert everything == 30  # few enough for a share drawn block by block to be far off
    for share in (0.05, 0.1, 0.3, 0.5, 0.99):
        some = verify(tmp_path / "p", share=share)
        assert abs(some.blocks - share * everything) <= 0.5
        assert some.bytes_read == verify(tmp_path / "p", share=share).bytes_read
    assert verify(tmp_path / "p", share=1e-9).blocks == 1
    assert "1 of 30 blocks (3.3%)" in render_verified(verify(tmp_path / "p", share=0.01))


def test_each_block_is_found_by_a_share_that_holds_it(tmp_path: Path) -> None:
    """Blocks of several files, counted through all of them, are those of the right file."""
    data = np.random.default_rng(0).integers(0, 256, (60, 100_000), np.uint8)
    pack = write_arrays(tmp_path / "p", {"x": data}, shard_samples=20)
    count = verify(pack.path).all_blocks
    for path in pack.path.glob("shard-*.x.npy"):
        damaged = bytearray(path.read_bytes())
        for at in range(0, len(damaged), layout.BLOCK_BYTES):
            damaged[at + 5000 if at == 0 else at] ^= 1
        path.write_bytes(damaged)
    some = verify(pack.path, share=0.5)
    found, known = (
        {(one.file, one.block) for one in each.damage} for each in (some, verify(pack.path))
    )
    assert len(known) == count == 6
    assert len(found) == some.blocks == 3
    assert found < known


@pytest.mark.parametrize("offsets", ["missing", "of another header"])
def test_bytes_are_told_where_their_offsets_are_damaged_too(
    photos: Path, tmp_path: Path, offsets: str
) -> None:
    folder = tmp_path / "p"
    packed(photos, folder, tier="crop-jpeg")
    path = folder / "shard-00002.image.bin"
    data = bytearray(path.read_bytes())
    data[-1] ^= 0x10
    path.write_bytes(data)
    beside = folder / "shard-00002.image.off.npy"
    if offsets == "missing":
        beside.unlink()
    else:
        beside.write_bytes(b"no header" + beside.read_bytes()[9:])
    first, second = verify(folder).damage
    assert (first.file, first.block, second.file) == (path.name, 0, beside.name)
    assert first.samples == (None if offsets == "missing" else (10, 14))
    assert build(repacked(job_of(photos, tier="crop-jpeg"), folder), folder, How()).samples == 5


def test_a_file_that_the_disk_does_not_give_is_damaged(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed(photos, tmp_path / "p")
    pread, path = os.pread, tmp_path / "p" / "shard-00003.label.npy"

    def failing(handle: int, count: int, offset: int) -> bytes:
        if os.path.samestat(os.fstat(handle), path.stat()):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return pread(handle, count, offset)

    monkeypatch.setattr(os, "pread", failing)
    (damage,) = verify(tmp_path / "p").damage
    assert f"shard 3, {path.name}: it cannot be read: Input/output error" in str(damage)


@pytest.mark.parametrize("what", ["cut", "missing"])
def test_a_truncated_file_is_found_when_opening_and_by_verify(
    photos: Path, tmp_path: Path, what: str
) -> None:
    packed(photos, tmp_path / "p")
    path = tmp_path / "p" / "shard-00001.image.npy"
    if what == "cut":
        os.truncate(path, 5000)
    else:
        path.unlink()
    with pytest.raises(CorruptShardError, match=path.name):
        open_pack(tmp_path / "p")
    (damage,) = verify(tmp_path / "p").damage
    assert damage.block is None
    assert str(damage).startswith(f"shard 1, {path.name}: it ")
