"""What the loader's work costs: leg L's CPU and blocked seconds, and the stages they belong to.

Pure: reads a Profile and nothing else.
"""

from __future__ import annotations

import math

from stoker.errors import InputError
from stoker.records.profile import Leg, LegCode, LoaderFacts, Profile, StageTime
from stoker.records.scenario import Resource, StageCost
from stoker.stats import Spread, difference

# Workers that keep this share of the cores busy wait for a core, not for a disk, when their run
# queue was not read: one part in ten is what accounting in clock ticks can miss.
_CORES_FULL = 0.9
# N within this share of L: the workers stand at the hand-off, and their waiting is not storage's.
_HANDOFF_BOUND = 0.8
# A step this much longer than beside a drained loader waits for its batches.
_WAITS = 1.1


def measured_legs(profile: Profile) -> tuple[LoaderFacts, Leg, Leg]:
    """The three things without which there is nothing to forecast from: settings, legs L and D.

    Raises InputError, which names those that are missing.
    """
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


def cores_of(profile: Profile) -> float:
    """Cores that the workers may use: the job's, or those of their own mask where it is smaller."""
    host = profile.host
    if host.worker_affinity is None:
        return host.cores_owned
    return min(host.cores_owned, float(host.worker_affinity))


def stage_costs(profile: Profile, leg: Leg) -> tuple[StageCost, ...]:
    """Leg L's CPU and blocked seconds, split as the stages that were timed inside the loader."""
    samples = _samples_a_step(profile)
    doubt = _disagreement(profile, leg)
    cpu, blocked = (
        _doubted(part.scaled(1 / samples), doubt) for part in cpu_and_blocked(profile, leg)
    )
    stages = _loading_stages(profile.stages)
    return (
        *_split(cpu, stages, Resource.CORES),
        *_split(blocked, stages, Resource.STORAGE),
    )


def cpu_and_blocked(profile: Profile, leg: Leg) -> tuple[Spread, Spread]:
    """CPU-seconds and blocked seconds of the workers for one step, from leg L."""
    workers = max(1, leg.workers)
    present = leg.period.scaled(workers)
    cpu = leg.cpu_s if leg.cpu_s is not None else _stage_cpu(profile, present)
    blocked = difference(present, cpu)
    if leg.runqueue_s is not None:
        blocked = difference(blocked, leg.runqueue_s)
    elif cpu.median >= _CORES_FULL * cores_of(profile) * leg.period.median:
        blocked = _stage_blocked(profile)
    elif leg.workers == 0:
        blocked = blocked.scaled(1 - _queued_share(profile))
    if hand_off(profile) >= _HANDOFF_BOUND * leg.period.median:
        blocked = _stage_blocked(profile)
    return cpu, _not_negative(blocked)


def ideal_period(profile: Profile, leg: Leg, workers: int) -> float:
    """Seconds a step with `workers` perfect workers at the costs of leg L (see `pipeline`)."""
    cpu, blocked = (part.median for part in cpu_and_blocked(profile, leg))
    cores = min(float(workers), cores_of(profile))
    return max(cpu / cores, (cpu + blocked) / workers)


def own_pace(profile: Profile, leg: Leg) -> float:
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
    pace = own_pace(profile, leg)
    contended = profile.leg(LegCode.CONTENDED)
    if leg.workers == 0 or contended is None or pace <= _WAITS * contended.period.median:
        return 0.0
    seen = [leg.period.median]
    if contended.drain is not None:
        seen.append(contended.drain.median)
    return min(abs(period / pace - 1) for period in seen)


def hand_off(profile: Profile) -> float:
    """Leg N, seconds a step: what passing it on costs without any work in it.

    No more than the loader's own period: the empty batch is written anew, its own may be a view.
    """
    null, alone = profile.leg(LegCode.NULL), profile.leg(LegCode.LOADER)
    if null is None or null.workers < 1 or alone is None:
        return 0.0
    return min(null.period.median, alone.period.median)


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
