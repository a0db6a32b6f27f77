"""Zoo entries of round numbers, and the scenario that must come of them."""

from __future__ import annotations

import pytest

from stoker.errors import InputError
from stoker.records.scenario import Resource
from stoker.theory.assume import OP_BAND, assumed, largest_batch
from stoker.theory.cache import cached_share
from stoker.theory.pipeline import forecast
from stoker.theory.setting import finished_bytes, stored_bytes
from stoker.theory.step import step_time
from stoker.zoo.load import load_zoo
from tests.unit.theory.scenarios import disk, said, setting


def costs(**changes: object) -> dict[str, float]:
    stages = assumed(setting(**changes)).scenario.workload.stages
    return {cost.stage: cost.per_sample.median for cost in stages}


def test_the_cost_of_an_operation_follows_the_pixels_that_it_sees() -> None:
    assert costs() == pytest.approx(
        {
            "decode": 2e-3,  # 40,000 pixels, measured at 20,000
            "crop": 5e-4,
            "flip": 1e-4,  # after the crop: 100 by 100 pixels, measured at 40,000
            "hand-on": 100 * 100 * 3 * 4 / 1.2e9,
        }
    )


def test_only_what_comes_before_the_first_random_operation_repeats() -> None:
    stages = assumed(setting()).scenario.workload.stages
    assert [cost.deterministic for cost in stages] == [True, False, False, False]


def test_an_operation_on_an_unnamed_processor_has_the_band_of_its_kind() -> None:
    decode = assumed(setting()).scenario.workload.stages[0].per_sample
    assert decode.high / decode.median == pytest.approx(OP_BAND)


def test_the_device_time_is_the_step_forecast_of_the_same_batch() -> None:
    made = setting()
    step = step_time(made.model, made.accelerator, batch=100)
    assert assumed(made).scenario.workload.device_s == step.seconds


def test_transfer_and_hand_off_are_bytes_over_their_rates() -> None:
    scenario = assumed(setting()).scenario
    batch_bytes = 100 * 100 * 100 * 3 * 4
    assert finished_bytes(setting()) == 100 * 100 * 3 * 4
    assert scenario.workload.transfer_s.median == pytest.approx(batch_bytes / 10e9)
    assert scenario.loader.hand_off_s == pytest.approx(batch_bytes / 3e9)


@pytest.mark.parametrize(("model", "share"), [("mpt_125m@512", 0.25), ("bert_base@512", 0.25)])
def test_a_text_weighs_as_its_sequence_is_long(model: str, share: float) -> None:
    zoo = load_zoo()
    text = zoo.dataset("text-2048")
    asked = setting(model=zoo.model(model), dataset=text)
    assert stored_bytes(asked) == pytest.approx(share * text.stored_bytes.value)
    assert text.sample_bytes is not None
    assert finished_bytes(asked) == pytest.approx(share * text.sample_bytes.value)


def test_a_host_without_named_storage_says_unknown_and_is_not_bounded_by_it() -> None:
    found = assumed(setting())
    assert any("storage: none was named" in text for text in found.unknown)
    names = [term.name for term in forecast(found.scenario).terms]
    assert not any("storage" in name for name in names)


def test_storage_costs_latency_and_transfer_of_what_is_not_cached() -> None:
    ssd = disk(bytes_per_s=said(1e8), latency_s=said(1e-3), reads_per_s=said(500), slots=said(4))
    scenario = assumed(setting(storage=ssd, cached=0.75)).scenario
    assert costs(storage=ssd, cached=0.75)["read"] == pytest.approx((1e-3 + 1e5 / 1e8) / 4)
    terms = {term.name: term.seconds.median for term in forecast(scenario).terms}
    assert terms["storage bandwidth"] == pytest.approx(2 * 100 * 0.25 * 1e5 / 1e8)
    assert terms["storage reads"] == pytest.approx(2 * 100 * 0.25 / 500)


def test_a_store_that_hosts_share_comes_through_the_network() -> None:
    fast = disk(bytes_per_s=said(1e10), shared=True)
    assert assumed(setting(storage=fast)).scenario.machine.storage_bytes_per_s == 1e9
    endless = disk(shared=True)
    assert assumed(setting(storage=endless)).scenario.machine.storage_bytes_per_s == 1e9


def test_a_volume_comes_through_the_link_that_the_host_has_to_volumes() -> None:
    fast = disk(bytes_per_s=said(1e10), volume=True)
    assert assumed(setting(storage=fast)).scenario.machine.storage_bytes_per_s == 5e8
    local = disk(bytes_per_s=said(1e10))
    assert assumed(setting(storage=local)).scenario.machine.storage_bytes_per_s == 1e10


def test_a_disk_of_which_nothing_is_known_says_so() -> None:
    found = assumed(setting(storage=disk()))
    assert any("neither bytes nor reads" in text for text in found.unknown)


def test_the_first_epoch_finds_nothing_in_the_page_cache() -> None:
    ssd = disk(bytes_per_s=said(1e8))
    second = assumed(setting(storage=ssd)).scenario.workload.cached_share
    first = assumed(setting(storage=ssd, is_first_epoch=True)).scenario.workload.cached_share
    assert (first, second) == (0.0, pytest.approx(cached_share(8e9, 1e10)))


def test_data_that_fit_into_memory_are_read_once() -> None:
    assert cached_share(2.0, 1.0) == 1.0
    assert cached_share(1.0, 2.0) == pytest.approx(0.5 - 0.5 * 0.6931471805599453)
    assert cached_share(1e-9, 1.0) == pytest.approx(0.0, abs=1e-12)


def test_every_assumed_number_says_where_it_is_from() -> None:
    found = assumed(setting(storage=disk(bytes_per_s=said(1e8))))
    assert {basis.what for basis in found.bases} >= {
        *("step", "cores", "decode", "crop", "flip", "hand-on", "hand-off", "link"),
        *("in page cache", "storage bytes/s"),
    }
    assert all(basis.source and basis.kind for basis in found.bases)


def test_a_batch_that_does_not_fit_names_the_memory_and_the_largest_that_does() -> None:
    most = largest_batch(setting())
    assumed(setting(batch=most))
    with pytest.raises(InputError, match=r"needs .* of memory, device has 16.0 GB") as caught:
        assumed(setting(batch=most + 1))
    assert f"--batch {most}" in caught.value.run_next


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch": 0}, "the batch size is 0"),
        ({"workers": -1}, "workers is -1"),
        ({"cores": float("nan")}, "number of cores is nan"),
        ({"cpu_s": float("inf")}, "CPU-seconds a sample is inf"),
        ({"stored_bytes": -1.0}, "stored bytes a sample is -1"),
        ({"cached": 1.5}, "cached share is 1.5"),
        ({"host": None}, "nobody says how many cores"),
    ],
)
def test_nonsense_is_refused_by_name(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        assumed(setting(**changes))


def test_what_the_user_gives_stands_over_the_zoo() -> None:
    found = assumed(setting(cores=32.0, cpu_s=0.005, stored_bytes=7.0))
    assert found.scenario.machine.cores == 32
    assert found.scenario.workload.stored_bytes == 7.0
    assert found.scenario.workload.stages[0].per_sample.median == 0.005
    assert found.scenario.workload.stages[0].resource is Resource.CORES
