import mmap
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.probe.storage.filesystem import mounted
from stoker.probe.storage.residency import cached_share, evict

MB = 1024 * 1024


@pytest.fixture
def file(tmp_path: Path) -> Iterator[str]:
    """8 MiB on a disk, written out."""
    if mounted(str(tmp_path)).never_cold:
        pytest.skip("the temporary folder is in memory, where nothing can be evicted")
    path = tmp_path / "data"
    path.write_bytes(os.urandom(8 * MB))
    handle = os.open(path, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)
    yield str(path)


def test_a_file_just_written_is_cached_and_an_evicted_one_is_not(file: str) -> None:
    assert cached_share(file) == 1.0
    assert evict(file)
    assert cached_share(file) == 0.0


def test_reading_a_part_brings_that_part_back(file: str) -> None:
    evict(file)
    handle = os.open(file, os.O_RDONLY)
    os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_RANDOM)
    os.pread(handle, 64 * 1024, 2 * MB)
    os.close(handle)
    assert cached_share(file, 2 * MB, 64 * 1024) == 1.0
    assert cached_share(file, 5 * MB, 64 * 1024) == 0.0


def test_only_the_range_asked_for_is_evicted(file: str) -> None:
    assert evict(file, 4 * MB + 4096, 8192)
    assert cached_share(file, 4 * MB + 4096, 8192) == 0.0
    assert cached_share(file, 0, 2 * MB) == 1.0


def test_dirty_pages_go_when_they_are_flushed_first(tmp_path: Path, file: str) -> None:
    with Path(file).open("r+b") as writer:
        writer.write(os.urandom(MB))
    assert evict(file, flush=True)
    assert cached_share(file) == 0.0


def test_pages_that_a_process_maps_stay_and_are_seen_to_stay(file: str) -> None:
    with Path(file).open("rb") as reader:
        view = mmap.mmap(reader.fileno(), 0, prot=mmap.PROT_READ)
        assert sum(view[index] for index in range(0, len(view), 4096)) > 0
        evict(file)
        share = cached_share(file)
        view.close()
    assert share is not None
    assert share > 0.5


def test_somebody_elses_file_is_unseen_rather_than_called_cached(
    file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 54_321)
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    assert cached_share(file) is None


def test_what_is_not_there_or_empty_is_unseen(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert cached_share(str(tmp_path / "none")) is None
    assert cached_share(str(tmp_path / "empty")) is None
    assert cached_share(str(tmp_path)) is None
    assert not evict(str(tmp_path / "none"))
