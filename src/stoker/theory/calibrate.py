"""From what was measured to what can be forecast: Profile -> Scenario.

Pure: reads a Profile and nothing else. Every cost names the leg that it comes from, and
the closed form of `pipeline`, given the Scenario, returns the loader's measured period.
"""

from __future__ import annotations

import math

import msgspec

from stoker.errors import InputError
from stoker.records.profile import Leg, LegCode, LoaderFacts, Profile, StageTime
from stoker.records.scenario import (
    LoaderSettings,
    Machine,
    Resource,
    Scenario,
    StageCost,
    Workload,
)
from stoker.stats import Spread, difference
from stoker.theory.pipeline import forecast

ZERO = Spread.exact(0.0)
# Workers that keep this share of the cores busy wait for a core, not for a disk, when their run
# queue was not read: one part in ten is what accounting in clock ticks can miss.
_CORES_FULL = 0.9
# N within this share of L: the workers stand at the hand-off, and their waiting is not storage's.
_HANDOFF_BOUND = 0.8
# A step this much longer than beside a drained loader waits for its batches.
_WAITS = 1.1
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
    facts, loader_leg, device = _wanted(profile)
    per_step = facts.batches_per_step
    return Scenario(
        machine=_machine(profile),
        workload=Workload(
            batch_size=max(1, round(facts.batch_size * per_step)),
            stages=_stages(profile, loader_leg),
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
            hand_off_s=_hand_off(profile),
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
    _, leg, _ = _wanted(profile)
    periods = {point.workers: point.period.median for point in profile.scaling}
    periods[leg.workers] = _own_pace(profile, leg)
    curve = sorted(
        (count, max(_LEAST_EFFICIENCY, _ideal_period(profile, leg, count) / period))
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


def _own_pace(profile: Profile, leg: Leg) -> float:
    """The loader's period at the script's own worker count, in the run itself.

    Where the step waits for its batches, leg R is that period, seen longest and in place; else L.
    A loader of twice the step's pace is not what it waits for.
    """
    real, contended = profile.leg(LegCode.REAL), profile.leg(LegCode.CONTENDED)
    if contended is None or real is None:
        return leg.period.median
    is_starved = real.period.median > _WAITS * contended.period.median
    keeps_up = leg.period.median < contended.period.median / 2
    return real.period.median if is_starved and not keeps_up else leg.period.median


def _disagreement(profile: Profile, leg: Leg) -> float:
    """By how much the legs that time the same loader differ, as a share: no number is surer."""
    pace = _own_pace(profile, leg)
    contended = profile.leg(LegCode.CONTENDED)
    if leg.workers == 0 or contended is None or pace <= _WAITS * contended.period.median:
        return 0.0
    seen = [leg.period.median]
    if contended.drain is not None:
        seen.append(contended.drain.median)
    return min(abs(period / pace - 1) for period in seen)


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


def _wanted(profile: Profile) -> tuple[LoaderFacts, Leg, Leg]:
    """The three things without which there is nothing to forecast from."""
    loader_leg = profile.leg(LegCode.LOADER)
    device = profile.leg(LegCode.DEVICE)
    missing = [
        name
        for name, part in (
            ("the loader's settings", profile.loader),
            ("leg L (loader only)", loader_leg),
            ("leg D (device only)", device),
        )
        if part is None
    ]
    if profile.loader is None or loader_leg is None or device is None:
        raise InputError(
            f"the profile has no {' and no '.join(missing)}: nothing to forecast from",
            looked_at=f"legs {', '.join(profile.legs) or 'none'}; the run ended: {profile.end}",
            run_next="stoker doctor --budget 60 SCRIPT measures for longer",
        )
    return profile.loader, loader_leg, device


def _machine(profile: Profile) -> Machine:
    host = profile.host
    cores = host.cores_owned
    if host.worker_affinity is not None:
        cores = min(cores, float(host.worker_affinity))
    return Machine(
        name=profile.environment.machine,
        cores=cores,
        memory_bytes=None if host.memory_limit_bytes is None else float(host.memory_limit_bytes),
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


def _hand_off(profile: Profile) -> float:
    """Leg N, seconds a step: what passing it on costs without any work in it.

    No more than the loader's own period: the empty batch is written anew, its own may be a view.
    """
    null, alone = profile.leg(LegCode.NULL), profile.leg(LegCode.LOADER)
    if null is None or null.workers < 1 or alone is None:
        return 0.0
    return min(null.period.median, alone.period.median)


def _training_cpu(profile: Profile) -> Spread:
    """CPU-seconds of the training process in a step; it takes its cores from the workers.

    Never more than the measured contended run had room for: threads that spin while they wait
    count as CPU time, but make room for workers.
    """
    leg = profile.leg(LegCode.HOST) or profile.leg(LegCode.DEVICE)
    if leg is None or leg.main_cpu_s is None:
        return ZERO
    contended = profile.leg(LegCode.CONTENDED)
    facts, loader_leg, _ = _wanted(profile)
    if contended is None or facts.workers == 0:
        return leg.main_cpu_s
    longest = max(
        contended.period.median,
        contended.drain.median if contended.drain else 0.0,
    )
    loading = _cpu_and_blocked(profile, loader_leg)[0].median
    room = max(0.0, _machine(profile).cores * longest - loading)
    if leg.main_cpu_s.median <= room:
        return leg.main_cpu_s
    return Spread.exact(room, leg.main_cpu_s.count)


def _ideal_period(profile: Profile, leg: Leg, workers: int) -> float:
    """Seconds a step with `workers` perfect workers at the costs of leg L (see `pipeline`)."""
    cpu, blocked = (part.median for part in _cpu_and_blocked(profile, leg))
    cores = min(float(workers), _machine(profile).cores)
    return max(cpu / cores, (cpu + blocked) / workers)


def _cpu_and_blocked(profile: Profile, leg: Leg) -> tuple[Spread, Spread]:
    """CPU-seconds and blocked seconds of the workers for one step, from leg L."""
    workers = max(1, leg.workers)
    present = leg.period.scaled(workers)
    cpu = leg.cpu_s if leg.cpu_s is not None else _stage_cpu(profile, present)
    blocked = difference(present, cpu)
    if leg.runqueue_s is not None:
        blocked = difference(blocked, leg.runqueue_s)
    elif cpu.median >= _CORES_FULL * _machine(profile).cores * leg.period.median:
        blocked = _stage_blocked(profile)
    elif leg.workers == 0:
        blocked = blocked.scaled(1 - _queued_share(profile))
    if _hand_off(profile) >= _HANDOFF_BOUND * leg.period.median:
        blocked = _stage_blocked(profile)
    return cpu, _not_negative(blocked)


def _stage_cpu(profile: Profile, present: Spread) -> Spread:
    """Without CPU clocks of the workers: their stages' CPU, or all of their time."""
    timed = sum(stage.cpu_s for stage in _loading_stages(profile.stages))
    if profile.loader is None or timed == 0.0:
        return present
    return Spread.exact(min(timed * _samples_a_step(profile), present.median))


def _stage_blocked(profile: Profile) -> Spread:
    blocked = sum(stage.blocked_s for stage in _loading_stages(profile.stages))
    return Spread.exact(_samples_a_step(profile) * blocked)


def _samples_a_step(profile: Profile) -> float:
    """Legs are told by the step, which may be of several batches."""
    loader = profile.loader
    return loader.batch_size * loader.batches_per_step if loader else 1.0


def _queued_share(profile: Profile) -> float:
    """Of the time off a core, the share that the stages waited for one; 0 where none was seen.

    The training process has no run queue of its loading alone, so leg L does not tell.
    """
    stages = _loading_stages(profile.stages)
    queued = sum(stage.runqueue_s for stage in stages)
    blocked = sum(stage.blocked_s for stage in stages)
    return queued / (queued + blocked) if queued > 0 else 0.0


def _not_negative(spread: Spread) -> Spread:
    return Spread(
        max(0.0, spread.median), max(0.0, spread.low), max(0.0, spread.high), spread.count
    )


def _stages(profile: Profile, leg: Leg) -> tuple[StageCost, ...]:
    """Leg L's CPU and blocked seconds, split as the stages that were timed inside the loader."""
    samples = _samples_a_step(profile)
    doubt = _disagreement(profile, leg)
    cpu, blocked = (
        _doubted(part.scaled(1 / samples), doubt) for part in _cpu_and_blocked(profile, leg)
    )
    stages = _loading_stages(profile.stages)
    return (
        *_split(cpu, stages, Resource.CORES),
        *_split(blocked, stages, Resource.STORAGE),
    )


def _loading_stages(stages: tuple[StageTime, ...]) -> tuple[StageTime, ...]:
    """The stages of producing a batch: those of the workers, or of the main thread without any."""
    inside = tuple(stage for stage in stages if stage.where == "worker")
    return inside or stages


def _split(
    total: Spread, stages: tuple[StageTime, ...], resource: Resource
) -> tuple[StageCost, ...]:
    """`total` per sample, divided in proportion to the stages' own seconds of the resource.

    What the stages leave over is the stage "loading". The parts' intervals are widened so that
    parts that vary independently add up to the interval of the total.
    """
    seconds = [
        (stage, stage.cpu_s if resource is Resource.CORES else stage.blocked_s) for stage in stages
    ]
    timed = sum(value for _, value in seconds if value > 0)
    if total.median <= 0:
        return ()
    whole = max(timed, total.median)
    shares = [
        (stage.stage, value / whole, stage.deterministic) for stage, value in seconds if value > 0
    ]
    rest = 1 - timed / whole
    if rest > 1e-9:
        shares.append(("loading", rest, None))
    widen = sum(share**2 for _, share, _ in shares) ** -0.5
    return tuple(
        StageCost(
            stage=name,
            resource=resource,
            per_sample=_widened(total.scaled(share), widen),
            deterministic=deterministic,
            source="measured: leg L",
        )
        for name, share, deterministic in shares
    )


def _doubted(spread: Spread, share: float) -> Spread:
    """The interval widened by a relative doubt, in quadrature."""
    extra = share * spread.median
    return Spread(
        spread.median,
        spread.median - math.hypot(spread.median - spread.low, extra),
        spread.median + math.hypot(spread.high - spread.median, extra),
        spread.count,
    )


def _widened(spread: Spread, factor: float) -> Spread:
    return Spread(
        spread.median,
        spread.median - (spread.median - spread.low) * factor,
        spread.median + (spread.high - spread.median) * factor,
        spread.count,
    )
