"""The order of samples: one sequence for any ranks, any point of resumption, no sample twice."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.loader import draws, order
from stoker.loader.order import Share

CASES = 10_000
SEEDS = st.integers(0, 2**64 - 1)


def delivered(samples: np.ndarray, share: Share) -> list[np.ndarray]:
    """What all ranks get, batch after batch: ranks in a row within a global batch."""
    rank_count = share.world_size
    return [
        np.concatenate(
            [order.batch(samples, number, share._replace(rank=rank)) for rank in range(rank_count)]
        )
        for number in range(order.batch_count(len(samples), share))
    ]


@settings(max_examples=300, deadline=None)
@given(
    count=st.integers(0, 3_000),
    seed=SEEDS,
    epoch=st.integers(0, 10_000),
    mode=st.sampled_from(order.MODES),
    block=st.integers(1, 70),
)
def test_every_order_is_a_permutation(
    count: int, seed: int, epoch: int, mode: order.Mode, block: int
) -> None:
    samples = order.sequence(count, seed, epoch, mode=mode, block=block)
    assert np.array_equal(np.sort(samples), np.arange(count))


def test_ten_thousand_runs_see_the_same_sequence_whatever_their_ranks_and_interruptions() -> None:
    rng = np.random.default_rng(0)
    for _ in range(CASES):
        count, seed, epoch = (int(rng.integers(1, 400)), int(rng.integers(2**63)), 0)
        epoch = int(rng.integers(50))
        mode = order.MODES[int(rng.integers(3))]
        whole = order.sequence(count, seed, epoch, mode=mode, block=8)
        share = Share(int(rng.integers(1, 40)), 0, int(rng.integers(1, 9)), bool(rng.integers(2)))

        batches = delivered(whole, share)
        seen = np.concatenate([*batches, np.empty(0, np.int64)])
        usable = order.usable(count, share)
        assert np.array_equal(seen, whole[:usable])  # the sequence itself: none lost or doubled
        assert count - usable < (share.global_batch if share.drop_last else share.world_size)

        # Interrupted after some batches, and gone on with by another number of ranks.
        stop = int(rng.integers(0, len(batches) + 1))
        position = sum(map(len, batches[:stop]))
        other = Share(int(rng.integers(1, 40)), 0, int(rng.integers(1, 9)), False)
        again = order.sequence(count, seed, epoch, mode=mode, block=8)
        tail = delivered(again[position:], other)
        joined = np.concatenate([*batches[:stop], *tail, np.empty(0, np.int64)])
        assert np.array_equal(joined, whole[: len(joined)])
        assert count - len(joined) < other.world_size


@settings(max_examples=200, deadline=None)
@given(
    count=st.integers(0, 500),
    size=st.integers(1, 40),
    ranks=st.integers(1, 9),
    drop_last=st.booleans(),
)
def test_ranks_get_equally_many_samples_in_equally_many_batches(
    count: int, size: int, ranks: int, drop_last: bool
) -> None:
    samples = order.sequence(count, 1, 2)
    parts = []
    for rank in range(ranks):
        share = Share(size, rank, ranks, drop_last)
        numbers = range(order.batch_count(count, share))
        parts.append([order.batch(samples, number, share) for number in numbers])
    assert len({tuple(map(len, part)) for part in parts}) == 1
    together = [sample for part in parts for taken in part for sample in taken.tolist()]
    assert len(together) == len(set(together))
    if drop_last:
        assert all(len(taken) == size for part in parts for taken in part)


def test_the_order_is_the_same_in_every_version() -> None:
    # Written down once: runs that are resumed after an update must find the same order.
    assert order.sequence(8, 0, 0).tolist() == [5, 7, 2, 0, 3, 1, 6, 4]
    assert order.sequence(8, 7, 3, mode="window", block=2).tolist() == [2, 6, 7, 3, 1, 5, 4, 0]


def test_another_epoch_or_seed_is_another_order() -> None:
    orders = {tuple(order.sequence(64, s, e).tolist()) for s in range(10) for e in range(10)}
    assert len(orders) == 100


def test_a_window_keeps_reads_near_each_other() -> None:
    count, block = 64 * order.WINDOW * 4, 64
    samples = order.sequence(count, 0, 0, mode="window", block=block)
    first = samples[: block * order.WINDOW]
    assert len(np.unique(first // block)) == order.WINDOW
    assert not np.array_equal(first, np.sort(first))


def test_draws_are_uniform_and_differ_from_draw_to_draw() -> None:
    keys = draws.sample_keys(3, 1, np.arange(20_000))
    first, second = draws.uniform(keys, 0), draws.uniform(keys, 1)
    for numbers in (first, second):
        assert numbers.min() >= 0.0 and numbers.max() < 1.0
        counts = np.histogram(numbers, bins=20, range=(0, 1))[0]
        # Chi-squared with 19 degrees of freedom: 43.8 is its 99.9 % point.
        assert ((counts - 1000) ** 2 / 1000).sum() < 43.8
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.03
    neighbours = draws.uniform(draws.sample_keys(3, 2, np.arange(20_000)), 0)
    assert abs(np.corrcoef(first, neighbours)[0, 1]) < 0.03


def test_mixing_tells_a_class_ordered_sequence_from_a_random_one() -> None:
    labels = np.repeat(np.arange(10), 100)
    assert order.mixing(labels, order.sequence(1000, 0, 0, mode="sequential"), 50) == 0.0
    assert order.mixing(labels, order.sequence(1000, 0, 0), 50) == pytest.approx(1.0, abs=0.02)
    assert order.mixing(np.zeros(10, np.int64), np.arange(10), 5) == 1.0
