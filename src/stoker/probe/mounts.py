"""Which directories an overlay has to cover so that no write of a script reaches a real file.

Reads /proc/self/mountinfo and plans; mounts nothing. Standard library only.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from posixpath import dirname, isdir, join
from typing import NamedTuple

# Made by the kernel or holding only its handles: no write to them is a file that stays.
_KERNEL_TYPES = frozenset(
    (
        *("autofs", "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts"),
        *("devtmpfs", "efivarfs", "fusectl", "hugetlbfs", "mqueue", "nsfs", "proc", "pstore"),
        *("ramfs", "rpc_pipefs", "securityfs", "selinuxfs", "sysfs", "tracefs"),
    )
)
# Shared memory, sockets and locks live here; processes on both sides of the overlay must meet.
_MEETING_PLACES = ("/dev", "/proc", "/run", "/sys", "/var/run")
# An ordinary user owns nothing in these; looking for the exception would walk 100,000 folders.
_SYSTEM_TREES = frozenset({"bin", "boot", "etc", "lib", "lib32", "lib64", "lost+found", "sbin"})
# An ordinary user's writable folders are found this far below a mount point (user and project
# folders are at depth 2 or 3 on the clusters we know); the working directory and HOME at any depth.
_USER_DEPTH = 3
# A mount costs about 0.1 ms and the kernel's own limit is 100,000 a namespace.
_MOST_OVERLAYS = 300


class Mount(NamedTuple):
    """One line of mountinfo: what is mounted where, and which folder of which device it shows."""

    path: str
    fstype: str
    device: str
    root: str
    is_writable: bool

    def inside(self, path: str) -> tuple[str, str]:
        """Where `path`, seen through this mount, is on its device."""
        rest = path[len(self.path.rstrip("/")) :]
        return self.device, (self.root.rstrip("/") + rest) or "/"


class MountPlan(NamedTuple):
    """What to do, parents before children.

    `overlays` get a layer over them. `kept` were hidden by such a layer and are bound back.
    `exposed` are folders whose own files stay real, because no layer can cover them.
    """

    overlays: tuple[str, ...]
    kept: tuple[str, ...]
    exposed: tuple[str, ...]

    def covers(self, path: str) -> bool:
        """True when a write to `path` would end in a layer."""
        layer = _deepest(self.overlays, path)
        return layer is not None and len(layer) > len(_deepest(self.kept, path) or "")


def read_mounts(text: str) -> list[Mount]:
    """The visible mounts of a mountinfo text: what is hidden under another mount is left out."""
    mounts: dict[str, Mount] = {}
    parent_of: dict[str, str] = {}
    for line in text.splitlines():
        fields = line.split(" ")
        number, parent_of[fields[0]] = fields[0], fields[1]
        rest = fields[fields.index("-") + 1 :]
        options = {*fields[5].split(","), *rest[2].split(",")}
        mounts[number] = Mount(
            _unescaped(fields[4]), rest[0], fields[2], _unescaped(fields[3]), "ro" not in options
        )

    def hides(other: str, number: str) -> bool:
        """`other` is mounted on the root of `number`, or on a folder above where it is mounted."""
        over, under = mounts[other].path, mounts[number].path
        if parent_of[other] == number:
            return over == under
        return other != number and parent_of[other] == parent_of[number] and is_within(under, over)

    def is_reachable(number: str) -> bool:
        parent = parent_of[number]
        if parent not in mounts:
            return True
        lid = {other for other in mounts if parent_of[other] == parent and hides(other, parent)}
        return is_reachable(parent) and (not lid or number in lid)

    return sorted(
        mounts[number]
        for number in mounts
        if is_reachable(number) and not any(hides(other, number) for other in mounts)
    )


def read_sockets(text: str) -> list[str]:
    """The paths on which somebody listens, out of the text of /proc/net/unix."""
    lines = (line.split(maxsplit=7) for line in text.splitlines()[1:])
    return sorted({fields[7] for fields in lines if len(fields) > 7 and fields[7][0] == "/"})


def is_within(path: str, folder: str) -> bool:
    """True for the folder itself and all below it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def plan(
    mounts: Sequence[Mount],
    *,
    session: str,
    temporary: str,
    protect: Iterable[str],
    is_privileged: bool,
    real: Iterable[str] = (),
) -> MountPlan:
    """Decide what to cover. All paths absolute and without symbolic links.

    The session and the folder for temporary files stay real, except that what is in `protect`
    (the working directory, HOME, the script's folder) is covered wherever it can be. What is in
    `real` is kept: sockets that others listen on, for through a layer nobody would answer.
    """
    planner = _Planner(mounts, [temporary, *real], session, is_privileged)
    for mount in mounts:
        if mount.is_writable and mount.fstype not in _KERNEL_TYPES and planner.is_folder(mount):
            planner.cover(mount.path, depth=0)
    # A second look: these may lie in a place that is otherwise left alone, or too deep.
    for path in sorted(set(protect)):
        planner.protect(path)
    return planner.result()


