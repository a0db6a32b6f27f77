"""Where a process spends its time and memory, read from /proc without privileges.

Standard library only: this module also runs inside the examined process and its workers.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from stoker import clocks

PROC = Path("/proc")
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


class ProcessTimes(NamedTuple):
    """Totals since the process (or thread) began, in seconds.

    `cpu_s` is time on a core, `runqueue_s` time it could have run but had to wait for one (None
    where the kernel does not count it); the rest of the wall time it was blocked.
    """

    cpu_s: float
    runqueue_s: float | None
    user_s: float
    system_s: float
    threads: int


class Switches(NamedTuple):
    """Context switches of all living threads: gave the core up (waiting), or had it taken."""

    voluntary: int
    involuntary: int


class IoBytes(NamedTuple):
    """`rchar` is what read calls returned, `read_bytes` what came from a block device for them."""

    rchar: int
    read_bytes: int


class CpuUse(NamedTuple):
    """What a set of processes did between two moments."""

    wall_s: float
    cpu_s: float
    runqueue_s: float | None
    processes: int
    lost: int  # gone before the second moment: their time is missing

    @property
    def cores(self) -> float:
        """Cores kept busy on average."""
        return self.cpu_s / self.wall_s if self.wall_s > 0 else 0.0

    @property
    def blocked_s(self) -> float | None:
        """Wall time of all processes together that was neither on a core nor waiting for one.

        Holds for processes with one running thread; None where run-queue wait is not counted.
        """
        if self.runqueue_s is None:
            return None
        return max(0.0, self.wall_s * self.processes - self.cpu_s - self.runqueue_s)


def process_times(pid: int, tid: int | None = None, *, proc: Path = PROC) -> ProcessTimes | None:
    """Times of a process, all its threads together, or of its thread `tid`; None when it is gone.

    /proc/PID/schedstat counts the main thread alone, so the living threads are summed; ended
    threads count in `cpu_s` (from the process' CPU clock) but no longer in `runqueue_s`.
    """
    folder = proc / str(pid) if tid is None else proc / str(pid) / "task" / str(tid)
    # The name of a program may hold blanks and brackets; the fields start after the last bracket.
    fields = _text(folder / "stat").rpartition(")")[2].split()
    if len(fields) < 18:
        return None
    user_s, system_s = int(fields[11]) * _TICK_S, int(fields[12]) * _TICK_S
    threads = _threads(folder) if tid is None else [folder]
    pairs = [pair for thread in threads if (pair := _schedstat(thread)) is not None]
    counted_s = sum(on_cpu for on_cpu, _ in pairs)
    clock_s = _cpu_clock_s(pid) if tid is None and proc == PROC else None
    # The ticks of `stat` are cut down to 10 ms; the sum of schedstat lacks ended threads.
    cpu_s = clock_s if clock_s is not None else max(counted_s, user_s + system_s)
    runqueue_s = sum(waited for _, waited in pairs) if pairs else None
    return ProcessTimes(cpu_s, runqueue_s, user_s, system_s, int(fields[17]))


def context_switches(pid: int, *, proc: Path = PROC) -> Switches | None:
    """Context switches of the living threads of a process; None when it is gone."""
    voluntary = involuntary = 0
    seen = False
    for thread in _threads(proc / str(pid)):
        counts = _status(thread / "status")
        if "voluntary_ctxt_switches" in counts:
            seen = True
            voluntary += counts["voluntary_ctxt_switches"]
            involuntary += counts.get("nonvoluntary_ctxt_switches", 0)
    return Switches(voluntary, involuntary) if seen else None


def io_bytes(pid: int | str = "self", *, proc: Path = PROC) -> IoBytes | None:
    """Bytes read by a process so far; None when it is gone or belongs to somebody else."""
    counts = _status(proc / str(pid) / "io")
    if "rchar" not in counts:
        return None
    return IoBytes(counts["rchar"], counts.get("read_bytes", 0))


def unique_memory(pid: int | str = "self", *, proc: Path = PROC) -> int | None:
    """Bytes that would be free if the process ended (unique set size); None when unreadable.

    Resident size counts pages shared with the parent by fork, so it cannot show their copying.
    """
    counts = _status(proc / str(pid) / "smaps_rollup")
    if "Private_Dirty" not in counts:
        return None
    private = sum(counts.get(f"Private_{kind}", 0) for kind in ("Clean", "Dirty", "Hugetlb"))
    return private * 1024


def anonymous_memory(pid: int | str = "self", *, proc: Path = PROC) -> int | None:
    """Bytes in memory that belong to no file, shared after a fork or not: objects, arrays."""
    size = _status(proc / str(pid) / "status").get("RssAnon")
    return None if size is None else size * 1024


def busy_s(*, proc: Path = PROC) -> float | None:
    """CPU-seconds that the whole machine has spent so far, its host's other guests included."""
    fields = _text(proc / "stat").partition("\n")[0].split()
    if len(fields) < 9 or fields[0] != "cpu":
        return None
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, fields[1:9])
    return (user + nice + system + irq + softirq + steal) * _TICK_S


