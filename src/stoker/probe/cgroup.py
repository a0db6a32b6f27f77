"""The control group a process runs in: processor quota, throttling and memory limit, v1 and v2.

Standard library only: this module also runs inside the examined process. It reads files and never
writes one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

# A directory read as the job's own control group, for tests of jobs that are not run in one.
ROOT_VARIABLE = "STOKER_CGROUP_ROOT"

# A v1 memory group without a limit says the largest multiple of a page below 2^63; no machine
# comes near 2^60 bytes, so anything above is "none".
_NO_LIMIT = 2**60


class Mount(NamedTuple):
    """One line of /proc/PID/mountinfo (proc(5)), as far as Stoker needs it."""

    root: str
    point: str
    kind: str
    source: str
    options: frozenset[str]  # of the super block: for cgroup v1 its controllers


class Throttling(NamedTuple):
    """Totals since the control group began; `periods` counts those in which it wanted to run."""

    periods: int = 0
    throttled_periods: int = 0
    throttled_s: float = 0.0

    @property
    def share(self) -> float:
        """Share of the scheduler's periods in which the group was stopped."""
        return self.throttled_periods / self.periods if self.periods > 0 else 0.0


class Memory(NamedTuple):
    """What the group may use; None where nothing limits it or nothing is known."""

    limit_bytes: int | None = None
    used_bytes: int | None = None
    reclaimable_bytes: int = 0  # clean file pages that the kernel gives back before it kills
    swap_limit_bytes: int | None = None


class ControlGroup(NamedTuple):
    """The directories that limit a process, its own group first and then each ancestor."""

    processor: tuple[Path, ...] = ()
    memory: tuple[Path, ...] = ()
    # True for a directory named by STOKER_CGROUP_ROOT: its counters stand still.
    is_fixed: bool = False

    def quota(self) -> float | None:
        """Cores that the quota allows, the smallest of the group and its ancestors, or None."""
        found = [cores for folder in self.processor if (cores := _quota(folder)) is not None]
        return min(found, default=None)

    def throttling(self) -> Throttling:
        """Counts of the nearest group that has a quota: an ancestor's stop halts its children."""
        limited = [folder for folder in self.processor if _quota(folder) is not None]
        for folder in (*limited, *self.processor):
            counts = _throttling(folder)
            if counts is not None:
                return counts
        return Throttling()

    def memory_limits(self) -> Memory:
        """The group or ancestor with the least room left, or what is used where none limits."""
        found = [_memory(folder) for folder in self.memory]
        limited = [memory for memory in found if memory.limit_bytes is not None]
        if not limited:
            return found[0] if found else Memory()
        return min(limited, key=_room)


def control_group(
    pid: int | str = "self",
    *,
    proc: Path = Path("/proc"),
    environ: Mapping[str, str] = os.environ,
) -> ControlGroup:
    """The control group of `pid`; an empty one where the system has none or hides it.

    Follows /proc/PID/cgroup into the mounted hierarchies, so that hybrid systems (v1 controllers
    beside an empty v2 tree) are read from whichever holds the controller.
    """
    named = environ.get(ROOT_VARIABLE)
    if named:
        folder = Path(named)
        return ControlGroup((folder,), (folder,), is_fixed=True)
    mounts = [m for m in read_mounts(pid, proc=proc) if m.kind in ("cgroup", "cgroup2")]
    memberships = _memberships(_text(proc / str(pid) / "cgroup"))
    return ControlGroup(
        _lineage("cpu", mounts, memberships), _lineage("memory", mounts, memberships)
    )


def read_mounts(pid: int | str = "self", *, proc: Path = Path("/proc")) -> list[Mount]:
    """The mounts that `pid` sees, in mount order (later ones lie on top)."""
    mounts = []
    for line in (_text(proc / str(pid) / "mountinfo") or "").splitlines():
        left, _, right = line.partition(" - ")
        before, after = left.split(), right.split()
        if len(before) >= 5 and len(after) >= 2:
            options = frozenset(after[2].split(",")) if len(after) > 2 else frozenset()
            mounts.append(
                Mount(_unescape(before[3]), _unescape(before[4]), after[0], after[1], options)
            )
    return mounts


