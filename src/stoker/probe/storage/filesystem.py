"""Which file system a path lies on, and whether its reads can be measured cold.

Standard library only: reads /proc/self/mountinfo.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from stoker.probe.cgroup import read_mounts

# Served by another machine (or, for the last three, by the host of a virtual machine), which has
# caches of its own. Names as in mountinfo; for FUSE the subtype after "fuse.".
_NETWORK = frozenset(
    [
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "coda",
        "fhgfs",
        "gfs2",
        "glusterfs",
        "gpfs",
        "lustre",
        "ncpfs",
        "nfs",
        "nfs3",
        "nfs4",
        "ocfs2",
        "orangefs",
        "panfs",
        "pvfs2",
        "quobyte",
        "smb2",
        "smb3",
        "smbfs",
        "wekafs",
        "9p",
        "virtiofs",
        "vboxsf",
    ]
)
_NETWORK_FUSE = frozenset(
    [
        "alluxio",
        "alluxio-fuse",
        "azstorage",
        "blobfuse",
        "blobfuse2",
        "ceph",
        "ceph-fuse",
        "curlftpfs",
        "cvmfs2",
        "davfs",
        "davfs2",
        "gcsfuse",
        "geesefs",
        "glusterfs",
        "goofys",
        "hdfs",
        "juicefs",
        "mountpoint-s3",
        "mount-s3",
        "quobyte",
        "rclone",
        "s3backer",
        "s3fs",
        "s3ql",
        "seaweedfs",
        "smbnetfs",
        "sshfs",
        "weed",
    ]
)
_MEMORY = frozenset(["devtmpfs", "hugetlbfs", "ramfs", "tmpfs"])
# Keeps its own cache beside the page cache, which neither fadvise nor mincore reaches.
_OWN_CACHE = frozenset(["zfs"])


class Mounted(NamedTuple):
    """The file system that holds a path."""

    kind: str
    source: str
    mount_point: str

    @property
    def is_network(self) -> bool:
        """True when another machine serves the reads."""
        family, _, subtype = self.kind.partition(".")
        if family == "fuse":
            return subtype.lower() in _NETWORK_FUSE
        return self.kind in _NETWORK

    @property
    def is_memory(self) -> bool:
        """True when the files are in memory and nowhere else."""
        return self.kind in _MEMORY

    @property
    def never_cold(self) -> str | None:
        """Why no read of it can be cold, or None."""
        if self.is_memory:
            return f"{self.mount_point} is {self.kind}: its files are in memory, never cold"
        if self.kind in _OWN_CACHE:
            return (
                f"{self.mount_point} is {self.kind}, whose own cache can't be emptied without root"
            )
        return None


def mounted(path: str, *, proc: Path = Path("/proc")) -> Mounted:
    """The file system of `path`; of kind "unknown" where mounts can't be read."""
    real = Path(path).resolve()
    found = Mounted("unknown", "unknown", "/")
    for mount in read_mounts(proc=proc):
        point = Path(mount.point)
        # Of mounts on the same point the later one lies on top.
        if (real == point or point in real.parents) and len(mount.point) >= len(found.mount_point):
            found = Mounted(mount.kind, mount.source, mount.point)
    return found
