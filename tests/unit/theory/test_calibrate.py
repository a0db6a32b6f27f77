"""Profiles made by hand: the Scenario must give their own periods back."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.errors import InputError
from stoker.records.profile import (
    End,
    Environment,
    EpochFacts,
    HostTruth,
    Leg,
    LegCode,
    LoaderFacts,
    Profile,
    Script,
)
from stoker.records.scenario import Forecast, Resource
from stoker.stats import Spread
from stoker.theory.calibrate import at_workers, efficiency_at, scenario_from
from stoker.theory.pipeline import forecast, gain
from tests.unit.diagnose.profiles import stage


def near(value: float, share: float = 0.02) -> Spread:
    return Spread(value, value * (1 - share), value * (1 + share), 50)


def leg(code: LegCode, period: float, workers: int, **more: object) -> Leg:
    return Leg(
        code=code,
        period=near(period),
        middle=period,
        steps=50,
        windows=4,
        workers=workers,
        **more,  # type: ignore[arg-type]
    )


def profile(
    workers: int = 2,
    *,
    loader_s: float = 0.2,
    cpu_s: float | None = 0.4,
    cores: float = 2.0,
    **more: object,
) -> Profile:
    legs = {
        "D": leg(LegCode.DEVICE, 0.05, workers),
        "H": leg(LegCode.HOST, 0.06, workers),
        "L": leg(LegCode.LOADER, loader_s, workers, cpu_s=None if cpu_s is None else near(cpu_s)),
    }
    made = Profile(
        script=Script(argv=("train.py",), cwd="."),
        end=End.CONVERGED,
        legs=legs,
        loader=LoaderFacts(workers=workers, batch_size=8, batch_bytes=8000),
        host=HostTruth(cores_owned=cores, affinity=2),
        environment=Environment(stoker="0", python="3", machine="a test"),
    )
    return msgspec.structs.replace(made, **more)


def cost(made: Profile, resource: Resource) -> float:
    stages = scenario_from(made).workload.stages
    return sum(stage.per_sample.median for stage in stages if stage.resource is resource)


@given(
    workers=st.integers(1, 16),
    cores=st.integers(1, 16),
    cpu=st.floats(0.01, 1.0),
    slower=st.floats(1.0, 5.0),
)
def test_the_forecast_of_production_is_the_period_of_the_loader_leg(
    workers: int, cores: int, cpu: float, slower: float
) -> None:
    period = slower * cpu / min(workers, cores)
    made = profile(workers, loader_s=period, cpu_s=cpu, cores=float(cores))
    assert forecast(scenario_from(made)).produce_s.median == pytest.approx(period, rel=1e-9)


def test_without_workers_a_step_is_the_loading_the_transfer_and_the_device() -> None:
    made = profile(0, loader_s=0.2, cpu_s=0.15)
    assert cost(made, Resource.CORES) == pytest.approx(0.15 / 8)
    assert cost(made, Resource.STORAGE) == pytest.approx(0.05 / 8)
    assert forecast(scenario_from(made)).step_s.median == pytest.approx(0.2 + 0.01 + 0.05)


def test_the_wait_for_a_core_is_no_wait_for_storage() -> None:
    made = profile(8, loader_s=0.2, cpu_s=0.4)
    loader = msgspec.structs.replace(made.legs["L"], runqueue_s=near(1.1))
    made = msgspec.structs.replace(made, legs={**made.legs, "L": loader})
    assert cost(made, Resource.STORAGE) == pytest.approx((8 * 0.2 - 0.4 - 1.1) / 8)


def test_without_workers_the_stages_tell_the_wait_for_a_core_from_storage() -> None:
    read = stage("read", 0.020, where="main", cpu_s=0.010, blocked_s=0.002, runqueue_s=0.008)
    made = profile(workers=0, loader_s=0.5, cpu_s=0.1, stages=(read,))
    assert cost(made, Resource.STORAGE) == pytest.approx(0.2 * 0.4 / 8)
    unseen = profile(workers=0, loader_s=0.5, cpu_s=0.1)
    assert cost(unseen, Resource.STORAGE) == pytest.approx(0.4 / 8)


def test_full_cores_without_a_run_queue_clock_leave_no_blocked_time() -> None:
    assert cost(profile(8, loader_s=0.2, cpu_s=0.4), Resource.STORAGE) == 0.0


def test_workers_that_stand_at_the_hand_off_are_not_blocked_by_storage() -> None:
    made = profile(4, loader_s=0.2, cpu_s=0.1, cores=8.0)
    null = leg(LegCode.NULL, 0.19, 4)
    made = msgspec.structs.replace(made, legs={**made.legs, "N": null})
    assert cost(made, Resource.STORAGE) == 0.0
    assert forecast(scenario_from(made)).produce_s.median == pytest.approx(0.2)


def test_costs_are_split_as_the_stages_were_timed_and_the_rest_is_loading() -> None:
    stages = (
        stage("decode", 0.03, deterministic=True),
        stage("augment", 0.01, deterministic=False),
        stage("collate", 9.0, where="main"),
    )
    costs = scenario_from(profile(stages=stages)).workload.stages
    assert {stage.stage: round(stage.per_sample.median, 9) for stage in costs} == {
        "decode": 0.03,
        "augment": 0.01,
        "loading": 0.01,
    }
    assert [stage.deterministic for stage in costs] == [True, False, None]


def test_the_parts_of_a_split_cost_keep_the_interval_of_the_whole() -> None:
    stages = tuple(stage(f"s{number}", 0.02) for number in range(4))
    whole = forecast(scenario_from(profile())).produce_s
    parts = forecast(scenario_from(profile(stages=stages))).produce_s
    assert parts.half_width_share == pytest.approx(whole.half_width_share, rel=0.25)


def test_the_loop_that_waits_for_its_batches_is_the_pace_of_the_loader() -> None:
    made = profile()
    contended = leg(LegCode.CONTENDED, 0.08, 2, drain=near(0.25))
    real = leg(LegCode.REAL, 0.3, 2)
    made = msgspec.structs.replace(made, legs={**made.legs, "C": contended, "R": real})
    assert forecast(scenario_from(made)).produce_s.median == pytest.approx(0.3)
    assert scenario_from(made).workload.contention_s.median == pytest.approx(0.02)


def test_efficiency_is_read_between_measured_worker_counts_and_level_beyond() -> None:
    points = (leg(LegCode.LOADER, 0.4, 1), leg(LegCode.LOADER, 0.125, 4))
    made = profile(2, cores=8.0, scaling=points)
    assert [efficiency_at(made, count) for count in (1, 2, 3, 4, 16)] == pytest.approx(
        [1.0, 1.0, 0.9, 0.8, 0.8]
    )


def test_fewer_workers_that_were_measured_faster_are_forecast_faster() -> None:
    """A lock convoy: eight workers 0.150 s a batch, three 0.013 s."""
    made = profile(
        8, loader_s=0.150, cpu_s=0.03, cores=8.0, scaling=(leg(LegCode.LOADER, 0.013, 3),)
    )
    before = scenario_from(made)
    settings = msgspec.structs.replace(before.loader, workers=3, efficiency=efficiency_at(made, 3))
    after = msgspec.structs.replace(before, loader=settings)
    assert forecast(after).produce_s.median == pytest.approx(0.013)
    assert gain(before, after).low > 1.5


def test_training_on_the_cores_of_the_workers_slows_the_overlapped_run() -> None:
    made = profile(0, loader_s=0.1, cpu_s=0.1)
    busy = msgspec.structs.replace(made.legs["H"], main_cpu_s=near(0.12))
    made = msgspec.structs.replace(made, legs={**made.legs, "H": busy})
    before = scenario_from(made)
    after = msgspec.structs.replace(
        before, loader=msgspec.structs.replace(before.loader, workers=2)
    )
    found = forecast(after)
    assert found.step_s.median == pytest.approx((0.1 + 0.12) / 2)
    assert found.limit is Resource.CORES


def test_threads_that_spin_take_no_more_cores_than_the_contended_run_had() -> None:
    made = profile(2, loader_s=0.05, cpu_s=0.1)
    busy = msgspec.structs.replace(made.legs["H"], main_cpu_s=near(0.12))
    contended = leg(LegCode.CONTENDED, 0.07, 2, drain=near(0.07))
    made = msgspec.structs.replace(made, legs={**made.legs, "H": busy, "C": contended})
    assert forecast(scenario_from(made)).step_s.median == pytest.approx(0.07)


def test_an_epoch_boundary_is_spread_over_the_batches_of_its_epoch() -> None:
    epochs = EpochFacts(batches=10, boundaries=3, edge_s=near(2.0), start_s=1.0)
    assert scenario_from(profile(epochs=epochs)).workload.epoch_edge_s.median == pytest.approx(0.2)


def _overlapped(start_s: float, batches: int, **loader: object) -> Forecast:
    """Two workers in place of none; they were seen to take `start_s` to their first batches."""
    two = leg(LegCode.LOADER, 0.04, 2, cpu_s=near(0.08), start_s=start_s)
    epochs = EpochFacts(batches=batches, boundaries=0, edge_s=None, start_s=0.0)
    made = profile(0, loader_s=0.08, cpu_s=0.08, scaling=(two,), epochs=epochs)
    facts = LoaderFacts(workers=0, batch_size=8, **loader)  # type: ignore[arg-type]
    made = msgspec.structs.replace(made, loader=facts)
    return forecast(at_workers(made, scenario_from(made), 2))


def test_workers_that_are_new_start_at_every_epoch() -> None:
    without, long, short = (_overlapped(*known) for known in ((0.0, 10), (0.5, 1000), (0.5, 10)))
    assert long.step_s.median - without.step_s.median == pytest.approx(0.5 / 1000)
    assert short.step_s.median - without.step_s.median == pytest.approx(0.5 / 10)
    assert short.step_s.high - short.step_s.low > 0.5 / 10 / 2, "one start has a wide interval"


def test_workers_that_live_on_start_once() -> None:
    assert _overlapped(0.5, 10, persistent_workers=True) == _overlapped(0.0, 10)


def test_a_first_round_that_takes_as_long_as_any_other_is_no_loss() -> None:
    """Two workers at 0.2 s a batch: their first two come after 0.4 s, as all others do."""
    two = leg(LegCode.LOADER, 0.2, 2, cpu_s=near(0.4), start_s=0.41)
    epochs = EpochFacts(batches=10, boundaries=0, edge_s=None, start_s=0.0)
    made = profile(0, loader_s=0.4, cpu_s=0.4, scaling=(two,), epochs=epochs)
    after = at_workers(made, scenario_from(made), 2)
    assert after.workload.epoch_edge_s.median == pytest.approx(0.001)


def test_a_step_with_its_transfer_that_is_longer_than_the_loading_waits_at_each_start() -> None:
    """55 ms of loading beside 50 ms of the device and 10 ms of transfer: no wait in an epoch."""
    two = leg(LegCode.LOADER, 0.055, 2, cpu_s=near(0.11), start_s=0.1)
    epochs = EpochFacts(batches=10, boundaries=0, edge_s=None, start_s=0.0)
    made = profile(0, loader_s=0.11, cpu_s=0.11, scaling=(two,), epochs=epochs)
    after = at_workers(made, scenario_from(made), 2)
    assert after.workload.epoch_edge_s.median == pytest.approx(0.1 / 10)


def test_several_batches_a_step_make_one_larger_batch() -> None:
    facts = LoaderFacts(workers=2, batch_size=8, batches_per_step=4.0)
    found = scenario_from(profile(loader=facts))
    assert found.workload.batch_size == 32
    assert forecast(found).produce_s.median == pytest.approx(0.2), "leg L is of a step already"


def test_a_profile_without_the_loader_leg_names_it() -> None:
    made = profile()
    legs = {code: found for code, found in made.legs.items() if code != "L"}
    with pytest.raises(InputError, match="no leg L"):
        scenario_from(msgspec.structs.replace(made, legs=legs))
