"""A minute of loops that end in every way leaves nothing behind."""

from __future__ import annotations

import pytest

from benchmarks import endurance


@pytest.mark.full
def test_a_minute_of_all_endings_leaves_nothing_behind() -> None:
    rounds, settled, ended = endurance.endure(60.0)
    assert rounds > endurance.SETTLING_ROUNDS
    assert ended.memory_bytes - settled.memory_bytes < endurance.ALLOWED_BYTES
    assert ended[1:] == settled[1:]
