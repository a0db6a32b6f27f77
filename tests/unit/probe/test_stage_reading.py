from __future__ import annotations

from typing import Any

import pytest

from stoker.probe.stage_reading import (
    cost_trend,
    read_amplification,
    read_stages,
    slowest_samples,
)

MS = 1_000_000


def line(records: list[list[Any]], **stages: list[int]) -> dict[str, Any]:
    return {
        "where": "worker",
        "samples": max(1, len(records)),
        "runqueue_ns": 0,
        "stages": stages,
        "records": records,
    }


def sample(
    index: int, wall_ms: float, path: str | None = None, size: int | None = None
) -> list[Any]:
    return [index, index, int(wall_ms * MS), int(wall_ms * MS), path, size]


def test_stages_are_told_for_one_sample_the_longest_first() -> None:
    lines = [
        line([sample(0, 4), sample(1, 4)], read=[2, 2 * MS, 0], decode=[2, 6 * MS, 6 * MS])
        for _ in range(3)
    ]
    decode, read = read_stages(lines)
    assert (decode.stage, decode.wall_s, decode.cpu_s) == ("decode", 0.003, 0.003)
    assert (read.stage, read.blocked_s, read.calls) == ("read", 0.001, 1.0)


def test_the_dearest_sample_comes_first_with_its_file() -> None:
    records = [sample(i, 1.0, f"{i}.jpg", 1000) for i in range(30)]
    records[7] = sample(7, 50.0, "7.jpg", 90_000)
    first, *others = slowest_samples([line(records)])
    assert (first.index, first.path, first.size) == (7, "7.jpg", 90_000)
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


def test_a_file_read_for_several_samples_is_amplified_and_a_picture_is_not() -> None:
    group = [sample(i, 1.0, "group.bin", 2_000_000) for i in range(4)]
    assert read_amplification([line(group)], 20_000) == 100
    pictures = [sample(i, 1.0, f"{i}.jpg", 2_000_000) for i in range(4)]
    assert read_amplification([line(pictures)], 20_000) is None


def test_nothing_timed_is_nothing_told() -> None:
    assert read_stages([]) == ()
    assert cost_trend([]) is None
    assert slowest_samples([]) == ()
