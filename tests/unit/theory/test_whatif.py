"""What each change takes away and what it charges, all through the one closed form."""

from __future__ import annotations

import msgspec
import pytest

from stoker.records.scenario import Machine, Resource
from stoker.stats import Spread
from stoker.theory import whatif
from stoker.theory.pipeline import forecast, gain
from tests.unit.theory.scenarios import exact, starved, waiting


def stages(scenario: object) -> dict[str, float]:
    return {cost.stage: cost.per_sample.median for cost in scenario.workload.stages}  # type: ignore[attr-defined]


def test_packing_removes_what_repeats_and_reads_more_bytes() -> None:
    before = starved(stored_bytes=1e5)
    after = whatif.pack(before, stored_bytes=2e5)
    # Reading a sample back costs a twentieth of what it saves.
    assert stages(after) == {"decode": pytest.approx(0.0005), "flip": 0.002}
    assert after.workload.stored_bytes == 2e5
    assert gain(before, after).median == pytest.approx(0.030 / 0.010)


def test_packing_on_a_slow_store_can_lose() -> None:
    disk = Machine(cores=4, storage_bytes_per_s=5e7)
    before = msgspec.structs.replace(starved(stored_bytes=1e5), machine=disk)
    after = whatif.pack(before, stored_bytes=1e6)
    assert gain(before, after).median < 1
    assert forecast(after).limit is Resource.STORAGE


def test_packing_ends_the_latency_of_small_reads() -> None:
    disk = Machine(cores=4, storage_bytes_per_s=1e9)
    before = msgspec.structs.replace(starved(stored_bytes=1e5), machine=disk)
    work = msgspec.structs.replace(
        before.workload, stages=(*before.workload.stages, waiting(0.030))
    )
    after = whatif.pack(msgspec.structs.replace(before, workload=work), stored_bytes=2e5)
    assert stages(after)["read"] == pytest.approx(2e5 / 1e9)


def test_a_pack_is_read_once_for_a_sample_however_many_stages_waited_before() -> None:
    disk = Machine(cores=4, storage_bytes_per_s=1e7)
    before = msgspec.structs.replace(starved(stored_bytes=1e5), machine=disk)
    waits = (waiting(0.010, "open"), waiting(0.020, "read"))
    work = msgspec.structs.replace(before.workload, stages=(*before.workload.stages, *waits))
    after = whatif.pack(msgspec.structs.replace(before, workload=work), stored_bytes=2e5)
    assert [
        cost.per_sample.median
        for cost in after.workload.stages
        if cost.resource is Resource.STORAGE
    ] == [pytest.approx(0.02)]


def test_a_batch_of_unknown_type_stays_as_large_when_the_device_augments() -> None:
    before = starved(sample_bytes=4e5, transfer_s=Spread.exact(0.004))
    after = whatif.device_augment(before, payload=1.0)
    assert after.workload.transfer_s == before.workload.transfer_s
    assert after.workload.device_s.median == pytest.approx(0.010 + 10 * 0.002 / 20)


def test_augmenting_on_the_device_lengthens_the_step_and_shrinks_the_payload() -> None:
    before = starved(sample_bytes=4e5, transfer_s=Spread.exact(0.004))
    after = whatif.device_augment(before)
    assert stages(after) == {"decode": 0.010}
    assert after.workload.device_s.median == pytest.approx(0.010 + 10 * 0.002 / 20)
    assert after.workload.transfer_s.median == pytest.approx(0.001)
    assert after.workload.sample_bytes == 1e5


def test_dali_leaves_work_to_the_cpu() -> None:
    after = whatif.dali(starved())
    assert stages(after) == {"dali": pytest.approx(104 / 57_280)}
    device = after.workload.device_s
    assert device.median == pytest.approx(0.010 + 10 * 0.012 / 20 / 2)
    assert (device.low, device.high) == pytest.approx((0.010, 0.010 + 10 * 0.012 / 20))


def test_dali_never_costs_the_cpu_more_than_what_it_replaces() -> None:
    cheap = starved()
    work = msgspec.structs.replace(cheap.workload, stages=(exact(1e-4),))
    assert stages(whatif.dali(msgspec.structs.replace(cheap, workload=work)))["dali"] == 1e-4


def test_another_batch_size_changes_every_cost_in_proportion() -> None:
    before = starved()
    assert gain(before, whatif.batch(before, 20)).median == pytest.approx(1.0)


def test_another_link_changes_the_exposed_copy_only() -> None:
    before = starved(sample_bytes=1e6, transfer_s=Spread.exact(0.05))
    after = whatif.link(before, 1e10)
    assert after.workload.transfer_s.median == pytest.approx(0.001)
    hidden = whatif.link(starved(sample_bytes=1e6), 1e10)
    assert hidden.workload.transfer_s.median == 0.0
    assert whatif.link(starved(), 1e10).machine.link_bytes_per_s == 1e10


def test_another_store_replaces_what_was_blocked() -> None:
    before = starved(cached_share=0.5)
    after = whatif.storage(before, whatif.Store(name="disk", wait_s=0.01, bytes_per_s=1e8, slots=1))
    assert stages(after)["read"] == pytest.approx(0.005)
    assert after.machine.storage_slots == 1
    faster = whatif.storage(after, whatif.Store(name="memory", wait_s=0.0))
    assert "read" not in stages(faster)
    assert faster.machine.storage_bytes_per_s is None


def test_cores_and_workers_help_together() -> None:
    before = starved()
    assert gain(before, whatif.workers(before, 8)).median == pytest.approx(1.0)
    assert gain(before, whatif.cores(before, 8)).median == pytest.approx(1.0)
    both = whatif.cores(whatif.workers(before, 8), 8)
    assert gain(before, both).median == pytest.approx(2.0)
