"""One budget of a folder for all that copy into it, whatever ends them."""

from __future__ import annotations

import errno
import fcntl
import multiprocessing
import os
from pathlib import Path
from typing import IO, Any

import pytest

from stoker.remedy.cache_local import LocalCopies
from stoker.remedy.folder_budget import FolderBudget

NAME = "0" * 62  # as copies are named: the rest of a digest


class Files:
    """The text of numbered files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __getitem__(self, index: int) -> str:
        return (self.folder / f"{index}.txt").read_text()


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """Where files of 40 bytes are, and where they are copied to."""
    (tmp_path / "source").mkdir()
    for index in range(8):
        (tmp_path / "source" / f"{index}.txt").write_text("x" * 40)
    return tmp_path / "source", tmp_path / "copies"


def read(layer: LocalCopies, source: Path, indices: list[int]) -> None:
    reading = layer.around(Files(source))
    assert [len(reading[index]) for index in indices] == [40] * len(indices)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_have_one_budget_together(method: Any, folders: tuple[Path, Path]) -> None:
    source, copies = folders
    layer = LocalCopies(str(copies), 100)
    context = multiprocessing.get_context(method)
    workers = [
        context.Process(target=read, args=(layer, source, list(range(first, 8, 2))))
        for first in (0, 1)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0]
    assert len(list(copies.glob("??/*"))) == 2
    assert layer.held() == 2


def test_ranks_that_know_nothing_of_each_other_have_one_budget(folders: tuple[Path, Path]) -> None:
    source, copies = folders
    for first in range(4):
        read(LocalCopies(str(copies), 100), source, [first, first + 4])
    assert len(list(copies.glob("??/*"))) == 2


def test_a_full_disk_is_remembered_and_leaves_no_part(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, copies = folders
    tried: list[Path] = []

    def add(_: FolderBudget, copy: Path, *__: Any) -> bool:
        tried.append(copy)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(FolderBudget, "add", add)
    read(LocalCopies(str(copies), 10_000), source, [0, 1, 0, 1])
    assert len(tried) == 1


def test_what_could_not_be_written_gives_its_bytes_back(tmp_path: Path) -> None:
    def half(file: IO[bytes]) -> None:
        file.write(b"x" * 20)
        raise OSError(errno.ENOSPC, "No space left on device")

    room = FolderBudget(str(tmp_path), 100)
    room.recount()
    with pytest.raises(OSError, match="No space"):
        room.add(tmp_path / "00" / NAME, 80, half)
    assert list((tmp_path / "00").iterdir()) == []
    assert room.used() == 0


def test_a_file_that_changes_while_it_is_copied_is_not_kept(tmp_path: Path) -> None:
    room = FolderBudget(str(tmp_path), 100)
    assert not room.add(tmp_path / "00" / NAME, 80, lambda file: file.write(b"x" * 79))
    assert list((tmp_path / "00").iterdir()) == []
    assert room.used() == 0


def test_parts_of_writers_that_were_killed_are_removed_and_others_counted(tmp_path: Path) -> None:
    (tmp_path / "00").mkdir()
    left, written = (tmp_path / "00" / f".{NAME}.{size}-1" for size in (30, 40))
    foreign = tmp_path / "00" / ".profile"
    for path in (left, written, foreign):
        path.write_bytes(b"12345")
    with written.open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        used = FolderBudget(str(tmp_path), 100).recount()
    assert sorted(path.name for path in (tmp_path / "00").iterdir()) == [written.name, ".profile"]
    assert used == 40 + 5


def test_a_file_that_is_rewritten_is_read_anew(folders: tuple[Path, Path]) -> None:
    source, copies = folders
    reading = LocalCopies(str(copies), 10_000).around(Files(source))
    assert reading[0] == "x" * 40
    path = source / "0.txt"
    path.write_text("y" * 40)
    os.utime(path, ns=(1, 1))  # however coarse the file system's clock is
    assert reading[0] == "y" * 40
