"""The plan of an overlay is right for machines that we do not have: only text and folders go in."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.probe import mounts
from stoker.probe.mounts import Mount, is_within, plan, read_mounts, read_sockets


def mount(path: Path | str, *, device: str = "8:1", root: str = "/", fstype: str = "ext4") -> Mount:
    return Mount(str(path), fstype, device, root, is_writable=True)


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    for folder in ("project/out", "project/tmp", "project/data", "session", "home/user", "tmp"):
        (tmp_path / folder).mkdir(parents=True)
    return tmp_path


def test_a_mount_hidden_by_a_later_one_is_left_out() -> None:
    text = (
        "22 27 0:21 / /proc rw,relatime - proc proc rw\n"
        "27 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
        "30 27 8:2 / /data rw - ext4 /dev/sdb1 rw\n"
        "31 30 8:3 / /data/deep rw - ext4 /dev/sdc1 rw\n"
        "32 30 8:4 / /data rw - xfs /dev/sdd1 rw\n"
    )
    assert [(found.path, found.fstype) for found in read_mounts(text)] == [
        ("/", "ext4"),
        ("/data", "xfs"),
        ("/proc", "proc"),
    ]


def test_optional_fields_escapes_and_read_only_mounts_are_understood() -> None:
    text = (
        "27 1 8:1 / / rw shared:1 master:2 - ext4 /dev/sda1 rw\n"
        r"28 27 8:2 /sub /my\040data rw,nosuid shared:9 - ext4 /dev/sdb1 ro" + "\n"
    )
    assert read_mounts(text)[1] == Mount("/my data", "ext4", "8:2", "/sub", is_writable=False)


def test_a_folder_is_not_within_one_that_only_begins_like_it() -> None:
    assert is_within("/data/a", "/data")
    assert is_within("/data", "/")
    assert not is_within("/database", "/data")


def test_the_session_splits_the_folder_that_holds_it(disk: Path) -> None:
    made = plan(
        [mount("/"), mount(disk, device="8:2")],
        session=str(disk / "session"),
        temporary=str(disk / "tmp"),
        protect=[str(disk / "project")],
        is_privileged=True,
    )
    covered = [path for path in made.overlays if is_within(path, str(disk))]
    assert covered == [str(disk / "home"), str(disk / "project")]
    assert str(disk) in made.exposed


def test_the_session_is_recognised_under_another_mount_of_the_same_disk(disk: Path) -> None:
    # `disk` shows /vol of 8:2, and the session is seen through `disk`; `project` is a second
    # mount of the very folder that holds the session.
    made = plan(
        [
            mount("/"),
            mount(disk, device="8:2", root="/vol"),
            mount(disk / "project", device="8:2", root="/vol"),
        ],
        session=str(disk / "session"),
        temporary="/elsewhere/tmp",
        protect=[],
        is_privileged=True,
    )
    assert str(disk / "project") not in made.overlays


def test_a_temporary_folder_inside_a_covered_one_is_brought_back(disk: Path) -> None:
    made = plan(
        [mount("/"), mount(disk, device="8:2")],
        session="/elsewhere/session",
        temporary=str(disk / "project" / "tmp"),
        protect=[str(disk / "project")],
        is_privileged=True,
    )
    assert made.covers(str(disk / "project" / "out"))
    assert not made.covers(str(disk / "project" / "tmp" / "scratch"))


def test_a_project_inside_the_temporary_folder_is_covered_all_the_same(disk: Path) -> None:
    made = plan(
        [mount("/"), mount(disk, device="8:2")],
        session=str(disk / "session"),
        temporary=str(disk),
        protect=[str(disk / "project" / "out")],
        is_privileged=True,
    )
    assert made.covers(str(disk / "project" / "data"))
    assert not made.covers(str(disk / "home"))


def test_a_working_directory_that_holds_the_session_is_not_covered(disk: Path) -> None:
    made = plan(
        [mount("/"), mount(disk, device="8:2")],
        session=str(disk / "session"),
        temporary=str(disk / "tmp"),
        protect=[str(disk)],
        is_privileged=True,
    )
    assert not made.covers(str(disk))


def test_mounts_below_a_covered_folder_are_brought_back_and_kernel_ones_left_alone(
    disk: Path,
) -> None:
    data = disk / "project" / "data"
    made = plan(
        [
            mount("/"),
            mount(disk, device="8:2"),
            Mount(str(data), "nfs4", "0:50", "/", is_writable=False),
            mount(disk / "project" / "out", device="0:51", fstype="sysfs"),
        ],
        session="/elsewhere/session",
        temporary="/elsewhere/tmp",
        protect=[],
        is_privileged=True,
    )
    assert str(disk) in made.overlays
    assert [path for path in made.kept if is_within(path, str(disk))] == [
        str(data),
        str(disk / "project" / "out"),
    ]


def test_an_ordinary_users_folder_with_a_mount_below_is_split(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The folders beside this test's, of other programs, are counted too.
    monkeypatch.setattr(mounts, "_MOST_OVERLAYS", 100_000)
    made = plan(
        [mount("/"), mount(disk, device="8:2"), mount(disk / "home" / "user", device="8:3")],
        session="/elsewhere/session",
        temporary="/elsewhere/tmp",
        protect=[],
        is_privileged=False,
    )
    covered = {path for path in made.overlays if is_within(path, str(disk))}
    assert covered >= {str(disk / "project"), str(disk / "home" / "user")}
    assert str(disk / "home") not in covered


def test_sockets_with_a_path_are_listed_once_and_kept(disk: Path) -> None:
    path = str(disk / "project" / "out" / "a socket")
    text = (
        "Num       RefCount Protocol Flags    Type St Inode Path\n"
        f"0000000000000000: 00000002 00000000 00010000 0001 01 12345 {path}\n"
        f"0000000000000000: 00000003 00000000 00000000 0001 03 12346 {path}\n"
        "0000000000000000: 00000002 00000000 00010000 0001 01 12347 @abstract\n"
        "0000000000000000: 00000003 00000000 00000000 0001 03 12348\n"
    )
    assert read_sockets(text) == [path]
    made = plan(
        [mount("/"), mount(disk, device="8:2")],
        session="/elsewhere/session",
        temporary="/elsewhere/tmp",
        protect=[],
        is_privileged=True,
        real=read_sockets(text),
    )
    assert path in made.kept
