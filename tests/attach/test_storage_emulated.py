"""Leg Q against stores that really make their readers wait, over real files."""

import threading
import time
from pathlib import Path

import pytest

from stoker.probe.storage.evaluate import LegReads, evaluate_reads
from stoker.probe.storage.filesystem import mounted
from stoker.probe.storage.leg import OpenedFile, Plan, measure_reads
from stoker.probe.storage.reading import Files
from stoker.records.storage import StoreKind

READ_S = 0.004
KB = 1024


class Waiting(Files):
    """Real files behind `slots` that each serve one read of `READ_S` at a time."""

    def __init__(self, slots: int) -> None:
        self._slots = threading.Semaphore(slots)

    def read(self, handle: int, offset: int, buffer: memoryview) -> int:
        with self._slots:
            time.sleep(READ_S)
        return super().read(handle, offset, buffer)


class Narrow(Files):
    """Real files behind a link that carries 12.5 MB a second for all readers together."""

    def __init__(self) -> None:
        self._link = threading.Lock()

    def read(self, handle: int, offset: int, buffer: memoryview) -> int:
        with self._link:
            time.sleep(len(buffer) / 12.5e6)
        return super().read(handle, offset, buffer)


class Allowed(Files):
    """Real files on a drive that serves `free` reads freely and then 120 a second."""

    def __init__(self, free: int) -> None:
        self._free = free
        self._turn = 0.0
        self._lock = threading.Lock()

    def read(self, handle: int, offset: int, buffer: memoryview) -> int:
        with self._lock:
            self._free -= 1
            is_free = self._free >= 0
            self._turn = max(self._turn, time.perf_counter()) + (0 if is_free else 1 / 120)
            wait_s = self._turn - time.perf_counter()
        time.sleep(0.001 if is_free else max(0.0, wait_s))
        return super().read(handle, offset, buffer)


def measured(tmp_path: Path, store: Files) -> LegReads:
    if mounted(str(tmp_path)).never_cold:
        pytest.skip("the temporary folder is in memory, where nothing can be evicted")
    files = []
    for index in range(200):
        path = tmp_path / f"{index:03}"
        path.write_bytes(bytes(50 * KB))
        files.append(OpenedFile(str(path), 50 * KB))
    plan = Plan(seconds=2.5, most_bytes=200_000 * KB, readers=(1, 2, 4, 8))
    found = evaluate_reads(measure_reads(files, plan=plan, store=store))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("store", "kind"),
    [
        (Waiting(64), StoreKind.LATENCY),
        (Waiting(3), StoreKind.SLOTS),
        (Waiting(1), StoreKind.ONE_HEAD),
        (Narrow(), StoreKind.BANDWIDTH),
        (Allowed(free=150), StoreKind.THROTTLED),
    ],
    ids=["latency", "slots", "one-head", "bandwidth", "throttled"],
)
def test_a_store_that_waits_is_told_by_its_kind(
    tmp_path: Path, store: Files, kind: StoreKind
) -> None:
    found = measured(tmp_path, store)
    assert found.scaling is not None
    assert found.scaling.kind is kind, found.scaling


def test_latency_and_bandwidth_of_a_far_store_are_fitted(tmp_path: Path) -> None:
    class Far(Files):
        def read(self, handle: int, offset: int, buffer: memoryview) -> int:
            time.sleep(READ_S + len(buffer) / 10e6)
            return super().read(handle, offset, buffer)

    found = measured(tmp_path, Far())
    assert found.fit is not None
    assert found.fit.latency is not None
    assert found.fit.bytes_per_s is not None
    # A sleep overshoots by some 0.1 ms, more on a busy machine.
    assert READ_S * 0.9 < found.fit.latency.median < READ_S * 1.5
    assert 6e6 < found.fit.bytes_per_s.median < 13e6
    assert found.cost.cold_s is not None
    assert found.cost.cold_s.median == pytest.approx(READ_S + 50 * KB / 10e6, rel=0.4)
