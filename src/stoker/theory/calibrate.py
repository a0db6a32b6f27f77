"""From what was measured to what can be forecast: Profile -> Scenario.

Pure: reads a Profile and nothing else. Every cost names the leg that it comes from, and
the closed form of `pipeline`, given the Scenario, returns the loader's measured period.
"""

from __future__ import annotations

import msgspec

from stoker.records.profile import LegCode, Profile
from stoker.records.scenario import (
    LoaderSettings,
    Machine,
    Scenario,
    Workload,
)
from stoker.stats import Spread, difference
from stoker.theory.leg_costs import (
    cores_of,
    cpu_and_blocked,
    hand_off,
    ideal_period,
    measured_legs,
    own_pace,
    stage_costs,
)
from stoker.theory.pipeline import forecast

ZERO = Spread.exact(0.0)
# A scaling curve may not promise more than this for a worker count that nobody measured.
_LEAST_EFFICIENCY = 0.01
_START_DOUBT = 0.5
# What workers add to a step beside which none ran yet, as shares of it: low, middle, high. The
# healthy control cases lie between 0.5 and 4 % (benchmarks/doctor_fidelity.py prints them).
_UNSEEN_CONTENTION = (0.0, 0.01, 0.04)


def scenario_from(profile: Profile) -> Scenario:
    """The run as it was measured: what `forecast`, `gain` and every fix start from.

    CPU per sample is leg L's; the rest of its workers' time, less the wait for a core, is time
    blocked; D is the device, H − D the transfer, C − H the contention. Raises InputError when a
    leg is missing that nothing else can stand for.
    """
    facts, loader_leg, device = measured_legs(profile)
    per_step = facts.batches_per_step
    return Scenario(
        machine=_machine(profile),
        workload=Workload(
            batch_size=max(1, round(facts.batch_size * per_step)),
            stages=stage_costs(profile, loader_leg),
            device_s=device.period,
            transfer_s=_added(profile, LegCode.HOST, LegCode.DEVICE),
            contention_s=_added(profile, LegCode.CONTENDED, LegCode.HOST),
            epoch_edge_s=_epoch_edge(profile).scaled(per_step),
            training_cpu_s=_training_cpu(profile),
            sample_bytes=facts.batch_bytes / facts.batch_size if facts.batch_bytes else None,
            stored_bytes=profile.reads.bytes_per_read if profile.reads else None,
        ),
        loader=LoaderSettings(
            workers=facts.workers,
            prefetch_factor=facts.prefetch_factor or 2,
            persistent_workers=facts.persistent_workers,
            hand_off_s=hand_off(profile),
            receive_s=receive_at(profile, facts.workers),
            efficiency=efficiency_at(profile, facts.workers),
        ),
        basis="measured: " + ", ".join(profile.legs),
    )


def efficiency_at(profile: Profile, workers: int) -> float:
    """Share of the rate that `workers` workers would have at leg L's costs, as measured.

    1 is what the costs and the cores allow. The script's own count is read from leg C's loader
    (the one that runs beside the step) or L; others from the scaling points, straight between
    two of them and level beyond the last. Above 1: cheaper per sample than at the script's own.
    """
    _, leg, _ = measured_legs(profile)
    periods = {point.workers: point.period.median for point in profile.scaling}
    periods[leg.workers] = own_pace(profile, leg)
    curve = sorted(
        (count, max(_LEAST_EFFICIENCY, ideal_period(profile, leg, count) / period))
        for count, period in periods.items()
        if count >= 1 and period > 0
    )
    if not curve:
        return 1.0
    below = [point for point in curve if point[0] <= workers]
    above = [point for point in curve if point[0] >= workers]
    if not below:
        return curve[0][1]
    if not above:
        return curve[-1][1]
    (low, at_low), (high, at_high) = below[-1], above[0]
    if low == high:
        return at_low
    return at_low + (at_high - at_low) * (workers - low) / (high - low)


def receive_at(profile: Profile, workers: int) -> Spread:
    """CPU-seconds a step in which the training process takes batches from `workers` workers.

    Read from leg L with the nearest count that was measured; nothing without workers.
    """
    legs = [leg for leg in profile.scaling if leg.workers and leg.main_cpu_s is not None]
    own = profile.leg(LegCode.LOADER)
    if own is not None and own.workers and own.main_cpu_s is not None:
        legs.append(own)
    if not workers or not legs:
        return ZERO
    nearest = min(legs, key=lambda leg: abs(leg.workers - workers))
    return nearest.main_cpu_s or ZERO


