"""Which sample comes when: a pure function of the data's size, seed and epoch.

Rank, world, threads and the point of resumption never enter the order; they only say which part
of it is whose. So a run that goes on with another number of ranks sees the same sequence.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stoker.loader import draws

Indices = NDArray[np.int64]
Mode = Literal["global", "window", "sequential"]
MODES: tuple[Mode, ...] = ("global", "window", "sequential")

# A block is read in one go: 64 samples of 256² are 12 MB, where disks reach their full rate.
BLOCK = 64
# Blocks that are mixed with each other: 64 of 64 samples are 16 batches of 256.
WINDOW = 64


class Share(NamedTuple):
    """Which part of each global batch is this rank's. `batch_size` is one rank's."""

    batch_size: int
    rank: int = 0
    world_size: int = 1
    drop_last: bool = False

    @property
    def global_batch(self) -> int:
        """Samples that all ranks take together."""
        return self.batch_size * self.world_size


def sequence(
    count: int, seed: int, epoch: int, *, mode: Mode = "global", block: int = BLOCK
) -> Indices:
    """The samples of an epoch in their order, shape (count,): a permutation of 0 … count − 1.

    global: any sample anywhere. window: blocks of `block` neighbours in random order, samples
    mixed within every 64 blocks of it, so that reads stay near each other. sequential: as stored.
    """
    if mode == "sequential":
        return np.arange(count)
    key = draws.epoch_key(seed, epoch)
    if mode == "global":
        # All words differ, so any sort gives the same order.
        return np.argsort(draws.counted(key, np.arange(count)))
    blocks = np.argsort(draws.counted(key, np.arange(-(-count // block))))
    placed: Indices = (blocks[:, None] * block + np.arange(block)).ravel()
    placed = placed[placed < count]
    for start in range(0, count, block * WINDOW):
        window = placed[start : start + block * WINDOW]
        window[:] = window[np.argsort(draws.counted(key ^ 1, window))]
    return placed


def usable(left: int, share: Share) -> int:
    """How many of `left` samples are given out, over all ranks.

    Ranks get equally many, so that none waits for the others: what does not divide by the number
    of ranks (less than one sample each) is left out, with `drop_last` what fills no global batch.
    """
    return left - left % (share.global_batch if share.drop_last else share.world_size)


def batch_count(left: int, share: Share) -> int:
    """How many batches each rank gets from `left` samples."""
    return -(-usable(left, share) // share.global_batch)


def batch(samples: Indices, number: int, share: Share) -> Indices:
    """This rank's part of global batch `number`, counted from the first of `samples`."""
    start = number * share.global_batch
    stop = min(start + share.global_batch, usable(len(samples), share))
    size = max(0, stop - start) // share.world_size
    first = start + share.rank * size
    return samples[first : first + size]


def mixing(labels: NDArray[np.integer], samples: Indices, batch_size: int) -> float:
    """How mixed the batches are: 1 as in a random order, 0 when each holds a single class.

    The chance that two samples of a batch differ in class, over the chance that two of the whole
    data set do (Gini and Simpson's index). 1.0 for a data set of one class.
    """
    classes, codes = np.unique(labels, return_inverse=True)
    whole = _differing(np.bincount(codes))
    if whole == 0.0:
        return 1.0
    inside = [
        _differing(np.bincount(codes[samples[start : start + batch_size]], minlength=len(classes)))
        for start in range(0, len(samples) - batch_size + 1, batch_size)
    ]
    return float(np.mean(inside)) / whole if inside else 1.0


def _differing(counts: NDArray[np.integer]) -> float:
    """The chance that two different samples of these class counts are of different classes."""
    total = int(counts.sum())
    if total < 2:
        return 0.0
    return 1.0 - float((counts * (counts - 1.0)).sum()) / (total * (total - 1.0))