def _unescape(path: str) -> str:
    """The kernel writes blanks in paths as octal escapes."""
    for code, plain in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        path = path.replace(code, plain)
    return path


def _memberships(text: str | None) -> dict[str, str]:
    """Controller -> path of the group; the v2 path under the empty name."""
    found: dict[str, str] = {}
    for line in (text or "").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        for controller in controllers.split(","):
            found[controller] = path
    return found


def _lineage(
    controller: str, mounts: list[Mount], memberships: Mapping[str, str]
) -> tuple[Path, ...]:
    """Existing directories from the process' own group up to the mount, v1 and v2 together."""
    folders: list[Path] = []
    for mount in mounts:
        if mount.kind == "cgroup" and controller in mount.options:
            path = memberships.get(controller)
        elif mount.kind == "cgroup2":
            path = memberships.get("")
        else:
            continue
        if path is None:
            continue
        top = Path(mount.point)
        inside = _below(path, mount.root)
        own = top / inside if inside else top
        folders += [
            folder for folder in (own, *own.parents) if folder == top or top in folder.parents
        ]
    return tuple(folder for folder in folders if folder.is_dir())


def _below(path: str, root: str) -> str:
    """The group's path inside the mount; the mount itself when the group lies outside it."""
    if root == "/":
        inside = path.strip("/")
    elif path == root or path.startswith(root + "/"):
        inside = path[len(root) :].strip("/")
    else:
        inside = ""
    return "" if ".." in inside.split("/") else inside


def _quota(folder: Path) -> float | None:
    modern = (_text(folder / "cpu.max") or "").split()
    if modern:
        quota, period = modern[0], modern[1] if len(modern) > 1 else "100000"
    else:
        quota = _text(folder / "cpu.cfs_quota_us") or "-1"
        period = _text(folder / "cpu.cfs_period_us") or "100000"
    try:
        cores = int(quota) / int(period)
    except (ValueError, ZeroDivisionError):  # "max", or a file cut short
        return None
    return cores if cores > 0 else None


def _throttling(folder: Path) -> Throttling | None:
    counts = _pairs(folder / "cpu.stat")
    if "nr_periods" not in counts:
        return None
    if "throttled_usec" in counts:
        stopped_s = counts["throttled_usec"] / 1e6
    else:
        stopped_s = counts.get("throttled_time", 0) / 1e9  # v1 counts nanoseconds
    return Throttling(counts["nr_periods"], counts.get("nr_throttled", 0), stopped_s)


def _memory(folder: Path) -> Memory:
    statistics = _pairs(folder / "memory.stat")
    limit, used = _number(folder / "memory.max"), _number(folder / "memory.current")
    swap = _number(folder / "memory.swap.max")
    if limit is None and used is None:
        limit = _number(folder / "memory.limit_in_bytes")
        used = _number(folder / "memory.usage_in_bytes")
        both = _number(folder / "memory.memsw.limit_in_bytes")
        swap = both - limit if both is not None and limit is not None else None
    reclaimable = statistics.get("total_inactive_file", statistics.get("inactive_file", 0))
    return Memory(limit, used, reclaimable, swap)


def _room(memory: Memory) -> int:
    return (memory.limit_bytes or 0) - (memory.used_bytes or 0)


def _pairs(path: Path) -> dict[str, int]:
    found: dict[str, int] = {}
    for line in (_text(path) or "").splitlines():
        name, _, value = line.partition(" ")
        if value.strip().isdigit():
            found[name] = int(value)
    return found


def _number(path: Path) -> int | None:
    """The number in a file; None for "max", for a limit beyond any machine, and for no file."""
    text = (_text(path) or "").strip()
    if not text.isdigit():
        return None
    value = int(text)
    return value if value < _NO_LIMIT else None


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
