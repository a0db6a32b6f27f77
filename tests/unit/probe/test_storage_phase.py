import mmap
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.probe.process import IoBytes
from stoker.probe.storage import phase as phase_module
from stoker.probe.storage.filesystem import mounted
from stoker.probe.storage.phase import COLD, WARM, Bounds, Phase, Reads, Supply
from stoker.probe.storage.reading import Request

KB = 1024
AMPLE = Bounds(10.0, 10**9, most_accesses=40)


@pytest.fixture
def files(tmp_path: Path) -> Iterator[list[str]]:
    """Forty files of 40 KB on a disk."""
    if mounted(str(tmp_path)).never_cold:
        pytest.skip("the temporary folder is in memory, where nothing can be evicted")
    paths = []
    for index in range(40):
        path = tmp_path / f"{index:02}"
        path.write_bytes(os.urandom(40 * KB))
        paths.append(str(path))
    yield paths


def supply_of(paths: list[str]) -> Supply:
    return Supply([Request(path, 0, 40 * KB) for path in paths])


def served(phase: Phase | None) -> int:
    assert phase is not None
    return sum(len(burst.accesses) for burst in phase.bursts)


def test_a_supply_gives_every_request_before_one_again() -> None:
    supply = Supply([Request(str(index), 0, 1) for index in range(10)])
    taken = [request.path for _ in range(2) for request in supply.take(5)]
    assert sorted(taken) == sorted(map(str, range(10)))
    assert not supply.was_reused
    supply.take(3)
    supply.take(8)
    assert supply.was_reused


def test_what_is_taken_at_once_is_all_different() -> None:
    supply = Supply([Request(str(index), 0, 1) for index in range(10)])
    supply.take(7)
    assert len({request.path for request in supply.take(10)}) == 10
    assert len(supply.take(99)) == 10


def test_a_supply_in_order_is_not_shuffled() -> None:
    requests = [Request("f", index, 1) for index in range(50)]
    assert Supply(requests, in_order=True).take(50) == requests
    assert Supply(requests).take(50) != requests


def test_parts_are_a_quarter_of_the_mean_and_never_less_than_a_page() -> None:
    mixed = Supply([Request("large", 0, 60 * KB), Request("small", 0, 20 * KB)])
    parts = mixed.parts().requests
    assert {request.length for request in parts} == {10 * KB}
    assert {request.path for request in parts} == {"large", "small"}
    assert not len(Supply([Request("tiny", 0, 8 * KB)]).parts())


def test_cold_reads_are_evicted_before_and_warm_ones_are_not(files: list[str]) -> None:
    reads = Reads(AMPLE)
    cold = reads.run("whole", supply_of(files), bounds=AMPLE)
    warm = reads.run("whole", supply_of(files), temperature=WARM, bounds=AMPLE)
    assert cold is not None
    assert warm is not None
    assert cold.cached_share == 0.0
    assert warm.cached_share == 1.0
    assert reads.never_cold is None


def test_files_that_were_just_written_are_flushed_to_be_evicted(tmp_path: Path) -> None:
    if mounted(str(tmp_path)).never_cold:
        pytest.skip("the temporary folder is in memory, where nothing can be evicted")
    path = tmp_path / "dirty"
    path.write_bytes(os.urandom(400 * KB))
    reads = Reads(AMPLE)
    phase = reads.run("whole", Supply([Request(str(path), 0, 400 * KB)]), bounds=AMPLE)
    assert phase is not None
    assert phase.cached_share == 0.0


def test_bytes_are_bounded(files: list[str]) -> None:
    reads = Reads(AMPLE)
    phase = reads.run("whole", supply_of(files), bounds=Bounds(10.0, 10 * 40 * KB))
    assert 1 <= served(phase) <= 10
    assert reads.bytes_read <= 10 * 40 * KB


def test_common_bounds_hold_over_all_phases(files: list[str]) -> None:
    reads = Reads(Bounds(10.0, 15 * 40 * KB))
    for _ in range(5):
        reads.run("whole", supply_of(files), bounds=AMPLE)
    assert reads.bytes_read <= 15 * 40 * KB
    assert reads.run("whole", supply_of(files), bounds=AMPLE) is None


def test_reads_whose_pages_stay_are_left_out(files: list[str]) -> None:
    with Path(files[0]).open("rb") as reader:
        held = mmap.mmap(reader.fileno(), 0, prot=mmap.PROT_READ)
        assert sum(held[index] for index in range(0, len(held), 4096)) > 0
        reads = Reads(AMPLE)
        phase = reads.run("whole", supply_of(files), bounds=AMPLE)
        held.close()
    assert served(phase) >= 39
    assert phase is not None
    assert phase.cached_share == 0.0
    assert reads.stuck >= 1
    assert reads.never_cold is None


def test_when_all_pages_stay_no_number_is_given_and_the_reason_is(files: list[str]) -> None:
    with Path(files[0]).open("rb") as reader:
        held = mmap.mmap(reader.fileno(), 0, prot=mmap.PROT_READ)
        assert sum(held[index] for index in range(0, len(held), 4096)) > 0
        reads = Reads(AMPLE)
        phase = reads.run("whole", supply_of(files[:1]), bounds=AMPLE)
        held.close()
    assert phase is None
    assert reads.never_cold is not None
    assert "stayed in the page cache" in reads.never_cold


def test_a_store_that_is_never_cold_is_read_warm_only(files: list[str]) -> None:
    reads = Reads(AMPLE, never_cold="it is in memory")
    assert reads.run("whole", supply_of(files), bounds=AMPLE) is None
    assert served(reads.run("whole", supply_of(files), temperature=WARM, bounds=AMPLE)) >= 40
    assert reads.never_cold == "it is in memory"


@pytest.mark.parametrize(("fetched_share", "is_cold"), [(1.0, True), (1.3, True), (0.4, False)])
def test_pages_that_are_not_shown_count_as_cold_only_if_the_device_was_read(
    files: list[str], monkeypatch: pytest.MonkeyPatch, fetched_share: float, is_cold: bool
) -> None:
    fetched = [0.0]

    def device_bytes() -> IoBytes:
        """Before a burst, after it, before the next one, …: 40 files in one burst."""
        now = int(fetched[0])
        fetched[0] += fetched_share * 3 * 40 * KB
        return IoBytes(rchar=0, read_bytes=now)

    monkeypatch.setattr(phase_module, "cached_share", lambda *_: None)
    monkeypatch.setattr(phase_module, "io_bytes", device_bytes)
    reads = Reads(AMPLE)
    phase = reads.run("whole", supply_of(files), bounds=AMPLE._replace(most_accesses=1))
    assert (phase is not None) is is_cold
    assert (reads.never_cold is None) is is_cold
    if phase is not None:
        assert phase.cached_share is None
        assert phase.temperature == COLD


def test_pages_and_device_both_hidden_give_no_cold_number(
    files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(phase_module, "cached_share", lambda *_: None)
    monkeypatch.setattr(phase_module, "io_bytes", lambda: None)
    reads = Reads(AMPLE)
    assert reads.run("whole", supply_of(files), bounds=AMPLE) is None
    assert reads.never_cold is not None
    assert "somebody else" in reads.never_cold
