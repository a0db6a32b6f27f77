"""A measured loader run again in simulation: its own batches, in the queue as it is and in others.

What varies is what was measured, so a heavy tail stays as heavy as it is. Pure: the draws are
seeded, so that the same batches have the same answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from stoker.errors import InputError
from stoker.stats import Spread
from stoker.theory.draws import COUNT, Draws, draw, noise
from stoker.theory.queue import loader_runs

# Batches are drawn in blocks, so that slow ones that come together stay together; in as many blocks
# as give the ends of a 95 % interval. With half of them 85 to 90 % of the intervals held the truth
# of a loader whose every tenth batch is slow.
_BLOCKS = 48
_SEED = 13


class Way(NamedTuple):
    """One way to queue: batches ahead for each worker, and whether they keep their order."""

    prefetch_factor: int
    in_order: bool = True


class Replay(NamedTuple):
    """Mean seconds of a batch in one way: its period, and the wait for it in that.

    One value for each draw of `draws.COUNT`, all ways with the same batches in the same draw; index
    0 is of the batches as they came.
    """

    step_s: Draws
    wait_s: Draws


def fewest_batches(ways: Sequence[Way], workers: int) -> int:
    """Batches below which these ways can't be told apart: the queue's own length, several times."""
    return max(2 * _BLOCKS, 4 * workers * max(way.prefetch_factor for way in ways))


def replay(
    costs_s: Sequence[float], step_s: Spread, ways: Sequence[Way], *, workers: int
) -> tuple[Replay, ...]:
    """Each way with these batches, in the order of the ways.

    `costs_s`: one worker's seconds for single batches, as they came; `step_s`: seconds for which
    the consumer works on a batch. Raises InputError without workers, and for fewer batches than
    `fewest_batches`.
    """
    least = fewest_batches(ways, workers)
    if workers < 1 or len(costs_s) < least:
        raise InputError(
            f"{len(costs_s)} batches of {workers} workers tell nothing of a queue",
            looked_at="the seconds of single batches",
            run_next=f"give {least} batches or more, of 1 worker or more",
        )
    # What fills the queue is not counted, and is as long in all ways: it only begins the run.
    warm_up = 2 * workers * max(way.prefetch_factor for way in ways)
    drawn = _drawn(np.asarray(costs_s, dtype=np.float64), workers)
    batches = drawn[:, np.arange(-warm_up, drawn.shape[1]) % drawn.shape[1]]
    steps = draw(step_s, noise("step"))[:, None]
    found = []
    for way in ways:
        runs = loader_runs(
            batches,
            steps,
            workers=workers,
            prefetch_factor=way.prefetch_factor,
            in_order=way.in_order,
            warm_up=warm_up,
        )
        found.append(Replay(runs.step_s, runs.wait_s))
    return tuple(found)


def _drawn(costs_s: Draws, workers: int) -> Draws:
    """Rows of batches drawn in blocks of whole rounds of workers; the first row as they came."""
    block = workers * max(1, len(costs_s) // (_BLOCKS * workers))
    count = len(costs_s) // block
    blocks = costs_s[: count * block].reshape(count, block)
    picks = np.random.default_rng(_SEED).integers(0, count, size=(COUNT, count))
    picks[0] = np.arange(count)
    return blocks[picks].reshape(COUNT, count * block)
