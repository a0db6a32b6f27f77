import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from stoker.probe.cgroup import ControlGroup, Throttling
from stoker.probe.host import (
    Allocation,
    Payload,
    Scheduler,
    affinity,
    allocation,
    available_memory,
    cores_owned,
    host_facts,
    ranks_on_node,
    scheduler_cores,
    shared_memory,
    throttling_now,
)
from stoker.records.profile import HostTruth


def bounds(**changes: object) -> Allocation:
    whole = Allocation(
        affinity=32,
        online=32,
        quota=None,
        scheduler=None,
        ranks=1,
        tasks=1,
        mask_is_own=False,
    )
    return whole._replace(**changes)  # type: ignore[arg-type]


def test_a_free_machine_belongs_to_the_job() -> None:
    assert cores_owned(bounds()) == 32


def test_the_smallest_bound_is_what_the_job_owns() -> None:
    promised = Scheduler(8.0, "SLURM_CPUS_PER_TASK", is_per_task=True)
    assert cores_owned(bounds(affinity=12, quota=4.0, scheduler=promised)) == 4
    assert cores_owned(bounds(affinity=12, quota=16.0, scheduler=promised)) == 8
    assert cores_owned(bounds(affinity=2, quota=16.0, scheduler=promised)) == 2


def test_ranks_share_a_quota_and_a_common_mask() -> None:
    assert cores_owned(bounds(affinity=16, quota=8.0, ranks=4)) == 2
    assert cores_owned(bounds(affinity=4, quota=None, ranks=4)) == 1


def test_a_mask_given_to_one_rank_alone_is_not_shared_again() -> None:
    assert cores_owned(bounds(affinity=8, ranks=4, mask_is_own=True)) == 8


def test_what_a_task_was_given_is_shared_by_the_ranks_it_started_only() -> None:
    given = Scheduler(8.0, "SLURM_CPUS_PER_TASK", is_per_task=True)
    four_tasks = bounds(scheduler=given, ranks=4, tasks=4)
    one_task = bounds(scheduler=given, ranks=4, tasks=1)
    assert cores_owned(four_tasks) == 8
    assert cores_owned(one_task) == 2


@pytest.mark.parametrize(
    ("environ", "cores", "variable"),
    [
        ({"SLURM_CPUS_PER_TASK": "6", "SLURM_CPUS_ON_NODE": "64"}, 6, "SLURM_CPUS_PER_TASK"),
        ({"SLURM_CPUS_ON_NODE": "16"}, 16, "SLURM_CPUS_ON_NODE"),
        ({"SLURM_JOB_CPUS_PER_NODE": "72(x2),36"}, 72, "SLURM_JOB_CPUS_PER_NODE"),
        ({"NCPUS": "4"}, 4, "NCPUS"),
        ({"NSLOTS": "8"}, 8, "NSLOTS"),
        ({"NSLOTS": "32", "NHOSTS": "4"}, 8, "NSLOTS"),
        (
            {"LSB_DJOB_NUMPROC": "12", "LSB_MCPU_HOSTS": "n1 6 n2 6"},
            6,
            "LSB_DJOB_NUMPROC",
        ),
    ],
)
def test_batch_systems_say_their_cores_in_their_own_variable(
    environ: dict[str, str], cores: float, variable: str
) -> None:
    found = scheduler_cores(environ)
    assert found is not None
    assert (found.cores, found.variable) == (cores, variable)


@pytest.mark.parametrize(
    "environ", [{}, {"OMP_NUM_THREADS": "4"}, {"SLURM_CPUS_PER_TASK": ""}, {"NSLOTS": "many"}]
)
def test_no_batch_system_means_no_promise(environ: dict[str, str]) -> None:
    assert scheduler_cores(environ) is None


@pytest.mark.parametrize(
    ("environ", "ranks"),
    [
        ({}, 1),
        ({"LOCAL_WORLD_SIZE": "4", "SLURM_NTASKS_PER_NODE": "1"}, 4),
        ({"OMPI_COMM_WORLD_LOCAL_SIZE": "8"}, 8),
        ({"MPI_LOCALNRANKS": "2"}, 2),
        ({"SLURM_NTASKS_PER_NODE": "3"}, 3),
        ({"SLURM_STEP_TASKS_PER_NODE": "2(x3)"}, 2),
        ({"LOCAL_WORLD_SIZE": "0"}, 1),
    ],
)
def test_ranks_are_what_the_launcher_says(environ: dict[str, str], ranks: int) -> None:
    assert ranks_on_node(environ) == ranks


def test_affinity_follows_the_mask_of_the_process() -> None:
    mask = os.sched_getaffinity(0)
    narrowed = {min(mask)}
    os.sched_setaffinity(0, narrowed)
    try:
        assert affinity() == 1
    finally:
        os.sched_setaffinity(0, mask)
    assert affinity() == len(mask)


def test_affinity_of_a_process_that_is_gone_is_unknown() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    assert affinity(child.pid) is None


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs to narrow a mask")
def test_a_mask_narrower_than_the_launchers_is_seen_as_this_ranks_own() -> None:
    child = (
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))});"
        "from stoker.probe.host import allocation; from stoker.probe.cgroup import ControlGroup;"
        "print(allocation(ControlGroup(), environ={'LOCAL_WORLD_SIZE': '2'}))"
    )
    out = subprocess.run([sys.executable, "-c", child], capture_output=True, text=True, check=True)
    assert "affinity=1" in out.stdout
    assert "mask_is_own=True" in out.stdout
    assert allocation(ControlGroup(), environ={}).affinity == len(os.sched_getaffinity(0))


