"""Draws taken at once are those that are taken one by one, and so are the boxes made of them."""

from __future__ import annotations

import numpy as np

from stoker.loader import boxes, draws

KEYS = draws.sample_keys(3, 1, np.arange(400))


def test_several_draws_at_once_are_the_single_ones() -> None:
    chance = draws.Chance(KEYS, 2)
    numbers = np.array([0, 7, 3])
    together = chance.uniforms(numbers, -1.0, 4.0)
    for draw, row in zip(numbers.tolist(), together, strict=True):
        np.testing.assert_array_equal(row, chance.uniform(draw, -1.0, 4.0))


def test_a_box_is_the_first_try_that_fits() -> None:
    chance = draws.Chance(KEYS, 0)
    found = boxes.resized(chance, (300, 500), (0.5, 1.5), (0.5, 2.0))
    for number in range(len(KEYS)):
        for attempt in range(boxes.TRIES):
            area = 300 * 500 * chance.uniform(2 * attempt, 0.5, 1.5)[number]
            shape = np.exp(chance.uniform(2 * attempt + 1, np.log(0.5), np.log(2.0))[number])
            high, wide = np.rint(np.sqrt(area / shape)), np.rint(np.sqrt(area * shape))
            if high <= 300 and wide <= 500:
                assert (found.height[number], found.width[number]) == (high, wide)
                break
