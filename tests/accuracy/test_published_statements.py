"""Published statements about whole hosts, as benchmarks/published_statements.py replays them."""

from __future__ import annotations

import pytest

from benchmarks.published_statements import Replay, replays


@pytest.mark.parametrize("replay", replays(), ids=lambda replay: replay.statement)
def test_a_published_statement_is_replayed_with_its_limit_or_order(replay: Replay) -> None:
    assert replay.agrees, f"published {replay.published}; forecast {replay.forecast}"
