"""Batches that are kept for the legs without a loader."""

from __future__ import annotations

import torch
from torch.utils.data import DataLoader, TensorDataset

from stoker.probe.kept import KeptBatches


def test_the_last_partial_batch_of_an_epoch_is_never_kept() -> None:
    """A batch of another shape makes libraries tune anew: a step on it is no step of the run."""
    kept = KeptBatches()
    loader = DataLoader(TensorDataset(torch.arange(10.0)), batch_size=4)
    taken = [kept.keep(batch, None) for _ in range(2) for batch in loader]
    assert taken == [True, True, False] * 2
    assert {len(kept.hand_out()[0]) for _ in range(8)} == {4}


def test_eight_batches_are_enough() -> None:
    kept = KeptBatches()
    while not kept.is_full:
        assert kept.keep(torch.zeros(2), None)
    assert len(kept) == 8


def sentences(lengths: list[int]) -> KeptBatches:
    """Kept are the first eight batches; the others pass by."""
    kept = KeptBatches()
    for length in lengths:
        batch = torch.zeros(4, length)
        if kept.is_full:
            kept.note(batch)
        else:
            kept.keep(batch, None)
    return kept


def given(kept: KeptBatches, count: int, *, is_weighed: bool) -> list[int]:
    return [kept.hand_out(is_weighed=is_weighed).shape[1] for _ in range(count)]


def test_batches_of_unequal_sizes_are_given_as_often_as_makes_their_mean_that_of_all() -> None:
    first = [20, 25, 30, 40, 45, 50, 60, 90]
    kept = sentences([*first, *range(20, 101)])
    wanted = (sum(first) + sum(range(20, 101))) / (8 + 81)
    lengths = given(kept, 80, is_weighed=True)
    assert abs(sum(lengths) / 80 / wanted - 1) < 0.02
    assert len(set(lengths)) >= 6, "many of them, not the one that is nearest"
    assert sum(given(kept, 80, is_weighed=False)) / 80 == sum(first) / 8


def test_the_last_batch_of_an_epoch_and_batches_of_one_size_weigh_nothing() -> None:
    kept = sentences([20, 90] * 4)
    before = given(kept, 16, is_weighed=True)
    kept.note(torch.zeros(1, 400))
    assert given(kept, 16, is_weighed=True) == before
    even = sentences([50] * 8)
    even.note(torch.zeros(4, 90))
    assert given(even, 8, is_weighed=True) == [50] * 8
