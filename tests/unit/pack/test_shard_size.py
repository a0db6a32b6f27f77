"""Shards have about the bytes that were asked for, whatever the samples are."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stoker.pack import open_pack
from tests.unit.pack.conftest import packed, photo

COUNT = 60


class Ragged:
    """Sound of other lengths, and nothing else."""

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index: int) -> Any:
        return np.zeros(400 + index * 37 % 200, dtype=np.int16)


class Texts(Ragged):
    def __getitem__(self, index: int) -> Any:
        return {"text": "ü" * (400 + index * 37 % 200), "number": index}


class Blobs(Ragged):
    def __getitem__(self, index: int) -> Any:
        return bytes(800 + index * 74 % 400), index


class Pictures(Ragged):
    def __getitem__(self, index: int) -> Any:
        return photo(index, (16 + index % 3, 20)), index


@pytest.mark.parametrize("kind", [Ragged, Texts, Blobs, Pictures])
def test_samples_of_any_length_fill_a_shard(in_hand: Callable[..., Path], kind: Any) -> None:
    pack = open_pack(in_hand(kind(), shard_bytes=10_000))
    sizes = {
        shard.number: max(f.size for f in shard.files if ".source" not in f.name)
        for shard in pack.shards[:-1]
    }
    assert len(sizes) > 3
    assert all(7_000 < size < 13_000 for size in sizes.values())


def test_parts_of_a_tar_that_are_kept_as_bytes_fill_a_shard(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "t.tar", "w") as archive:
        for number in range(COUNT):
            parts = {"flac": bytes(1000), "json": json.dumps({"number": number}).encode()}
            for extension, data in parts.items():
                info = tarfile.TarInfo(f"{number:03}.{extension}")
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
    pack = packed(tmp_path / "t.tar", tmp_path / "p", size=None, shard_bytes=10_000).pack
    assert pack is not None
    assert [shard.count for shard in pack.shards] == [10] * 6
