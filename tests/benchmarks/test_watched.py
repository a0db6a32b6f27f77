"""The benchmark of what watching costs runs its script whole, under every hook."""

from __future__ import annotations

from benchmarks import watch_cost


def test_a_watched_script_runs_to_its_end_and_is_seen() -> None:
    taken = watch_cost.mean_step_s(0, is_watched=True, steps=watch_cost.SKIPPED + 5)
    assert taken > 0
