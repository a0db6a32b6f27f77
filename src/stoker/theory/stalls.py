"""What variance of the loading time costs beyond the closed form: a simulated loader, many batches.

Pure: the draws are seeded, so that the same question has the same answer.
"""

from __future__ import annotations

import math

import msgspec
import numpy as np

from stoker.errors import InputError
from stoker.records.scenario import Scenario
from stoker.theory.pipeline import forecast
from stoker.theory.queue import loader_run

# Enough batches that the mean of a heavy tail is known to a few per cent.
_BATCHES = 2_000
# Beyond so many samples a batch, their sum varies as that of so many with a scaled variation.
_MOST_DRAWN = 64
_SEED = 11
DEPTHS = (2, 4, 8)


class Stall(msgspec.Struct, frozen=True, kw_only=True):
    """Utilisation with varying loading times, for one way to queue batches."""

    prefetch_factor: int
    in_order: bool
    au: float
    wait_s: float  # for a batch, mean


# A log-normal of this variation has its mean at its 99.9th percentile: beyond it says nothing.
_MOST_VARIATION = 100.0


def stalls(scenario: Scenario, variation: float) -> tuple[Stall, ...]:
    """The scenario with loading times of that coefficient of variation a sample.

    One entry for each depth of the queue in order, and one for the scenario's own depth out of
    order. A sample's time is log-normal. Raises InputError for a variation that is none, and for
    a loader without workers: it has no queue.
    """
    if not 0 <= variation <= _MOST_VARIATION:
        raise InputError(
            f"the variation is {variation}: it must lie between 0 and {_MOST_VARIATION:g}",
            looked_at="the standard deviation of a sample's loading time over its mean",
            run_next="give for example --variation 1.5",
        )
    workers = scenario.loader.workers
    if workers == 0:
        raise InputError(
            "without workers nothing is queued, and variance costs nothing",
            looked_at="0 workers",
            run_next="give --workers 1 or more",
        )
    found = forecast(scenario)
    consume = found.terms[-1].seconds.median
    # So much that the workers together make a batch in the closed form's time.
    batch_s = _varying(found.produce_s.median * workers, scenario.workload.batch_size, variation)
    ways = [(depth, True) for depth in DEPTHS]
    ways.append((scenario.loader.prefetch_factor, False))
    made = []
    for depth, in_order in ways:
        run = loader_run(
            batch_s, [consume], workers=workers, prefetch_factor=depth, in_order=in_order
        )
        au = scenario.workload.device_s.median / run.step_s
        made.append(Stall(prefetch_factor=depth, in_order=in_order, au=au, wait_s=run.wait_s))
    return tuple(made)


def _varying(mean_s: float, samples: int, variation: float) -> list[float]:
    """Times of batches with a given mean, each the sum of so many log-normal samples."""
    drawn = min(samples, _MOST_DRAWN)
    single = variation * math.sqrt(drawn / samples)
    sigma = math.sqrt(math.log1p(single**2))
    rng = np.random.default_rng(_SEED)
    sums = rng.lognormal(0.0, sigma, (_BATCHES, drawn)).sum(axis=1)
    times: list[float] = (sums * (mean_s / sums.mean())).tolist()
    return times
