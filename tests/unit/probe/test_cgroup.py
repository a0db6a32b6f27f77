from pathlib import Path

import pytest

from stoker.probe.cgroup import ControlGroup, Throttling, control_group, read_mounts


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def machine(tmp_path: Path, *, mounts: str, membership: str) -> Path:
    """A /proc with one process; the text `@` stands for the folder that the hierarchies are in."""
    proc = tmp_path / "proc"
    write(proc, {"self/mountinfo": mounts.replace("@", str(tmp_path)), "self/cgroup": membership})
    return proc


V2 = "30 24 0:26 / @/cg rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"


def test_the_smallest_quota_of_the_group_and_its_ancestors_wins(tmp_path: Path) -> None:
    proc = machine(tmp_path, mounts=V2, membership="0::/pod/job/step\n")
    write(
        tmp_path / "cg",
        {
            "pod/cpu.max": "150000 100000\n",
            "pod/job/cpu.max": "max 100000\n",
            "pod/job/step/cpu.max": "800000 100000\n",
        },
    )
    assert control_group(proc=proc, environ={}).quota() == 1.5


def test_a_group_without_any_limit_has_no_quota(tmp_path: Path) -> None:
    proc = machine(tmp_path, mounts=V2, membership="0::/a\n")
    write(tmp_path / "cg", {"a/cpu.max": "max 100000\n"})
    group = control_group(proc=proc, environ={})
    assert group.quota() is None
    assert group.memory_limits().limit_bytes is None


def test_a_hybrid_machine_is_read_from_the_hierarchy_that_holds_the_controller(
    tmp_path: Path,
) -> None:
    proc = machine(
        tmp_path,
        mounts=(
            "32 31 0:29 / @/cg/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
            "35 31 0:32 / @/cg/memory rw - cgroup cgroup rw,memory\n"
            "41 31 0:38 / @/cg/unified rw - cgroup2 cgroup2 rw\n"
        ),
        membership="4:memory:/box\n1:cpu,cpuacct:/box/inner\n0::/\n",
    )
    write(
        tmp_path / "cg",
        {
            "cpu/box/cpu.cfs_quota_us": "250000\n",
            "cpu/box/cpu.cfs_period_us": "100000\n",
            "cpu/box/cpu.stat": "nr_periods 10\nnr_throttled 4\nthrottled_time 3000000000\n",
            "cpu/box/inner/cpu.cfs_quota_us": "-1\n",
            "cpu/box/inner/cpu.cfs_period_us": "100000\n",
            "cpu/box/inner/cpu.stat": "nr_periods 0\nnr_throttled 0\nthrottled_time 0\n",
            "memory/box/memory.limit_in_bytes": "1000000\n",
            "memory/box/memory.usage_in_bytes": "400000\n",
            "memory/memory.limit_in_bytes": "9223372036854771712\n",
            "unified/cpu.stat": "usage_usec 5\n",
        },
    )
    group = control_group(proc=proc, environ={})
    assert group.quota() == 2.5
    # The inner group was never stopped by itself: its ancestor's quota did it.
    assert group.throttling() == Throttling(10, 4, 3.0)
    assert group.memory_limits()[:2] == (1_000_000, 400_000)


@pytest.mark.parametrize(
    ("root", "path"),
    [
        ("/docker/abc", "/docker/abc"),  # the mount shows only the container's own tree
        ("/docker/abc", "/elsewhere"),  # the membership was written by another namespace
        ("/", "/../../docker/abc"),  # a group above the namespace's own root
    ],
)
def test_in_a_container_the_group_is_found_where_it_is_mounted(
    tmp_path: Path, root: str, path: str
) -> None:
    proc = machine(
        tmp_path,
        mounts=f"30 24 0:26 {root} @/cg rw - cgroup2 cgroup rw\n",
        membership=f"0::{path}\n",
    )
    write(tmp_path / "cg", {"cpu.max": "50000 100000\n"})
    assert control_group(proc=proc, environ={}).quota() == 0.5


def test_a_named_directory_is_the_jobs_own_group_and_its_counters_stand_still(
    tmp_path: Path,
) -> None:
    write(
        tmp_path,
        {
            "cpu.max": "100000 100000\n",
            "cpu.stat": "nr_periods 4300\nnr_throttled 4085\nthrottled_usec 1270000000\n",
            "memory.max": "734003200\n",
            "memory.current": "520093696\n",
            "memory.swap.max": "0\n",
        },
    )
    group = control_group(proc=tmp_path / "nothing", environ={"STOKER_CGROUP_ROOT": str(tmp_path)})
    assert group.is_fixed
    assert group.quota() == 1.0
    assert group.throttling().share == pytest.approx(0.95)
    assert group.throttling().throttled_s == pytest.approx(1270)
    memory = group.memory_limits()
    assert (memory.limit_bytes, memory.used_bytes, memory.swap_limit_bytes) == (
        734_003_200,
        520_093_696,
        0,
    )


def test_memory_is_the_ancestor_with_the_least_room(tmp_path: Path) -> None:
    proc = machine(tmp_path, mounts=V2, membership="0::/a/b\n")
    write(
        tmp_path / "cg",
        {
            "a/memory.max": "1000\n",
            "a/memory.current": "900\n",
            "a/memory.stat": "anon 1\ninactive_file 300\n",
            "a/b/memory.max": "800\n",
            "a/b/memory.current": "100\n",
        },
    )
    memory = control_group(proc=proc, environ={}).memory_limits()
    assert (memory.limit_bytes, memory.reclaimable_bytes) == (1000, 300)


@pytest.mark.parametrize("text", ["", "max", "100000 0", "rubbish 100000", "-1 100000"])
def test_a_quota_that_cannot_be_read_counts_as_none(tmp_path: Path, text: str) -> None:
    write(tmp_path, {"cpu.max": text})
    assert ControlGroup((tmp_path,)).quota() is None


def test_a_system_without_control_groups_has_an_empty_one(tmp_path: Path) -> None:
    group = control_group(proc=tmp_path, environ={})
    assert group == ControlGroup()
    assert group.quota() is None
    assert group.throttling() == Throttling()
    assert group.memory_limits().limit_bytes is None


def test_blanks_in_mount_points_are_unescaped(tmp_path: Path) -> None:
    proc = machine(
        tmp_path,
        mounts="40 24 0:50 / /mnt/my\\040data rw shared:1 - nfs4 server:/x rw,vers=4.2\n",
        membership="",
    )
    (mount,) = read_mounts(proc=proc)
    assert (mount.point, mount.kind, mount.source) == ("/mnt/my data", "nfs4", "server:/x")
