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
