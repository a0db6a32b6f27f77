import os
import threading
import time
from pathlib import Path

import pytest

from stoker.probe.process import (
    CpuMeter,
    context_switches,
    io_bytes,
    process_times,
    unique_memory,
)

TICKS = os.sysconf("SC_CLK_TCK")


def write_process(
    proc: Path,
    pid: int,
    *,
    user_s: float = 0.0,
    system_s: float = 0.0,
    threads: dict[int, tuple[float, float]],
) -> None:
    """A process whose name holds blanks and brackets; `threads`: tid -> (on CPU, waiting) s."""
    fields = ["S", "1", *["0"] * 9, str(round(user_s * TICKS)), str(round(system_s * TICKS))]
    fields += ["0", "0", "20", "0", str(len(threads)), "0", "0"]
    text = f"{pid} (python (w) 1) {' '.join(fields)}\n"
    for folder in (proc / str(pid), *(proc / str(pid) / "task" / str(tid) for tid in threads)):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "stat").write_text(text)
    for tid, (on_cpu, waiting) in threads.items():
        folder = proc / str(pid) / "task" / str(tid)
        (folder / "schedstat").write_text(f"{on_cpu * 1e9:.0f} {waiting * 1e9:.0f} 7\n")
        (folder / "status").write_text(
            "Name:\tx\nvoluntary_ctxt_switches:\t3\nnonvoluntary_ctxt_switches:\t2\n"
        )


def test_times_of_all_threads_are_added(tmp_path: Path) -> None:
    write_process(tmp_path, 7, user_s=1.0, system_s=0.5, threads={7: (1.0, 0.2), 8: (0.6, 0.3)})
    times = process_times(7, proc=tmp_path)
    assert times is not None
    assert times.cpu_s == pytest.approx(1.6)
    assert times.runqueue_s == pytest.approx(0.5)
    assert (times.user_s, times.system_s, times.threads) == (1.0, 0.5, 2)


def test_time_of_ended_threads_still_counts(tmp_path: Path) -> None:
    write_process(tmp_path, 7, user_s=4.0, system_s=0.5, threads={7: (1.0, 0.2)})
    times = process_times(7, proc=tmp_path)
    assert times is not None
    assert times.cpu_s == pytest.approx(4.5)


def test_one_thread_is_read_alone(tmp_path: Path) -> None:
    write_process(tmp_path, 7, threads={7: (1.0, 0.2), 8: (0.25, 0.125)})
    times = process_times(7, 8, proc=tmp_path)
    assert times is not None
    assert (times.cpu_s, times.runqueue_s) == (0.25, 0.125)


def test_a_kernel_without_schedstat_leaves_run_queue_wait_unknown(tmp_path: Path) -> None:
    write_process(tmp_path, 7, user_s=2.0, threads={7: (1.0, 0.2)})
    (tmp_path / "7" / "task" / "7" / "schedstat").unlink()
    times = process_times(7, proc=tmp_path)
    assert times is not None
    assert times.cpu_s == pytest.approx(2.0)
    assert times.runqueue_s is None


def test_a_process_that_is_gone_has_no_times(tmp_path: Path) -> None:
    assert process_times(7, proc=tmp_path) is None
    assert context_switches(7, proc=tmp_path) is None
    assert io_bytes(7, proc=tmp_path) is None
    assert unique_memory(7, proc=tmp_path) is None


def test_switches_of_all_threads_are_added(tmp_path: Path) -> None:
    write_process(tmp_path, 7, threads={7: (1.0, 0.2), 8: (0.6, 0.3)})
    assert context_switches(7, proc=tmp_path) == (6, 4)


def test_unique_memory_is_what_only_this_process_holds(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "smaps_rollup").write_text(
        "1-2 ---p 00000000 00:00 0 [rollup]\nRss: 900 kB\nShared_Clean: 700 kB\n"
        "Private_Clean: 40 kB\nPrivate_Dirty: 60 kB\nPrivate_Hugetlb: 0 kB\n"
    )
    assert unique_memory(7, proc=tmp_path) == 100 * 1024


def test_the_meter_splits_wall_time_into_cpu_waiting_for_a_core_and_blocked(
    tmp_path: Path,
) -> None:
    now = [100.0]
    write_process(tmp_path, 7, threads={7: (1.0, 0.2)})
    write_process(tmp_path, 8, threads={8: (5.0, 0.0)})
    meter = CpuMeter((7, 8), clock=lambda: now[0], proc=tmp_path)
    now[0] = 102.0
    write_process(tmp_path, 7, threads={7: (2.5, 0.6)})
    write_process(tmp_path, 8, threads={8: (5.5, 0.1)})
    use = meter.read()
    assert use.wall_s == 2.0
    assert use.cpu_s == pytest.approx(2.0)
    assert use.cores == pytest.approx(1.0)
    assert use.runqueue_s == pytest.approx(0.5)
    assert use.blocked_s == pytest.approx(2 * 2.0 - 2.0 - 0.5)
    assert (use.processes, use.lost) == (2, 0)


def test_the_meter_says_how_many_processes_ended_meanwhile(tmp_path: Path) -> None:
    write_process(tmp_path, 7, threads={7: (1.0, 0.2)})
    meter = CpuMeter((7, 9), proc=tmp_path)
    write_process(tmp_path, 7, threads={7: (1.5, 0.2)})
    use = meter.read()
    assert use.cpu_s == pytest.approx(0.5)
    assert (use.processes, use.lost) == (1, 1)


def test_this_process_is_on_cpu_as_long_as_its_own_clock_says() -> None:
    meter = CpuMeter([os.getpid()])
    began = time.process_time()
    while time.process_time() - began < 0.05:
        pass
    used = meter.read().cpu_s
    assert 0.05 <= used < 0.2  # reading /proc itself costs well below a millisecond


def test_an_ended_threads_cpu_time_is_in_this_process_clock() -> None:
    meter = CpuMeter([os.getpid()])

    def work() -> None:
        end = time.thread_time() + 0.05
        while time.thread_time() < end:
            pass

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert meter.read().cpu_s >= 0.05


def test_bytes_read_by_this_process_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(bytes(300_000))
    before = io_bytes()
    path.read_bytes()
    after = io_bytes()
    assert before is not None
    assert after is not None
    assert after.rchar - before.rchar >= 300_000
