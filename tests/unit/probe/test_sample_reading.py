"""What the cost of a sample goes with, and which samples cost the most."""

from __future__ import annotations

import pytest

from stoker.probe.sample_reading import cost_trend, slowest_samples
from tests.unit.probe.stage_records import line, sample


def test_the_dearest_sample_comes_first_with_its_file() -> None:
    records = [sample(i, 1.0, f"{i}.jpg", 1000) for i in range(30)]
    records[7] = sample(7, 50.0, "7.jpg", 90_000)
    first, *others = slowest_samples([line(records)])
    assert (first.index, first.path, first.size) == (7, "7.jpg", 90_000)
    assert first.stage == "decode"
    assert len(others) == 9


def test_a_cost_that_follows_the_bytes_is_split_into_file_and_byte() -> None:
    records = [sample(i, 2.0 + i * 0.1, f"{i}.jpg", 1000 * i) for i in range(1, 40)]
    trend = cost_trend([line(records)])
    assert trend is not None
    assert trend.per_file_s == pytest.approx(0.002, rel=0.05)
    assert trend.per_byte_s == pytest.approx(1e-7, rel=0.05)


def test_a_cost_that_follows_nothing_has_no_trend() -> None:
    records = [sample(i, 2.0 + (i * 7919 % 13) * 0.1, f"{i}.jpg", 1000 * i) for i in range(1, 60)]
    trend = cost_trend([line(records)])
    assert trend is not None
    assert (trend.per_byte_s, trend.index_share) == (None, None)


def test_indices_that_cost_more_and_more_are_seen() -> None:
    trend = cost_trend([line([sample(i, 1.0 + i * 0.05) for i in range(40)])])
    assert trend is not None
    assert trend.index_share == pytest.approx(1.0, rel=0.1)


def test_of_bytes_and_pixels_the_one_that_explains_the_cost_better_is_told() -> None:
    """Pictures of any compression: what they cost is decided by their pixels."""
    megapixels = [1 + i % 12 for i in range(60)]
    records = [
        sample(i, 5.0 + 20.0 * mp, f"{i}.jpg", 200_000 * mp + 900_000 * (i % 5), mp * 1_000_000)
        for i, mp in enumerate(megapixels)
    ]
    trend = cost_trend([line(records)])
    assert trend is not None
    assert trend.per_pixel_s == pytest.approx(20e-9, rel=0.01)
    assert trend.per_file_s == pytest.approx(0.005, rel=0.01)
    assert trend.per_byte_s is None


def test_bytes_are_told_where_pixels_are_all_the_same() -> None:
    records = [sample(i, 2.0 + i * 0.1, f"{i}.jpg", 1000 * i, 50_176) for i in range(1, 40)]
    trend = cost_trend([line(records)])
    assert trend is not None
    assert trend.per_byte_s == pytest.approx(1e-7, rel=0.05)
    assert trend.per_pixel_s is None


def test_a_cost_that_is_the_same_for_all_sizes_is_one_per_file() -> None:
    records = [sample(i, 20.0 + 0.1 * (i * 7 % 5), f"{i}.bin", 1000 * i) for i in range(1, 60)]
    trend = cost_trend([line(records)])
    assert trend is not None
    assert trend.per_file_s == pytest.approx(0.0202, rel=0.01)
    assert (trend.per_byte_s, trend.per_pixel_s) == (None, None)
    alike = [sample(i, 20.0, f"{i}.bin", 1000 + i) for i in range(60)]
    trend = cost_trend([line(alike)])
    assert trend is not None and trend.per_file_s is None, "sizes that hardly differ tell nothing"


def test_the_pixels_of_a_dear_sample_are_kept() -> None:
    (first, *_) = slowest_samples([line([sample(0, 4, "a.jpg", 900, 12_000_000), sample(1, 2)])])
    assert (first.index, first.pixels) == (0, 12_000_000)


def test_of_no_samples_nothing_is_told() -> None:
    assert cost_trend([]) is None
    assert slowest_samples([]) == ()
