"""The steady state of a loading pipeline feeding one accelerator: the one closed form.

Every promised gain in Stoker is `gain(before, after)` of this module; there is no second formula.
Only what another queue gives is simulated (`replay`), because no mean tells it.

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

import numpy as np

from stoker.records.scenario import Forecast, Resource, Scenario, Term
from stoker.stats import Spread
from stoker.theory.draws import COUNT, Draws, doubted, draw, noise, spread_of

# Against division by zero where an interval of a step reaches down to nothing.
_NO_TIME = 1e-9
# Loading of a smaller share of the step, in turns with it, is no limit of its own.
_TURN = 0.05


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
        self.device = draw(work.device_s, noise("device"))
        edge = draw(work.epoch_edge_s, noise("edge"))
        transfer = (
            np.zeros(COUNT)
            if loader.transfer_overlapped
            else draw(work.transfer_s, noise("transfer"))
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
            consume = consume + draw(work.contention_s, noise("contention"))
            consume = consume + draw(loader.receive_s, noise("receive"))
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
    cpu, blocked = np.zeros(COUNT), np.zeros(COUNT)
    for cost in work.stages:
        per_batch = work.batch_size * draw(cost.per_sample, noise(f"stage {cost.stage}"))
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
        bounds.append(_Bound("hand-off", Resource.MEMORY, np.full(COUNT, loader.hand_off_s)))
    return bounds


def _stored_bounds(scenario: Scenario) -> list[_Bound]:
    """B·m·b / V and B·m·q / I, where they are known."""
    work, machine = scenario.workload, scenario.machine
    missed = work.batch_size * (1 - work.cached_share) * machine.accelerators
    bounds = []
    if machine.storage_bytes_per_s is not None and work.stored_bytes is not None:
        seconds = missed * work.stored_bytes / machine.storage_bytes_per_s
        bounds.append(_Bound("storage bandwidth", Resource.STORAGE, np.full(COUNT, seconds)))
    if machine.storage_reads_per_s is not None:
        seconds = missed * work.reads / machine.storage_reads_per_s
        bounds.append(_Bound("storage reads", Resource.STORAGE, np.full(COUNT, seconds)))
    return bounds


def _shared_bounds(scenario: Scenario, cpu: Draws) -> list[_Bound]:
    """(B·c + M) / K and B·s / Λ: what loading and training use at the same time."""
    work, machine = scenario.workload, scenario.machine
    bounds = []
    if work.training_cpu_s.median > 0:
        training = draw(work.training_cpu_s, noise("training cpu"))
        cores = machine.cores / machine.accelerators
        bounds.append(_Bound("cores, with training", Resource.CORES, (cpu + training) / cores))
    if machine.link_bytes_per_s is not None and work.sample_bytes is not None:
        seconds = work.batch_size * work.sample_bytes / machine.link_bytes_per_s
        bounds.append(_Bound("link", Resource.LINK, np.full(COUNT, seconds)))
    return bounds


def _longest(series: list[Draws]) -> Draws:
    longest = series[0]
    for other in series[1:]:
        longest = np.maximum(longest, other)
    return longest


def forecast(scenario: Scenario) -> Forecast:
    """Seconds a step and what limits them, with 95 % intervals from the inputs' own."""
    terms = _Terms(scenario)
    return Forecast(
        step_s=spread_of(terms.step),
        samples_per_s=spread_of(scenario.workload.batch_size / terms.step),
        au=spread_of(terms.device / terms.step),
        limit=terms.limit,
        produce_s=spread_of(terms.produce),
        terms=tuple(
            Term(name=bound.name, resource=bound.resource, seconds=spread_of(bound.seconds))
            for bound in terms.bounds
        ),
        basis=scenario.basis,
    )


def gain(before: Scenario, after: Scenario) -> Spread:
    """Wall time for the same number of samples, before over after, with its 95 % interval."""
    was, becomes = _Terms(before), _Terms(after)
    per_sample = after.workload.batch_size / before.workload.batch_size
    return doubted(spread_of(was.step / becomes.step * per_sample))


def cores_needed(scenario: Scenario) -> float:
    """Cores that one accelerator needs for utilisation 1: B·c / D, over the workers' efficiency."""
    return cores_spread(scenario).median


def cores_spread(scenario: Scenario) -> Spread:
    """The same with its 95 % interval."""
    cpu, _ = _host_work(scenario)
    device = draw(scenario.workload.device_s, noise("device"))
    return spread_of(cpu / (np.maximum(device, _NO_TIME) * scenario.loader.efficiency))