def at_workers(profile: Profile, scenario: Scenario, workers: int) -> Scenario:
    """The run with that many workers: at the efficiency, the receiving and the start measured.

    Contention too is what leg C measured; where the run had no workers, what is usual.
    """
    loader = msgspec.structs.replace(
        scenario.loader,
        workers=workers,
        efficiency=efficiency_at(profile, workers) if workers else 1.0,
        receive_s=receive_at(profile, workers),
    )
    work = scenario.workload
    if workers and profile.loader is not None and not profile.loader.workers:
        low, middle, high = (share * work.device_s.median for share in _UNSEEN_CONTENTION)
        work = msgspec.structs.replace(work, contention_s=Spread(middle, low, high))
    after = msgspec.structs.replace(scenario, loader=loader, workload=work)
    epochs = profile.epochs
    if loader.persistent_workers or epochs is None or not epochs.batches or profile.loader is None:
        return after
    # All of them start anew at each epoch, and the step waits for their first batches. Where it
    # waits inside an epoch too, the first round comes at once and its own time is no loss.
    found = forecast(after)
    step_itself = found.terms[-1]
    waits = found.produce_s.median > step_itself.seconds.median
    usual = workers * found.produce_s.median if waits else 0.0
    share = profile.loader.batches_per_step / epochs.batches
    added = max(0.0, _start_at(profile, workers) - usual) - _start_at(
        profile, profile.loader.workers
    )
    if added <= 0:
        return after
    # One start, or two, were seen: half of it more or less is what the next one may take.
    edge = work.epoch_edge_s
    doubt = _START_DOUBT * added * share
    more = Spread(
        edge.median + added * share,
        edge.low + added * share - doubt,
        edge.high + added * share + doubt,
        edge.count,
    )
    workload = msgspec.structs.replace(work, epoch_edge_s=more)
    return msgspec.structs.replace(after, workload=workload)


def _start_at(profile: Profile, workers: int) -> float:
    """Seconds from the start of so many workers to their first batches.

    The script's own at its own count; else of leg L with the nearest count that was started.
    """
    own = profile.loader.workers if profile.loader else 0
    if workers and workers == own and profile.epochs is not None:
        return profile.epochs.start_s
    legs = [leg for leg in profile.scaling if leg.workers and leg.start_s > 0]
    if not workers or not legs:
        return 0.0
    return min(legs, key=lambda leg: abs(leg.workers - workers)).start_s


def _machine(profile: Profile) -> Machine:
    limit = profile.host.memory_limit_bytes
    return Machine(
        name=profile.environment.machine,
        cores=cores_of(profile),
        memory_bytes=None if limit is None else float(limit),
    )


def _added(profile: Profile, longer: LegCode, shorter: LegCode) -> Spread:
    """What the longer leg adds to the shorter one; nothing when either was not run."""
    first, second = profile.leg(longer), profile.leg(shorter)
    if first is None or second is None:
        return ZERO
    return difference(first.period, second.period)


def _epoch_edge(profile: Profile) -> Spread:
    """Seconds a batch, one boundary spread over the batches of an epoch."""
    epochs = profile.epochs
    if epochs is None or epochs.edge_s is None or not epochs.batches:
        return ZERO
    return epochs.edge_s.scaled(1 / epochs.batches)


def _training_cpu(profile: Profile) -> Spread:
    """CPU-seconds of the training process in a step; it takes its cores from the workers.

    Never more than the measured contended run had room for: threads that spin while they wait
    count as CPU time, but make room for workers.
    """
    leg = profile.leg(LegCode.HOST) or profile.leg(LegCode.DEVICE)
    if leg is None or leg.main_cpu_s is None:
        return ZERO
    contended = profile.leg(LegCode.CONTENDED)
    facts, loader_leg, _ = measured_legs(profile)
    if contended is None or facts.workers == 0:
        return leg.main_cpu_s
    longest = max(
        contended.period.median,
        contended.drain.median if contended.drain else 0.0,
    )
    loading = cpu_and_blocked(profile, loader_leg)[0].median
    room = max(0.0, cores_of(profile) * longest - loading)
    if leg.main_cpu_s.median <= room:
        return leg.main_cpu_s
    return Spread.exact(room, leg.main_cpu_s.count)