class _Planner:
    """Collects layers while walking down from the mount points."""

    def __init__(
        self, mounts: Sequence[Mount], real: Sequence[str], session: str, is_privileged: bool
    ) -> None:
        self._real = real
        self._mounts = {mount.path: mount for mount in mounts}
        self._session = session
        self._session_place = self._place(session)
        self._temporary = real[0]
        self._is_privileged = is_privileged
        self._overlays: set[str] = set()
        self._exposed: set[str] = set()

    def is_folder(self, mount: Mount) -> bool:
        """False for the single files that containers mount, /etc/hosts for one."""
        return isdir(mount.path)

    def cover(self, folder: str, *, depth: int) -> None:
        """Put a layer over `folder`, or over what it contains where that cannot be done."""
        if is_within(folder, self._session) or self._is_left_alone(folder):
            return
        if len(self._overlays) >= _MOST_OVERLAYS:
            self._exposed.add(folder)
        elif not (self._must_split(folder) or self._is_closed(folder)):
            self._overlays.add(folder)
        elif self._is_privileged or depth < _USER_DEPTH:
            if folder != "/" and not self._is_closed(folder):
                self._exposed.add(folder)
            for name in _subfolders(folder):
                child = join(folder, name)
                if child not in self._mounts and not self._is_hopeless(folder, name):
                    self.cover(child, depth=depth + 1)

    def protect(self, path: str) -> None:
        """Cover `path` from its topmost folder on that can carry a layer."""
        if self.result().covers(path) or is_within(self._session, path):
            return
        mount = self._mounts[_deepest(self._mounts, path) or "/"]
        if not mount.is_writable or mount.fstype in _KERNEL_TYPES:
            return
        shared = [self._temporary, *_MEETING_PLACES]
        for folder in _ancestors(path, mount.path):
            # Of a place that stays real as a whole, only the path itself is taken.
            is_shared = folder != path and any(
                is_within(place, folder) or (is_within(folder, place) and place != self._temporary)
                for place in shared
            )
            if not (is_shared or self._must_split(folder) or self._is_closed(folder)):
                self._overlays.add(folder)
                return

    def result(self) -> MountPlan:
        """The plan so far."""
        kept = {
            path
            for path in (*self._mounts, *self._real)
            if path not in self._overlays and _deepest(self._overlays, path) is not None
        }
        # Where a layer was wanted over the temporary folder itself, it is not brought back.
        return MountPlan(
            tuple(sorted(self._overlays)), tuple(sorted(kept)), tuple(sorted(self._exposed))
        )

    def _is_left_alone(self, folder: str) -> bool:
        if is_within(folder, self._temporary):
            return True
        return any(is_within(folder, place) for place in _MEETING_PLACES)

    def _must_split(self, folder: str) -> bool:
        """True where the kernel refuses a layer, or '/', which cannot be mounted over in place.

        The session holds the upper directories, and an upper directory below its own lower one is
        refused (ELOOP), under whatever mount it is seen. In a user namespace a folder with mounts
        below it is refused too (EINVAL): the layer could show what they hide.
        """
        if folder == "/":
            return True
        device, inner = self._place(folder)
        session_device, session_inner = self._session_place
        if device == session_device and is_within(session_inner, inner):
            return True
        return not self._is_privileged and any(
            path != folder and is_within(path, folder) for path in self._mounts
        )

    def _is_closed(self, folder: str) -> bool:
        return not self._is_privileged and not os.access(folder, os.W_OK | os.X_OK)

    def _is_hopeless(self, parent: str, name: str) -> bool:
        return not self._is_privileged and parent == "/" and name in _SYSTEM_TREES

    def _place(self, path: str) -> tuple[str, str]:
        return self._mounts[_deepest(self._mounts, path) or "/"].inside(path)


def _deepest(folders: Iterable[str], path: str) -> str | None:
    return max((folder for folder in folders if is_within(path, folder)), key=len, default=None)


def _ancestors(path: str, top: str) -> Iterator[str]:
    """Folders from `top` down to `path` itself."""
    steps = [path]
    while steps[-1] not in (top, "/"):
        steps.append(dirname(steps[-1]))
    return reversed(steps)


def _subfolders(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except PermissionError:
        return []


def _unescaped(field: str) -> str:
    """Mountinfo writes blanks, tabs, newlines and backslashes in octal."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)
