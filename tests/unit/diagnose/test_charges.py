"""What fixes cost in bytes and minutes, from what the profile knows; else nothing is said."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stoker.diagnose.changes import cache_local, cache_ram, fits_in_memory, stored_once
from stoker.diagnose.charges import Charges
from stoker.diagnose.fixes import BY_CODE
from stoker.records.diagnosis import FixCode
from stoker.records.profile import MemoryGrowth, Profile, ReadCost
from stoker.records.scenario import Resource
from stoker.theory.pipeline import gain
from tests.unit.diagnose.profiles import case_of, profile


def starved(**loader: Any) -> Profile:
    """Two workers on two cores make a batch of 16 samples of 62.5 kB in 0.25 s."""
    given = profile(
        real=0.25, device=0.08, contended=0.08, drain=0.25, loader=0.25, cpu=0.48, wait=0.17
    )
    known = {"random_share": 0.25, "random_op": "crop", "sample_s": 0.03, "samples": 160_000}
    changed = msgspec.structs.replace(given.loader, **(known | loader))
    return msgspec.structs.replace(given, loader=changed)


def charged(code: FixCode, given: Profile) -> Charges:
    return BY_CODE[code].charge(case_of(given))


def test_a_pack_takes_the_finished_samples_of_disk_and_their_computing_of_time() -> None:
    found = charged(FixCode.PACK, starved())
    assert found.disk_bytes == 160_000 * 62_500
    assert found.minutes == pytest.approx(160_000 * 0.03 / 2 / 60)
    assert charged(FixCode.PACK, starved(samples=None)) == Charges()


def test_a_pack_is_as_large_as_samples_are_where_they_are_cut() -> None:
    """A quarter of the finished ones: uint8, of which each epoch makes floats."""
    cut = starved(packed_bytes=15_625.0)
    assert charged(FixCode.PACK, cut).disk_bytes == 160_000 * 15_625
    after = stored_once(case_of(cut))
    assert after is not None
    assert after.workload.stored_bytes == 15_625
    (known, reckoned, nothing) = (
        BY_CODE[FixCode.PACK].costs_for(case_of(given))
        for given in (cut, starved(), starved(samples=None))
    )
    assert known == nothing == "disk space, and one pass over the data"
    assert "reckoned by finished samples" in reckoned


def test_files_of_another_form_take_a_pass_at_the_loaders_pace() -> None:
    reads = ReadCost(files=9, bytes_per_read=20_000.0, cold_s=None, warm_s=None)
    found = charged(FixCode.SHARD, msgspec.structs.replace(starved(), reads=reads))
    assert found.disk_bytes == 160_000 * 20_000
    assert found.minutes == pytest.approx(160_000 / 16 * 0.25 / 60)
    copied = charged(FixCode.CACHE_LOCAL, msgspec.structs.replace(starved(), reads=reads))
    assert (copied.disk_bytes, copied.minutes) == (found.disk_bytes, None)


def test_workers_take_what_they_were_measured_to_hold_or_what_is_allowed_for() -> None:
    seen = MemoryGrowth(unique_bytes=60_000_000, bytes_per_batch=0.0, main_bytes=10**9, batches=9)
    grown = msgspec.structs.replace(starved(), memory=seen)
    ready = 2 * 1_000_000  # batches that lie ready for each
    kept = charged(FixCode.PERSISTENT_WORKERS, grown).memory_bytes
    assert kept == 2 * (30_000_000 + ready)
    unseen = charged(FixCode.PERSISTENT_WORKERS, starved()).memory_bytes
    assert unseen == 2 * (150_000_000 + ready)
    spawned = charged(FixCode.PERSISTENT_WORKERS, starved(start_method="spawn")).memory_bytes
    assert spawned == 2 * (400_000_000 + ready)


def test_a_deeper_queue_holds_three_times_as_many_batches_more() -> None:
    found = charged(FixCode.PREFETCH_DEPTH, starved(prefetch_factor=3))
    assert found.memory_bytes == 2 * (12 - 3) * 1_000_000


def test_a_cache_takes_all_samples_and_is_one_for_all_workers() -> None:
    """Samples of 3.1 GB in 8 GB: each of two workers could not have them for itself."""
    small = starved(samples=50_000)
    assert fits_in_memory(case_of(small))
    assert cache_ram(case_of(small)) is not None
    assert charged(FixCode.CACHE_RAM, small).memory_bytes == pytest.approx(1.15 * 3.125e9, rel=0.01)
    assert not fits_in_memory(case_of(starved(samples=70_000)))


def test_a_pack_reads_its_own_bytes_from_a_store_whose_rate_is_known() -> None:
    """62.5 kB at 4 MB/s in place of 20 kB: 10.6 ms more for a sample than there is for one."""
    case = case_of(starved(samples=10**8))
    reads = ReadCost(files=9, bytes_per_read=20_000.0, cold_s=None, warm_s=None, bytes_per_s=4e6)
    slow = case_of(msgspec.structs.replace(starved(samples=10**8), reads=reads))
    free, paid = stored_once(case), stored_once(slow)
    assert free is not None and paid is not None
    assert free.workload.stored_bytes == paid.workload.stored_bytes == 62_500
    waits = [cost for cost in paid.workload.stages if cost.resource is Resource.STORAGE]
    assert waits[-1].per_sample.median == pytest.approx(42_500 / 4e6, rel=0.01)
    assert gain(case.scenario, free).median > 1.2 * gain(slow.scenario, paid).median


def test_a_pack_that_fits_into_memory_is_read_from_there() -> None:
    reads = ReadCost(files=9, bytes_per_read=20_000.0, cold_s=None, warm_s=None, bytes_per_s=4e6)
    case = case_of(msgspec.structs.replace(starved(samples=1000), reads=reads))
    after = stored_once(case)
    assert after is not None
    assert "read (pack)" not in {cost.stage for cost in after.workload.stages}


def test_a_local_disk_is_charged_for_its_bytes_and_never_slower_than_now() -> None:
    given = profile(
        real=0.25, device=0.08, contended=0.08, drain=0.25, loader=0.25, cpu=0.05, wait=0.17
    )
    (wait,) = [
        cost.per_sample.median
        for cost in _local(given).workload.stages
        if cost.resource is Resource.STORAGE
    ]
    assert wait == pytest.approx(1e-4 + 62_500 / 5e8)
    huge = msgspec.structs.replace(given.loader, batch_bytes=16 * 10**9)
    same = _local(msgspec.structs.replace(given, loader=huge))
    before = case_of(given).scenario
    assert gain(before, same).median == pytest.approx(1.0, abs=0.01)


def _local(given: Profile) -> Any:
    after = cache_local(case_of(given))
    assert after is not None
    return after
