"""Ranks that hold up the others: named, and what it would give to mend them."""

from __future__ import annotations

from typing import Any

import msgspec

from stoker.diagnose.diagnosis import diagnose
from stoker.records.diagnosis import Verdict, VerdictCode
from stoker.records.profile import Profile, RankFacts

from .profiles import profile


def rank(number: int, *, wait: float, loader: float, real: float = 0.1) -> RankFacts:
    return RankFacts(rank=number, real_s=real, device_s=0.04, loader_s=loader, wait_s=wait)


def run(*ranks: RankFacts, world: int | None = None, **changes: Any) -> Profile:
    """A run whose own rank waits for nothing, and takes 40 ms a step on kept batches."""
    own = profile(real=0.1, device=0.04, loader=ranks[0].loader_s, workers=0, ranks=ranks)
    whole = world if world is not None else len(ranks)
    environment = msgspec.structs.replace(own.environment, world=whole)
    return msgspec.structs.replace(own, environment=environment, **changes)


def verdict(found: Profile) -> Verdict:
    return diagnose(found).verdict


def test_the_rank_that_waits_is_named_with_what_it_costs_all() -> None:
    found = verdict(run(rank(0, wait=0.002, loader=0.002), rank(1, wait=0.06, loader=0.06)))
    assert found.code is VerdictCode.PEER_RANK
    assert "Rank 1 waits" in found.sentence
    assert "If rank 1 were like the median: -58%" in found.sentence  # 40 + 2 ms in place of 100


def test_the_next_slowest_rank_sets_the_pace_then() -> None:
    found = verdict(
        run(
            rank(0, wait=0.002, loader=0.002),
            rank(1, wait=0.06, loader=0.06),
            rank(2, wait=0.015, loader=0.015),
        )
    )
    assert found.code is VerdictCode.PEER_RANK
    assert "If rank 1 were like the median: -45%" in found.sentence  # 40 + 15 ms


def test_all_ranks_that_wait_are_named_the_slowest_apart() -> None:
    found = verdict(
        run(
            rank(0, wait=0.002, loader=0.002),
            rank(1, wait=0.06, loader=0.06),
            rank(2, wait=0.058, loader=0.058),
        )
    )
    assert "Ranks 1, 2 wait" in found.sentence
    assert "rank 1, the slowest" in found.sentence
    assert "If they were" in found.sentence


def test_ranks_that_load_alike_are_no_peers_problem() -> None:
    alike = run(rank(0, wait=0.06, loader=0.06), rank(1, wait=0.062, loader=0.062))
    assert verdict(alike).code is not VerdictCode.PEER_RANK


def test_a_rank_that_waits_most_itself_hears_of_its_own_loader() -> None:
    found = run(rank(0, wait=0.05, loader=0.05), rank(1, wait=0.08, loader=0.08))
    assert verdict(found).code is not VerdictCode.PEER_RANK


def test_a_run_of_which_some_ranks_were_not_seen_is_never_device_bound() -> None:
    healthy = run(
        rank(0, wait=0.0, loader=0.001, real=0.04), rank(1, wait=0.0, loader=0.001, real=0.04)
    )
    calm = profile(real=0.0405, device=0.04, loader=0.001, workers=0, ranks=healthy.ranks)
    seen = msgspec.structs.replace(calm.environment, world=2)
    unseen = msgspec.structs.replace(calm.environment, world=8)
    assert verdict(msgspec.structs.replace(calm, environment=seen)).code is VerdictCode.DEVICE_BOUND
    found = verdict(msgspec.structs.replace(calm, environment=unseen))
    assert found.code is VerdictCode.INCONCLUSIVE
    assert "These are 2 of 8 processes" in found.sentence
