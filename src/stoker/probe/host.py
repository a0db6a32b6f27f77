"""What the job really owns: cores, shared memory and memory, whatever the machine has.

Standard library only: this module also runs inside the examined process and its workers. Every
place it reads from can be handed in, so that tests describe machines they do not run on.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from stoker.probe.cgroup import ControlGroup, Throttling, control_group
from stoker.probe.process import CpuMeter, ProcessTimes, io_bytes, process_times

__all__ = [
    "Allocation",
    "CpuMeter",
    "Payload",
    "ProcessTimes",
    "SharedMemory",
    "affinity",
    "allocation",
    "available_memory",
    "cores_owned",
    "host_facts",
    "process_times",
    "ranks_on_node",
    "scheduler_cores",
    "shared_memory",
    "throttling_now",
]

# The size of /dev/shm, for tests of jobs in containers with little of it.
SHM_VARIABLE = "STOKER_SHM_BYTES"
_PROC = Path("/proc")
_SHM = Path("/dev/shm")

_RANK_VARIABLES = (
    "LOCAL_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "MPI_LOCALNRANKS",
    "SLURM_STEP_TASKS_PER_NODE",
    "SLURM_NTASKS_PER_NODE",
)


class Payload(NamedTuple):
    """What the loader holds in shared memory at the most; `prefetch` is batches per worker."""

    batch_bytes: int
    workers: int
    prefetch: int

    @property
    def total_bytes(self) -> int:
        """Every worker may have all its prefetched batches finished and waiting."""
        return self.batch_bytes * self.workers * self.prefetch


class SharedMemory(NamedTuple):
    """The file system that workers hand tensors over in."""

    size_bytes: int | None
    free_bytes: int | None


class Scheduler(NamedTuple):
    """Cores promised by a batch system, and the variable that says so."""

    cores: float
    variable: str
    is_per_task: bool  # one task's, rather than the job's on this node


class Allocation(NamedTuple):
    """Everything that bounds the cores of one rank."""

    affinity: int
    online: int
    quota: float | None
    scheduler: Scheduler | None
    ranks: int  # on this node
    tasks: int  # started by the batch system on this node
    mask_is_own: bool  # this rank's mask is narrower than that of the process that started it


def affinity(pid: int = 0) -> int | None:
    """CPUs that a process (0: this one) may run on; None when it is gone."""
    return len(_cpus(pid)) or None


def _cpus(pid: int) -> set[int]:
    """The CPUs themselves; none when the process is gone."""
    try:
        return os.sched_getaffinity(pid)
    except OSError:
        return set()


def scheduler_cores(environ: Mapping[str, str] = os.environ) -> Scheduler | None:
    """Cores that the batch system gave, or None outside of one.

    SLURM_CPUS_PER_TASK counts for one task, the others for the job on this node (NSLOTS and
    LSB_DJOB_NUMPROC for all its nodes). OMP_NUM_THREADS is no promise of cores, only a setting.
    """
    per_task = _count(environ, "SLURM_CPUS_PER_TASK")
    if per_task:
        return Scheduler(float(per_task), "SLURM_CPUS_PER_TASK", is_per_task=True)
    for variable in ("SLURM_CPUS_ON_NODE", "SLURM_JOB_CPUS_PER_NODE", "PBS_NCPUS", "NCPUS"):
        cores = _count(environ, variable)
        if cores:
            return Scheduler(float(cores), variable, is_per_task=False)
    slots = _count(environ, "NSLOTS")
    if slots:
        hosts = _count(environ, "NHOSTS") or 1
        return Scheduler(slots / hosts, "NSLOTS", is_per_task=False)
    processors = _count(environ, "LSB_DJOB_NUMPROC")
    if processors:
        # LSB_MCPU_HOSTS lists "host count host count ...".
        hosts = len(environ.get("LSB_MCPU_HOSTS", "").split()) // 2 or 1
        return Scheduler(processors / hosts, "LSB_DJOB_NUMPROC", is_per_task=False)
    return None


def ranks_on_node(environ: Mapping[str, str] = os.environ) -> int:
    """Training processes of this job on this node, as its launcher says (1 when none does)."""
    for variable in _RANK_VARIABLES:
        ranks = _count(environ, variable)
        if ranks:
            return ranks
    return 1


def allocation(
    group: ControlGroup,
    *,
    pid: int = 0,
    environ: Mapping[str, str] = os.environ,
) -> Allocation:
    """All bounds on the cores of process `pid` (0: this one)."""
    online = os.cpu_count() or 1
    tasks = next(
        (
            count
            for variable in ("SLURM_STEP_TASKS_PER_NODE", "SLURM_NTASKS_PER_NODE")
            if (count := _count(environ, variable))
        ),
        1,
    )
    return Allocation(
        affinity=affinity(pid) or online,
        online=online,
        quota=group.quota(),
        scheduler=scheduler_cores(environ),
        ranks=ranks_on_node(environ),
        tasks=tasks,
        mask_is_own=_mask_is_own(pid),
    )


def cores_owned(bounds: Allocation) -> float:
    """Cores this rank can count on: the smallest of mask, quota and batch system, per rank.

    A quota holds for all ranks in the group, so they share it. A mask is shared too, unless this
    rank was bound to its own; what a batch system gives one task is shared by the ranks that the
    task started.
    """
    shared = float(bounds.ranks)
    in_task = max(1.0, bounds.ranks / bounds.tasks)
    given = [bounds.affinity / (1.0 if bounds.mask_is_own else shared)]
    if bounds.quota is not None:
        given.append(bounds.quota / shared)
    if bounds.scheduler is not None:
        given.append(bounds.scheduler.cores / (in_task if bounds.scheduler.is_per_task else shared))
    return min(given)


def shared_memory(*, root: Path = _SHM, environ: Mapping[str, str] = os.environ) -> SharedMemory:
    """Size and free bytes of the shared-memory file system; STOKER_SHM_BYTES names the size."""
    size: int | None = None
    free: int | None = None
    try:
        counts = os.statvfs(root)
    except OSError:
        pass
    else:
        size, free = counts.f_blocks * counts.f_frsize, counts.f_bavail * counts.f_frsize
    named = _count(environ, SHM_VARIABLE)
    if named is None:
        return SharedMemory(size, free)
    used = size - free if size is not None and free is not None else 0
    return SharedMemory(named, max(0, named - used))


def available_memory(group: ControlGroup, *, proc: Path = _PROC) -> int | None:
    """Bytes that can still be used without swapping: the machine's, or less in a limited group."""
    rooms = []
    for line in _text(proc / "meminfo").splitlines():
        name, _, rest = line.partition(":")
        if name == "MemAvailable":
            rooms.append(int(rest.split()[0]) * 1024)
    memory = group.memory_limits()
    if memory.limit_bytes is not None:
        used = (memory.used_bytes or 0) - memory.reclaimable_bytes
        rooms.append(max(0, memory.limit_bytes - max(0, used)))
    return min(rooms, default=None)


