"""A pack of more shards than a process may have files open: in processes of their own."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from stoker.pack import Pack, write_arrays

SHARDS = 100
LOAD = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (64, {hard}))
import stoker
loader = stoker.Loader({path!r}, 8, array="numpy", threads=2, reading={reading!r}, crop={crop})
for _ in range(2):
    batches = list(loader)
    assert all((batch["image"][:, 0, 0, 0] == batch["index"] % 251).all() for batch in batches)
print(loader.stats().reading, len(batches), resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""
LOOK = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (64, {hard}))
from stoker.loader.faces import PackDataset
data = PackDataset({path!r})
print(sum(int(data[number][1]) for number in range(len(data))))
"""


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Pack:
    images = np.empty((2 * SHARDS, 80, 4, 3), np.uint8)
    images[:] = (np.arange(len(images)) % 251)[:, None, None, None]
    columns = {"image": images, "label": np.arange(len(images))}
    return write_arrays(tmp_path_factory.mktemp("many") / "pack", columns, shard_samples=2)


def ran(code: str, **values: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code.format(**values)], capture_output=True, text=True, timeout=60
    )


@pytest.mark.parametrize("reading", ["mmap", "preadv"])
@pytest.mark.parametrize("crop", [None, 4])
def test_the_limit_is_raised_as_far_as_it_may_be(pack: Pack, reading: str, crop: object) -> None:
    assert len(pack.shards) == SHARDS
    done = ran(LOAD, hard=4096, path=str(pack.path), reading=reading, crop=crop)
    assert done.returncode == 0, done.stderr
    found, batches, limit = done.stdout.split()
    assert (found, int(batches)) == (reading, 2 * SHARDS / 8)
    assert 2 * SHARDS <= int(limit) <= 4096


@pytest.mark.parametrize("reading", ["preadv", None])
def test_where_it_may_not_be_raised_files_are_opened_for_each_read(
    pack: Pack, reading: str | None
) -> None:
    done = ran(LOAD, hard=64, path=str(pack.path), reading=reading, crop=None)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["preadv", "25", "64"]


def test_maps_that_were_asked_for_by_hand_are_refused_with_the_way_out(pack: Pack) -> None:
    done = ran(LOAD, hard=64, path=str(pack.path), reading="mmap", crop=None)
    assert "too many files are open in this process" in done.stderr
    assert "PackError" in done.stderr and "ulimit -n 800" in done.stderr


def test_a_data_set_over_the_pack_has_its_limit_raised_too(pack: Pack) -> None:
    done = ran(LOOK, hard=4096, path=str(pack.path))
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == sum(range(2 * SHARDS))