def test_shared_memory_can_be_said_by_a_variable(tmp_path: Path) -> None:
    plain = shared_memory(root=tmp_path, environ={})
    named = shared_memory(root=tmp_path, environ={"STOKER_SHM_BYTES": "67108864"})
    assert plain.size_bytes is not None
    assert plain.free_bytes is not None
    assert named.size_bytes == 67_108_864
    assert named.free_bytes is not None
    assert named.free_bytes <= named.size_bytes


def test_shared_memory_that_is_not_mounted_has_no_size(tmp_path: Path) -> None:
    assert shared_memory(root=tmp_path / "none", environ={}) == (None, None)


def test_the_payload_is_all_batches_that_workers_may_hold_ready() -> None:
    assert Payload(batch_bytes=1000, workers=4, prefetch=2).total_bytes == 8000


def memory_group(root: Path, limit: int, used: int) -> ControlGroup:
    root.mkdir(exist_ok=True)
    (root / "memory.max").write_text(f"{limit}\n")
    (root / "memory.current").write_text(f"{used}\n")
    (root / "memory.stat").write_text("inactive_file 100\n")
    return ControlGroup(memory=(root,))


def test_available_memory_is_the_groups_room_when_that_is_less(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable: 8 kB\n")
    tight = memory_group(tmp_path / "tight", 1000, 600)
    roomy = memory_group(tmp_path / "roomy", 10**9, 0)
    assert available_memory(tight, proc=tmp_path) == 500
    assert available_memory(roomy, proc=tmp_path) == 8 * 1024
    assert available_memory(ControlGroup(), proc=tmp_path) == 8 * 1024


CONTAINER = {
    "cpu.max": "100000 100000\n",
    "cpu.stat": "nr_periods 4300\nnr_throttled 4085\nthrottled_usec 1270000000\n",
    "memory.max": "734003200\n",
    "memory.current": "520093696\n",
}


def test_facts_fill_the_record_and_are_plain_json(tmp_path: Path) -> None:
    for name, text in CONTAINER.items():
        (tmp_path / name).write_text(text)
    environ = {"STOKER_CGROUP_ROOT": str(tmp_path), "STOKER_SHM_BYTES": "67108864"}
    facts = host_facts(
        worker_pids=[os.getpid()],
        payload=Payload(12_000_000, 4, 2),
        before=Throttling(4300, 4085, 1270.0),
        environ=environ,
    )
    truth = msgspec.convert(json.loads(json.dumps(facts)), HostTruth)
    assert truth.cores_owned == 1.0
    assert truth.quota == 1.0
    # The directory's files stand still, so the totals count although `before` was given.
    assert truth.throttled_share == pytest.approx(0.95)
    assert truth.throttled_s == pytest.approx(1270)
    assert truth.shm_needed_bytes == 96_000_000
    assert truth.shm_bytes == 67_108_864
    assert truth.worker_affinity == truth.affinity
    assert truth.memory_limit_bytes == 734_003_200
    assert truth.memory_available_bytes == 734_003_200 - 520_093_696


def test_workers_may_use_together_what_each_of_them_may() -> None:
    cpus = sorted(os.sched_getaffinity(0))[:2]
    workers = [subprocess.Popen(["sleep", "60"]) for _ in range(3)]
    try:
        for number, worker in enumerate(workers):
            os.sched_setaffinity(worker.pid, {cpus[number % len(cpus)]})
        pids = [worker.pid for worker in workers]
        assert host_facts(worker_pids=pids)["worker_affinity"] == len(cpus)
        assert host_facts(worker_pids=pids[:1])["worker_affinity"] == 1
        assert host_facts(worker_pids=[])["worker_affinity"] is None
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()


def test_throttling_of_a_real_group_counts_from_the_first_reading(tmp_path: Path) -> None:
    proc, group = tmp_path / "proc", tmp_path / "cg"
    (proc / "self").mkdir(parents=True)
    group.mkdir()
    (proc / "self" / "mountinfo").write_text(f"30 24 0:26 / {group} rw - cgroup2 cgroup2 rw\n")
    (proc / "self" / "cgroup").write_text("0::/\n")
    (group / "cpu.max").write_text("100000 100000\n")
    stat = "nr_periods {}\nnr_throttled {}\nthrottled_usec {}\n"
    (group / "cpu.stat").write_text(stat.format(1000, 900, 50_000_000))
    before = throttling_now(proc=proc, environ={})
    (group / "cpu.stat").write_text(stat.format(1100, 925, 51_500_000))
    facts = host_facts(before=before, proc=proc, environ={})
    assert facts["throttled_share"] == pytest.approx(0.25)
    assert facts["throttled_s"] == pytest.approx(1.5)


def test_the_module_brings_only_the_standard_library_into_the_examined_process() -> None:
    code = (
        "import sys; before = set(sys.modules); import stoker.probe.host;"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before};"
        "print(sorted(new - set(sys.stdlib_module_names) - {'stoker'}))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
