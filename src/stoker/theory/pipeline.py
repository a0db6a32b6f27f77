"""The steady state of a loading pipeline feeding one accelerator: the one closed form.

Every promised gain in Stoker is `gain(before, after)` of this module; there is no second formula.

Symbols: B samples a step; c CPU-seconds and l blocked seconds a sample; W workers of efficiency η;
h hand-off seconds a batch; b bytes stored, q reads and s finished bytes a sample, m the share of
samples not in the page cache; D device, X exposed transfer, N contention, M CPU of the training
process, r its taking of a finished batch, seconds a step. K cores, S requests served at once, V
bytes and I reads a second of the store are the accelerator's share of the host's; Λ is its link.
What is unknown bounds nothing.

    stored    F = max(B·m·b / V,  B·m·q / I)
    W = 0:  produce P = max(B·(c + l), F)                  step = P + D + X
    W ≥ 1:  produce P = max(B·c / (η·min(W, K)),           cores
                            B·(c + l) / (η·W),             one worker does one sample at a time
                            B·l / S,                       S requests the store serves at once
                            F,                             the store's bandwidth and read rate
                            h)                             one loader process takes the batches
            step = max(P,
                       D + X + N + r,
                       (B·c + M) / K,                      workers and training share the cores
                       B·s / Λ)                            the link, also when it is overlapped

and E, the share of epoch boundaries with the start of workers that are new at each, is added to
both. X is 0 where the transfer is overlapped.
Sources: the bottleneck law of a closed pipeline (Denning and Buzen, Computing Surveys 1978); the
same maximum for input pipelines in Kuchnik et al., Plumber, MLSys 2022.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from stoker.records.scenario import Forecast, Resource, Scenario, Term
from stoker.stats import Spread

_DRAWS = 400
_SEED = 7
# A 95 % interval of a normal estimate is this many standard errors to each side.
_Z95 = 1.96
# What the closed form leaves out (jitter, caches, clocks that follow the load) moved gains by up to
# this share when changes were made by hand (benchmarks/promises.py: 2 to 4 % in each of them).
_MODEL_SHARE = 0.05

# Against division by zero where an interval of a step reaches down to nothing.
_NO_TIME = 1e-9
# Loading of a smaller share of the step, in turns with it, is no limit of its own.
_TURN = 0.05

Draws = NDArray[np.float64]


def _draw(spread: Spread, standard: Draws) -> Draws:
    """Possible values of a spread; lower and upper half widths are kept apart.

    An open interval (one observation) is taken as ±50 %, so that it can't promise anything.
    """
    if spread.low == spread.high:
        return np.full(_DRAWS, max(spread.median, 0.0))
    low = spread.low if np.isfinite(spread.low) else 0.5 * spread.median
    high = spread.high if np.isfinite(spread.high) else 1.5 * spread.median
    down, up = (spread.median - low) / _Z95, (high - spread.median) / _Z95
    return np.maximum(spread.median + np.where(standard < 0, down, up) * standard, 0.0)


@lru_cache(maxsize=256)
def _noise(name: str) -> Draws:
    """The standard normal series of a named input, the same for `before` and `after`.

    What both scenarios share moves together, so it cancels in the ratio as it does in reality.
    """
    draws = np.random.default_rng([_SEED, *name.encode()]).standard_normal(_DRAWS)
    draws[0] = 0.0  # the first draw is the central estimate itself
    draws.flags.writeable = False  # shared by every forecast of the process
    return draws


class _Bound:
    """One term of a maximum: seconds a step of one resource, as draws."""

    def __init__(self, name: str, resource: Resource, seconds: Draws) -> None:
        self.name = name
        self.resource = resource
        self.seconds = seconds


class _Terms:
    """Every term of the closed form as draws, index 0 the central estimate."""

    def __init__(self, scenario: Scenario) -> None:
        work, loader = scenario.workload, scenario.loader
        cpu, blocked = _host_work(scenario)
        self.device = _draw(work.device_s, _noise("device"))
        edge = _draw(work.epoch_edge_s, _noise("edge"))
        transfer = (
            np.zeros(_DRAWS)
            if loader.transfer_overlapped
            else _draw(work.transfer_s, _noise("transfer"))
        )
        consume = self.device + transfer
        stored = _stored_bounds(scenario)
        if loader.workers == 0:
            self.bounds = [
                _Bound("loading on the CPU", Resource.CORES, cpu),
                _Bound("waiting for storage", Resource.STORAGE, blocked),
                *stored,
            ]
            self.produce = _longest([cpu + blocked, *(bound.seconds for bound in stored)])
            self.step = self.produce + consume + edge
            host_bound = self.produce[0] >= consume[0]
        else:
            consume = consume + _draw(work.contention_s, _noise("contention"))
            consume = consume + _draw(loader.receive_s, _noise("receive"))
            produced = [*_worker_bounds(scenario, cpu, blocked), *stored]
            shared = _shared_bounds(scenario, cpu)
            self.bounds = [*produced, *shared]
            self.produce = _longest([bound.seconds for bound in produced])
            self.step = _longest([bound.seconds for bound in self.bounds] + [consume]) + edge
            host_bound = self.step[0] - edge[0] > consume[0]
        slowest = max(self.bounds, key=lambda bound: bound.seconds[0])
        self.bounds.append(_Bound("the step itself", Resource.ACCELERATOR, consume))
        self.limit = slowest.resource if host_bound else Resource.ACCELERATOR
        if loader.workers == 0 and not host_bound and self.produce[0] > _TURN * self.step[0]:
            self.limit = Resource.TURNS


def _host_work(scenario: Scenario) -> tuple[Draws, Draws]:
    """B·c and B·l: CPU-seconds and blocked seconds of a batch."""
    work = scenario.workload
    cpu, blocked = np.zeros(_DRAWS), np.zeros(_DRAWS)
    for cost in work.stages:
        per_batch = work.batch_size * _draw(cost.per_sample, _noise(f"stage {cost.stage}"))
        if cost.resource is Resource.CORES:
            cpu = cpu + per_batch
        else:
            blocked = blocked + per_batch
    return cpu, blocked


def _worker_bounds(scenario: Scenario, cpu: Draws, blocked: Draws) -> list[_Bound]:
    """B·c / (η·min(W, K)), B·(c + l) / (η·W), B·l / S and h."""
    loader, machine = scenario.loader, scenario.machine
    cores = machine.cores / machine.accelerators
    waiting = Resource.STORAGE if blocked[0] > cpu[0] else Resource.CORES
    bounds = [
        _Bound("cores", Resource.CORES, cpu / (loader.efficiency * min(loader.workers, cores))),
        _Bound("workers", waiting, (cpu + blocked) / (loader.efficiency * loader.workers)),
    ]
    if machine.storage_slots is not None:
        slots = machine.storage_slots / machine.accelerators
        bounds.append(_Bound("requests at once", Resource.STORAGE, blocked / slots))
    if loader.hand_off_s > 0:
        bounds.append(_Bound("hand-off", Resource.MEMORY, np.full(_DRAWS, loader.hand_off_s)))
    return bounds


def _stored_bounds(scenario: Scenario) -> list[_Bound]:
    """B·m·b / V and B·m·q / I, where they are known."""
    work, machine = scenario.workload, scenario.machine
    missed = work.batch_size * (1 - work.cached_share) * machine.accelerators
    bounds = []
    if machine.storage_bytes_per_s is not None and work.stored_bytes is not None:
        seconds = missed * work.stored_bytes / machine.storage_bytes_per_s
        bounds.append(_Bound("storage bandwidth", Resource.STORAGE, np.full(_DRAWS, seconds)))
    if machine.storage_reads_per_s is not None:
        seconds = missed * work.reads / machine.storage_reads_per_s
        bounds.append(_Bound("storage reads", Resource.STORAGE, np.full(_DRAWS, seconds)))
    return bounds


def _shared_bounds(scenario: Scenario, cpu: Draws) -> list[_Bound]:
    """(B·c + M) / K and B·s / Λ: what loading and training use at the same time."""
    work, machine = scenario.workload, scenario.machine
    bounds = []
    if work.training_cpu_s.median > 0:
        training = _draw(work.training_cpu_s, _noise("training cpu"))
        cores = machine.cores / machine.accelerators
        bounds.append(_Bound("cores, with training", Resource.CORES, (cpu + training) / cores))
    if machine.link_bytes_per_s is not None and work.sample_bytes is not None:
        seconds = work.batch_size * work.sample_bytes / machine.link_bytes_per_s
        bounds.append(_Bound("link", Resource.LINK, np.full(_DRAWS, seconds)))
    return bounds


def _longest(series: list[Draws]) -> Draws:
    longest = series[0]
    for other in series[1:]:
        longest = np.maximum(longest, other)
    return longest


def _spread(draws: Draws) -> Spread:
    """The central draw with the 2.5 % and 97.5 % quantiles of all of them."""
    centre = float(draws[0])
    ordered = np.sort(draws)
    last = len(ordered) - 1
    low, high = np.interp((0.025 * last, 0.975 * last), np.arange(last + 1), ordered)
    return Spread(centre, min(float(low), centre), max(float(high), centre))


def forecast(scenario: Scenario) -> Forecast:
    """Seconds a step and what limits them, with 95 % intervals from the inputs' own."""
    terms = _Terms(scenario)
    return Forecast(
        step_s=_spread(terms.step),
        samples_per_s=_spread(scenario.workload.batch_size / terms.step),
        au=_spread(terms.device / terms.step),
        limit=terms.limit,
        produce_s=_spread(terms.produce),
        terms=tuple(
            Term(name=bound.name, resource=bound.resource, seconds=_spread(bound.seconds))
            for bound in terms.bounds
        ),
        basis=scenario.basis,
    )


def gain(before: Scenario, after: Scenario) -> Spread:
    """Wall time for the same number of samples, before over after, with its 95 % interval."""
    was, becomes = _Terms(before), _Terms(after)
    per_sample = after.workload.batch_size / before.workload.batch_size
    spread = _spread(was.step / becomes.step * per_sample)
    # The more a change takes away, the more rests on the equations instead of on the measurement.
    doubt = spread.median * _MODEL_SHARE * min(1.0, 2 * abs(1 - 1 / spread.median))
    return Spread(
        spread.median,
        spread.median - math.hypot(spread.median - spread.low, doubt),
        spread.median + math.hypot(spread.high - spread.median, doubt),
        spread.count,
    )


def cores_needed(scenario: Scenario) -> float:
    """Cores that one accelerator needs for utilisation 1: B·c / D, over the workers' efficiency."""
    return cores_spread(scenario).median


def cores_spread(scenario: Scenario) -> Spread:
    """The same with its 95 % interval."""
    cpu, _ = _host_work(scenario)
    device = _draw(scenario.workload.device_s, _noise("device"))
    return _spread(cpu / (np.maximum(device, _NO_TIME) * scenario.loader.efficiency))
