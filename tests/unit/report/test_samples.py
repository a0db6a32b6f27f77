"""Which single samples a report names."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from stoker.records.profile import CostTrend, Profile, SampleCost
from stoker.report import samples
from tests.golden import diagnoses


def seen(*slowest: SampleCost, usual_s: float = 0.010, **trend: float) -> Profile:
    """A profile with these samples, where a sample usually takes 10 ms."""
    usual = CostTrend(samples=500, spread=1.2, median_s=usual_s, **trend)
    return replace(diagnoses.serial_loader().profile, slowest=slowest, trend=usual)


def sample(index: int, wall_s: float) -> SampleCost:
    return SampleCost(
        index=index,
        wall_s=wall_s,
        cpu_s=wall_s,
        path=f"/data/{index}.jpg",
        size=9_000_000,
        stage="decode (Pillow)",
    )


def test_samples_far_beyond_the_usual_are_named_with_stage_and_file() -> None:
    profile = seen(sample(7, 0.150), sample(3, 0.011))
    (row,) = samples.dearest(profile)
    assert (row.sample, row.time, row.times) == ("7", "150 ms", "15.0x")
    assert (row.stage, row.file, row.size) == ("decode (Pillow)", "/data/7.jpg", "9.00 MB")
    assert samples.remarks(profile)[0].startswith("Usual: 10.0 ms; one sample in ten takes 1.20x")


def test_at_most_five_are_named() -> None:
    assert len(samples.dearest(seen(*(sample(i, 0.1) for i in range(10))))) == 5


def test_samples_that_are_alike_are_not_worth_a_word() -> None:
    profile = seen(sample(7, 0.012))
    assert samples.dearest(profile) == ()
    assert samples.remarks(profile) == ()


def test_what_another_process_on_the_core_takes_makes_no_sample_dear() -> None:
    assert samples.dearest(seen(sample(7, 0.004), usual_s=0.0001)) == ()
    assert len(samples.dearest(seen(sample(7, 0.040), usual_s=0.0001))) == 1


def test_what_the_cost_goes_with_is_told() -> None:
    told = samples.remarks(seen(per_byte_s=2e-9, per_file_s=0.004, index_share=0.8))
    assert (
        "It goes with the size of the file: 2.00 ms for each MB, and 4.00 ms whatever its size."
        in told
    )
    assert "the last samples cost 80% of the usual more than the first" in told[-1]
    assert samples.remarks(seen(index_share=0.1)) == ()


@pytest.mark.parametrize(
    ("trend", "told"),
    [
        ({"per_byte_s": 2e-9, "per_file_s": 0.001}, "the size of the file: 2.00 ms for each MB."),
        (
            {"per_pixel_s": 1.5e-8, "per_file_s": 0.004},
            "the pixels that are decoded: 15.0 ms for each megapixel, and 4.00 ms whatever its",
        ),
        ({"per_file_s": 0.01}, "a cost per file: small and large ones cost the same."),
    ],
)
def test_the_size_that_explains_the_cost_is_the_one_that_is_told(
    trend: dict[str, float], told: str
) -> None:
    _, size = samples.remarks(seen(**trend))
    assert told in size


def test_a_size_with_which_the_cost_falls_is_not_worth_a_word() -> None:
    assert samples.remarks(seen(per_pixel_s=-1e-9, per_file_s=0.01)) == ()


def test_without_a_trend_nothing_is_usual() -> None:
    profile = replace(diagnoses.serial_loader().profile, slowest=(sample(1, 1.0),))
    assert samples.dearest(profile) == samples.remarks(profile) == ()
