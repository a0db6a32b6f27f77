"""Batches that are kept for the legs without a loader."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from stoker.probe.kept import KeptBatches, half_of


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


def test_batches_that_can_be_used_only_once_are_not_kept_nor_asked_again() -> None:
    kept = KeptBatches()
    assert not kept.keep([torch.zeros(2), iter([1])], lambda leaf: leaf)
    assert not kept
    assert "list_iterator" in kept.refusal
    assert not kept.keep(torch.zeros(2), None)


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


@pytest.mark.parametrize(
    ("batch", "batch_size", "is_halved"),
    [
        ((torch.zeros(4, 3), torch.arange(4)), 4, True),
        ({"image": torch.zeros(4, 3), "mask": np.zeros((4, 2))}, 4, True),
        pytest.param((torch.zeros(4, 3), torch.tensor(0.5)), 4, False, id="a number of the batch"),
        pytest.param((torch.zeros(4, 3), 4), 4, False, id="its number of samples"),
        pytest.param((torch.zeros(4, 3), ["a", "b", "c", "d"]), 4, False, id="a list"),
        pytest.param((torch.zeros(4, 3), torch.zeros(9)), 4, False, id="of something else"),
        pytest.param(torch.zeros(7, 4), 4, False, id="the batch is another dimension"),
        pytest.param(torch.zeros(4, 3), None, False, id="nobody says how many samples"),
        pytest.param(torch.zeros(3, 3), 3, False, id="half of it is one sample"),
    ],
)
def test_what_is_nothing_but_samples_can_be_halved(
    batch: Any, batch_size: int | None, is_halved: bool
) -> None:
    kept = KeptBatches()
    assert not kept.has_halves_of(batch_size)
    kept.keep(batch, None)
    assert kept.has_halves_of(batch_size) == is_halved


def test_a_half_is_the_first_samples_of_each_part_and_leaves_the_whole_as_it_was() -> None:
    kept = KeptBatches()
    kept.keep((torch.arange(5.0), np.arange(10).reshape(5, 2)), lambda leaf: leaf)
    for on_device in (False, True):
        numbers, pairs = kept.hand_out(on_device=on_device, halved=True)
        assert numbers.tolist() == [0.0, 1.0]
        assert pairs.tolist() == [[0, 1], [2, 3]]
        numbers.add_(7.0)
        pairs += 7
        whole, rest = kept.hand_out(on_device=on_device)
        assert whole.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
        assert rest.tolist() == np.arange(10).reshape(5, 2).tolist()
    assert half_of(5) == 2
