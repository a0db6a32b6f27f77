"""Random numbers that are a function of (seed, epoch, sample), never of who draws them or when.

So a crop is the same for any number of threads, ranks and workers, and after any resumption.
A counter goes through the finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014), which is
a bijection of 64-bit words; NumPy's own generators may change between its versions (NEP 19).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]

_WORD = (1 << 64) - 1
# 2**64 over the golden ratio, odd: consecutive counters are spread over all words.
_STEP = 0x9E3779B97F4A7C15
_MULTIPLIERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
# A double holds 53 bits.
_TO_UNIT = 2.0**-53
# Draws that one step may take for a sample; each step has a range of its own.
_DRAWS_A_STEP = 1 << 10
# The step of a loader's own crop. Those of a recipe are counted from the next one on: with the same
# draws for both, a picture would be flipped exactly where its crop lies in the upper half.
CROP_STEP = 0


def epoch_key(seed: int, epoch: int) -> int:
    """One word for an epoch of a seed."""
    return _mixed_number(_mixed_number(seed & _WORD) ^ ((epoch + 1) * _STEP & _WORD))


def sample_keys(seed: int, epoch: int, samples: NDArray[np.integer]) -> Words:
    """One word a sample, shape as `samples`; different samples have different words."""
    return counted(epoch_key(seed, epoch), samples)


def counted(key: int, counters: NDArray[np.integer]) -> Words:
    """The words that a key gives for counters from 0 on: no two alike."""
    steps = (counters.astype(np.uint64) + np.uint64(1)) * np.uint64(_STEP)
    return _mixed(steps + np.uint64(key))


def uniform(keys: Words, draw: int) -> NDArray[np.float64]:
    """The draw of that number for each key, in [0, 1), shape as `keys`."""
    return _to_unit(_mixed(keys + np.uint64((draw + 1) * _STEP & _WORD)))


def uniforms(keys: Words, draws: NDArray[np.integer]) -> NDArray[np.float64]:
    """The draws of those numbers for each key, in [0, 1), shape (draws, *keys)."""
    steps = (draws.astype(np.uint64) + np.uint64(1)) * np.uint64(_STEP)
    return _to_unit(_mixed(keys + steps.reshape(-1, *[1] * keys.ndim)))


def below(keys: Words, draw: int, bounds: int | NDArray[np.integer]) -> NDArray[np.int64]:
    """Integers in [0, bounds); the bias is below bounds · 2**-53."""
    return (uniform(keys, draw) * bounds).astype(np.int64)


class Chance:
    """The random numbers of one step: one a sample for each draw, shape (batch,)."""

    def __init__(self, keys: Words, step: int) -> None:
        self._keys = keys
        self._first = step * _DRAWS_A_STEP

    def __len__(self) -> int:
        return len(self._keys)

    def uniform(self, draw: int, low: float = 0.0, high: float = 1.0) -> NDArray[np.float64]:
        """Numbers in [low, high)."""
        return low + uniform(self._keys, self._first + draw) * (high - low)

    def uniforms(
        self, draws: NDArray[np.integer], low: float = 0.0, high: float = 1.0
    ) -> NDArray[np.float64]:
        """Several draws at once: numbers in [low, high), shape (draws, batch)."""
        return low + uniforms(self._keys, self._first + draws) * (high - low)

    def below(self, draw: int, bounds: int | NDArray[np.integer]) -> NDArray[np.int64]:
        """Integers in [0, bounds)."""
        return below(self._keys, self._first + draw, bounds)


def _to_unit(words: Words) -> NDArray[np.float64]:
    numbers: NDArray[np.float64] = (words >> np.uint64(11)).astype(np.float64) * _TO_UNIT
    return numbers


def _mixed(words: Words) -> Words:
    words = (words ^ (words >> np.uint64(30))) * np.uint64(_MULTIPLIERS[0])
    words = (words ^ (words >> np.uint64(27))) * np.uint64(_MULTIPLIERS[1])
    return words ^ (words >> np.uint64(31))


def _mixed_number(word: int) -> int:
    """The same for one Python number, which does not wrap by itself."""
    word = (word ^ (word >> 30)) * _MULTIPLIERS[0] & _WORD
    word = (word ^ (word >> 27)) * _MULTIPLIERS[1] & _WORD
    return word ^ (word >> 31)
