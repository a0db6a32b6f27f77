from pathlib import Path

import pytest

from stoker.probe.storage.filesystem import Mounted, mounted

MOUNTS = """\
20 1 0:1 / / rw - ext4 /dev/sda1 rw
21 20 0:2 / {root}/data rw - nfs4 server:/export rw,vers=4.2
22 21 0:3 / {root}/data/fast rw - xfs /dev/nvme0n1 rw
23 20 0:4 / {root}/shm rw - tmpfs tmpfs rw
24 23 0:5 / {root}/shm rw - ext4 /dev/sdb1 rw
"""


def proc(tmp_path: Path) -> Path:
    (tmp_path / "proc" / "self").mkdir(parents=True)
    (tmp_path / "proc" / "self" / "mountinfo").write_text(MOUNTS.format(root=tmp_path))
    return tmp_path / "proc"


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("data/train/x.jpg", "nfs4"),
        ("data/fast/x", "xfs"),
        ("data/faster", "nfs4"),  # not below the mount, only spelled like it
        ("other", "ext4"),
        ("shm/x", "ext4"),  # mounted over the tmpfs
    ],
)
def test_a_path_lies_on_the_innermost_mount_that_was_made_last(
    tmp_path: Path, path: str, kind: str
) -> None:
    assert mounted(str(tmp_path / path), proc=proc(tmp_path)).kind == kind


def test_links_are_followed_to_where_the_bytes_are(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "data")
    assert mounted(str(tmp_path / "link"), proc=proc(tmp_path)).source == "server:/export"


@pytest.mark.parametrize("kind", ["nfs4", "lustre", "cifs", "fuse.sshfs", "fuse.gcsfuse", "9p"])
def test_network_file_systems_are_known_by_name(kind: str) -> None:
    assert Mounted(kind, "x", "/mnt").is_network


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "overlay", "fuse.fuse-overlayfs", "zfs"])
def test_local_file_systems_are_not_taken_for_network(kind: str) -> None:
    assert not Mounted(kind, "x", "/mnt").is_network


def test_memory_and_file_systems_with_a_cache_of_their_own_are_never_cold() -> None:
    assert "in memory" in (Mounted("tmpfs", "tmpfs", "/dev/shm").never_cold or "")
    assert "own cache" in (Mounted("zfs", "pool", "/data").never_cold or "")
    assert Mounted("ext4", "/dev/sda", "/").never_cold is None


def test_unreadable_mounts_give_an_unknown_file_system(tmp_path: Path) -> None:
    assert mounted(str(tmp_path), proc=tmp_path / "none").kind == "unknown"