def throttling_now(*, proc: Path = _PROC, environ: Mapping[str, str] = os.environ) -> Throttling:
    """The control group's counters at this moment, to hand to `host_facts` as `before` later."""
    return control_group(proc=proc, environ=environ).throttling()


def host_facts(
    *,
    worker_pids: Sequence[int] = (),
    payload: Payload | None = None,
    before: Throttling | None = None,
    proc: Path = _PROC,
    environ: Mapping[str, str] = os.environ,
) -> dict[str, float | int | str | None]:
    """The fields of `records.profile.HostTruth` for this process, as plain JSON values.

    `worker_pids` are living DataLoader workers: told is how many CPUs they may use together.
    Throttling counts from `before` on, or from the group's beginning without it; a directory named
    by STOKER_CGROUP_ROOT has counters that stand still, so there totals count in any case.
    """
    group = control_group(proc=proc, environ=environ)
    bounds = allocation(group, environ=environ)
    counts = group.throttling()
    if before is not None and not group.is_fixed:
        counts = Throttling(
            counts.periods - before.periods,
            counts.throttled_periods - before.throttled_periods,
            counts.throttled_s - before.throttled_s,
        )
    shm = shared_memory(environ=environ)
    reads = io_bytes(proc=proc)
    scheduler = bounds.scheduler
    return {
        "cores_owned": cores_owned(bounds),
        "affinity": bounds.affinity,
        "worker_affinity": len(set().union(*map(_cpus, worker_pids))) or None,
        "quota": bounds.quota,
        "scheduler": f"{scheduler.variable}={scheduler.cores:g}" if scheduler else None,
        "ranks": bounds.ranks,
        "cpus_online": bounds.online,
        "shm_bytes": shm.size_bytes,
        "shm_free_bytes": shm.free_bytes,
        "shm_needed_bytes": payload.total_bytes if payload else None,
        "memory_limit_bytes": group.memory_limits().limit_bytes,
        "memory_available_bytes": available_memory(group, proc=proc),
        "throttled_s": counts.throttled_s,
        "throttled_share": counts.share,
        "busy_of_owned": None,  # known only under leg R; the legs fill it in
        "read_bytes": reads.read_bytes if reads else None,
        "rchar_bytes": reads.rchar if reads else None,
    }


def _mask_is_own(pid: int) -> bool:
    """True when the parent may run on more CPUs: a launcher bound this process alone."""
    try:
        own = os.sched_getaffinity(pid)
        parent = os.sched_getaffinity(os.getppid() if pid == 0 else _parent(pid))
    except OSError:
        return False
    return own < parent


def _parent(pid: int) -> int:
    fields = _text(_PROC / str(pid) / "stat").rpartition(")")[2].split()
    return int(fields[1]) if len(fields) > 1 else 0


def _count(environ: Mapping[str, str], variable: str) -> int | None:
    """The leading number of a variable ("4(x2),3" is 4 on the first node), or None."""
    digits = ""
    for letter in environ.get(variable, "").strip():
        if not letter.isdigit():
            break
        digits += letter
    return int(digits) if digits else None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
