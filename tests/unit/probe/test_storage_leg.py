import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.probe.storage.evaluate import LegReads, evaluate_reads
from stoker.probe.storage.filesystem import mounted
from stoker.probe.storage.leg import OpenedFile, Plan, measure_reads
from stoker.probe.storage.residency import evict

KB = 1024
SHORT = Plan(seconds=0.5, most_bytes=40_000 * KB, readers=(1, 2, 4))


@pytest.fixture
def files(tmp_path: Path) -> Iterator[list[OpenedFile]]:
    """A hundred files of 80 to 120 KB on a disk."""
    if mounted(str(tmp_path)).never_cold:
        pytest.skip("the temporary folder is in memory, where nothing can be evicted")
    found = []
    for index in range(100):
        path = tmp_path / f"{index:03}.jpg"
        path.write_bytes(os.urandom(80 * KB + index * 410))
        found.append(OpenedFile(str(path), path.stat().st_size))
    yield found


def evaluated(raw: dict[str, object]) -> LegReads:
    """After the way through JSON, as from the examined process."""
    found = evaluate_reads(json.loads(json.dumps(raw)))
    assert found is not None
    return found


def test_cold_reads_of_real_files_cost_more_than_warm_ones(files: list[OpenedFile]) -> None:
    found = evaluated(measure_reads(files, plan=SHORT))
    assert found.never_cold is None
    assert found.cost.files == 100
    assert found.cost.bytes_per_read == pytest.approx(100_000, rel=0.05)
    assert found.cost.cold_s is not None
    assert found.cost.warm_s is not None
    # 100 KB from memory take some 15 µs, from any disk there is at least four times that.
    assert found.cost.cold_s.median > 1.5 * found.cost.warm_s.median
    assert found.cost.open_s is not None
    assert 0 < found.cost.open_s < found.cost.cold_s.median
    assert found.scaling is not None
    assert {point.readers for point in found.points} == {1, 2, 4}


def test_the_residency_told_is_that_before_anything_was_read(files: list[OpenedFile]) -> None:
    # All pages were just written, and are still cached.
    assert measure_reads(files, plan=SHORT)["resident_share"] == pytest.approx(1.0, abs=0.05)


def test_bytes_and_time_are_bounded(files: list[OpenedFile]) -> None:
    plan = Plan(seconds=5.0, most_bytes=3_000 * KB, readers=(1, 2))
    raw = measure_reads(files, plan=plan)
    assert raw["bytes_read"] <= plan.most_bytes
    assert raw["seconds"] < 5.0


def test_nothing_is_written_and_no_file_changes(files: list[OpenedFile], tmp_path: Path) -> None:
    def state() -> dict[str, tuple[int, int]]:
        return {
            path.name: (path.stat().st_mtime_ns, path.stat().st_size) for path in tmp_path.iterdir()
        }

    before = state()
    measure_reads(files, plan=SHORT)
    assert state() == before


def test_files_that_are_gone_or_no_files_are_told(files: list[OpenedFile], tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    others = [OpenedFile(str(tmp_path / "gone"), 5), OpenedFile(str(tmp_path / "empty"), 5)]
    raw = measure_reads([*files[:20], *others, OpenedFile(str(tmp_path), 5)], plan=SHORT)
    assert raw["files"] == 20
    assert "1 files are gone or not readable" in raw["skipped"]
    assert "2 are empty or no plain files" in raw["skipped"]


def test_no_files_at_all_give_no_numbers() -> None:
    raw = measure_reads([OpenedFile("/nowhere/at/all", 5)])
    assert raw["phases"] == []
    assert evaluate_reads(raw) is None


def test_a_container_is_read_at_the_places_that_were_read(tmp_path: Path) -> None:
    path = tmp_path / "shard.tar"
    path.write_bytes(os.urandom(4_000 * KB))
    offsets = tuple(range(0, 4_000 * KB, 200 * KB))
    file = OpenedFile(str(path), 4_000 * KB, offsets=offsets, read_bytes=50 * KB)
    raw = measure_reads([file], plan=SHORT)
    assert raw["bytes_per_read"] == 50 * KB


def test_files_in_memory_have_no_cold_cost() -> None:
    folder = Path("/dev/shm")
    if not mounted(str(folder)).is_memory or not os.access(folder, os.W_OK):
        pytest.skip("/dev/shm is no memory that can be written to")
    path = folder / f"stoker-test-{os.getpid()}"
    try:
        path.write_bytes(os.urandom(100 * KB))
        found = evaluated(measure_reads([OpenedFile(str(path), 100 * KB)], plan=SHORT))
    finally:
        path.unlink()
    assert found.never_cold is not None
    assert found.cost.cold_s is None
    assert found.cost.warm_s is not None
    assert found.scaling is None


def test_nothing_is_read_where_nothing_waits_and_all_is_in_memory(files: list[OpenedFile]) -> None:
    idle = measure_reads(files, plan=SHORT, waiting_share=0.01)
    assert (idle["phases"], idle["bytes_read"]) == ([], 0)
    found = evaluated(idle)
    assert (found.cost.files, found.cost.cold_s, found.cost.warm_s) == (100, None, None)
    assert measure_reads(files, plan=SHORT, waiting_share=0.3)["phases"]


def test_files_that_are_not_in_memory_are_read_though_nothing_waits_yet(
    files: list[OpenedFile],
) -> None:
    for file in files:
        evict(file.path, 0, file.size, flush=True)
    assert measure_reads(files, plan=SHORT, waiting_share=0.01)["phases"]
