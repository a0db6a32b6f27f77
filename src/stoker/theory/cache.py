"""How much of a data set the page cache serves from the second epoch on."""

from __future__ import annotations

import math


def cached_share(memory_bytes: float, dataset_bytes: float) -> float:
    """Share of the reads of a shuffled epoch that find their sample in memory.

    With f = memory / data set below 1, a sample read at position x of one epoch and y of the next
    is still there when no more than f of the others came between, 1 − x·(1 − y) ≤ f, which for two
    independent uniform positions has the probability f + (1 − f)·ln(1 − f): least-recently-used
    eviction keeps far less than f (Mohan et al., Analyzing and Mitigating Data Stalls, VLDB 2021,
    measured the same thrashing). Linux keeps a little more than LRU, so this is the cautious end.
    """
    fraction = memory_bytes / dataset_bytes
    if fraction >= 1:
        return 1.0
    return max(0.0, fraction + (1 - fraction) * math.log1p(-fraction))