class CpuMeter:
    """Reads the times of a set of processes, or threads, at two moments; gives the difference."""

    def __init__(
        self,
        pids: Iterable[int],
        *,
        threads: Iterable[int] = (),
        clock: Callable[[], float] = clocks.wall_s,
        proc: Path = PROC,
    ) -> None:
        """`threads`: of this process, by the kernel's numbers, to be read beside the processes."""
        self._tasks = {pid: (pid, None) for pid in pids} | {
            thread: (os.getpid(), thread) for thread in threads
        }
        self._clock = clock
        self._proc = proc
        self.start()

    def start(self) -> None:
        """Make now the first moment."""
        self._began_s = self._clock()
        self._before = self._read()

    def read(self) -> CpuUse:
        """The difference from the first moment to now; may be read again and again."""
        now = self._read()
        both = [(self._before[pid], now[pid]) for pid in self._before if pid in now]
        waits = [
            after.runqueue_s - before.runqueue_s
            for before, after in both
            if after.runqueue_s is not None and before.runqueue_s is not None
        ]
        return CpuUse(
            wall_s=self._clock() - self._began_s,
            cpu_s=sum(after.cpu_s - before.cpu_s for before, after in both),
            # A thread that ended takes its run-queue wait along; a sum can't run backwards.
            runqueue_s=sum(max(0.0, wait) for wait in waits) if waits else None,
            processes=len(both),
            lost=len(self._tasks) - len(both),
        )

    def _read(self) -> dict[int, ProcessTimes]:
        return {
            number: times
            for number, (pid, thread) in self._tasks.items()
            if (times := process_times(pid, thread, proc=self._proc)) is not None
        }


def _cpu_clock_s(pid: int) -> float | None:
    """The CPU clock of a process, to the nanosecond and with its ended threads.

    The clock's number is clock_getcpuclockid(3) spelled out: ~pid in the upper bits, then 2 for
    "time counted by the scheduler", of a process rather than of a thread.
    """
    try:
        return clocks.gettime((~pid << 3) | 2)
    except OSError:
        return None


def _threads(folder: Path) -> list[Path]:
    try:
        return list((folder / "task").iterdir())
    except OSError:
        return []


def _schedstat(folder: Path) -> tuple[float, float] | None:
    fields = _text(folder / "schedstat").split()
    if len(fields) < 2:
        return None
    return int(fields[0]) / 1e9, int(fields[1]) / 1e9


def _status(path: Path) -> dict[str, int]:
    """`name: number [unit]` lines of a /proc file."""
    found: dict[str, int] = {}
    for line in _text(path).splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        if words and words[0].isdigit():
            found[name] = int(words[0])
    return found


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError):
        return ""
