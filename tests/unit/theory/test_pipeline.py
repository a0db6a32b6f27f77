"""The closed form against numbers worked out by hand, and what must hold whatever the numbers."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.records.scenario import (
    LoaderSettings,
    Machine,
    Resource,
    Scenario,
    StageCost,
    Workload,
)
from stoker.stats import Spread
from stoker.theory.pipeline import cores_needed, forecast, gain


def stage(
    seconds: float, resource: Resource = Resource.CORES, *, name: str = "decode"
) -> StageCost:
    return StageCost(stage=name, resource=resource, per_sample=Spread.exact(seconds))


def scenario(
    *stages: StageCost,
    workers: int = 4,
    device_s: float = 0.1,
    machine: Machine | None = None,
    loader: dict[str, object] | None = None,
    **workload: object,
) -> Scenario:
    return Scenario(
        machine=machine or Machine(cores=4),
        workload=Workload(
            batch_size=10,
            stages=stages,
            device_s=Spread.exact(device_s),
            **workload,  # type: ignore[arg-type]
        ),
        loader=LoaderSettings(workers=workers, **(loader or {})),  # type: ignore[arg-type]
    )


def test_without_workers_the_times_add_up() -> None:
    found = forecast(
        scenario(
            stage(0.01),
            stage(0.005, Resource.STORAGE, name="read"),
            workers=0,
            transfer_s=Spread.exact(0.02),
            epoch_edge_s=Spread.exact(0.003),
        )
    )
    assert found.step_s.median == pytest.approx(0.1 + 0.05 + 0.1 + 0.02 + 0.003)
    assert found.limit is Resource.CORES


def test_without_workers_a_shorter_loading_makes_turns_the_limit_and_a_trifle_none() -> None:
    assert forecast(scenario(stage(0.005), workers=0)).limit is Resource.TURNS
    assert forecast(scenario(stage(0.0003), workers=0)).limit is Resource.ACCELERATOR
    assert forecast(scenario(stage(0.005), workers=1)).limit is Resource.ACCELERATOR


def test_with_workers_the_slower_side_sets_the_pace() -> None:
    assert forecast(scenario(stage(0.08))).step_s.median == pytest.approx(0.2)
    assert forecast(scenario(stage(0.02))).step_s.median == pytest.approx(0.1)


def test_a_step_of_20_ms_and_a_batch_in_35_ms_leave_57_percent() -> None:
    found = forecast(scenario(stage(0.014), device_s=0.020))
    assert found.au.median == pytest.approx(20 / 35)


def test_blocked_workers_are_a_matter_of_their_number_not_of_cores() -> None:
    waiting = (stage(0.001), stage(0.099, Resource.STORAGE, name="read"))
    few = scenario(*waiting, workers=4)
    many = scenario(*waiting, workers=16)
    assert forecast(few).produce_s.median == pytest.approx(0.25)
    assert forecast(few).limit is Resource.STORAGE
    assert gain(few, many).median == pytest.approx(2.5)


def test_a_store_that_serves_two_requests_at_once_gains_nothing_from_more_workers() -> None:
    disk = Machine(cores=4, storage_slots=2)
    waiting = stage(0.099, Resource.STORAGE, name="read")
    few = scenario(waiting, workers=2, machine=disk)
    many = scenario(waiting, workers=16, machine=disk)
    assert gain(few, many).median == pytest.approx(1.0)
    assert forecast(many).limit is Resource.STORAGE


def test_only_bytes_that_are_not_cached_pass_through_the_store() -> None:
    disk = Machine(cores=4, storage_bytes_per_s=1e8)
    cold = scenario(stage(0.001), machine=disk, stored_bytes=4e6)
    warm = scenario(stage(0.001), machine=disk, stored_bytes=4e6, cached_share=0.9)
    assert forecast(cold).step_s.median == pytest.approx(10 * 4e6 / 1e8)
    assert forecast(cold).limit is Resource.STORAGE
    assert forecast(warm).step_s.median == pytest.approx(0.1)


def test_a_store_of_few_reads_a_second_is_relieved_by_shards() -> None:
    disk = Machine(cores=4, storage_reads_per_s=50)
    files = scenario(stage(0.001), machine=disk)
    shards = scenario(stage(0.001), machine=disk, reads=0.01)
    assert forecast(files).step_s.median == pytest.approx(10 / 50)
    assert gain(files, shards).median == pytest.approx(2.0)


def test_accelerators_share_the_host_but_not_the_link() -> None:
    host = Machine(cores=32, storage_bytes_per_s=1e9, link_bytes_per_s=1e9)
    one = scenario(stage(0.01), machine=host, workers=32, stored_bytes=1e6, sample_bytes=1e6)
    eight = msgspec.structs.replace(one, machine=msgspec.structs.replace(host, accelerators=8))
    alone, together = (
        {term.name: term.seconds.median for term in forecast(given).terms} for given in (one, eight)
    )
    assert together["cores"] == pytest.approx(8 * alone["cores"])
    assert together["storage bandwidth"] == pytest.approx(8 * alone["storage bandwidth"])
    assert together["link"] == alone["link"]


def test_an_overlapped_transfer_still_takes_the_time_of_its_link() -> None:
    slow = Machine(cores=4, link_bytes_per_s=1e7)
    found = forecast(
        scenario(
            stage(0.001),
            machine=slow,
            sample_bytes=5e5,
            transfer_s=Spread.exact(0.5),
            loader={"transfer_overlapped": True},
        )
    )
    assert found.step_s.median == pytest.approx(0.5)
    assert found.limit is Resource.LINK


def test_one_process_takes_the_batches_however_many_workers_make_them() -> None:
    found = forecast(scenario(stage(0.001), loader={"hand_off_s": 0.15}))
    assert found.step_s.median == pytest.approx(0.15)
    assert found.limit is Resource.MEMORY


def test_training_and_loading_cannot_use_a_core_twice() -> None:
    one_core = Machine(cores=1)
    found = forecast(
        scenario(stage(0.008), machine=one_core, training_cpu_s=Spread.exact(0.1), workers=1)
    )
    assert found.step_s.median == pytest.approx(0.08 + 0.1)
    assert found.limit is Resource.CORES


def test_what_both_scenarios_share_cancels_in_the_gain() -> None:
    unsure = StageCost(stage="decode", resource=Resource.CORES, per_sample=Spread(0.1, 0.05, 0.2))
    slow, fast = scenario(unsure, workers=1), scenario(unsure, workers=2)
    # what is left is the equations' own doubt, 5 % where half of the step goes
    assert gain(slow, fast).low == pytest.approx(2.0 * 0.95, rel=0.01)
    assert forecast(slow).step_s.half_width_share > 0.5


def test_one_observation_promises_nothing() -> None:
    once = StageCost(
        stage="decode",
        resource=Resource.CORES,
        per_sample=Spread(0.1, float("-inf"), float("inf"), 1),
    )
    assert not forecast(scenario(once)).step_s.is_promise


@pytest.mark.parametrize(
    "hopeless",
    [
        scenario(stage(0.08), machine=Machine(cores=2)),
        scenario(stage(0.001), loader={"hand_off_s": 0.2}),
        scenario(stage(0.001), contention_s=Spread.exact(0.2)),
        scenario(stage(0.001), machine=Machine(cores=4, storage_bytes_per_s=1e6), stored_bytes=1e6),
    ],
    ids=["too few cores", "hand-off", "contention", "storage bandwidth"],
)
def test_no_worker_count_mends_what_workers_do_not_limit(hopeless: Scenario) -> None:
    endless = msgspec.structs.replace(hopeless.loader, workers=10**9)
    assert forecast(msgspec.structs.replace(hopeless, loader=endless)).au.median < 0.95


def test_cores_needed_are_the_cpu_of_a_batch_over_the_step() -> None:
    assert cores_needed(scenario(stage(0.08), device_s=0.1)) == pytest.approx(8)
    assert cores_needed(scenario(stage(0.08), loader={"efficiency": 0.5})) == pytest.approx(16)


@given(
    cpu=st.floats(1e-4, 0.1),
    blocked=st.floats(0, 0.1),
    workers=st.integers(1, 32),
    cores=st.integers(1, 32),
)
def test_more_of_a_resource_never_makes_a_step_longer(
    cpu: float, blocked: float, workers: int, cores: int
) -> None:
    costs = (stage(cpu), stage(blocked, Resource.STORAGE, name="read"))
    before = forecast(scenario(*costs, workers=workers, machine=Machine(cores=cores)))
    wider = forecast(scenario(*costs, workers=workers, machine=Machine(cores=cores + 1)))
    more = forecast(scenario(*costs, workers=workers + 1, machine=Machine(cores=cores)))
    assert wider.step_s.median <= before.step_s.median
    assert more.step_s.median <= before.step_s.median
    assert 0 < before.au.median <= 1
