"""The changes of `whatif` for a run that was measured: with what its profile knows of the work.

The doctor's fixes and `stoker predict --from` both ask here, so that a change has one forecast.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from stoker.records.profile import BESIDE, LegCode, Profile
from stoker.records.scenario import Resource, Scenario, StageCost
from stoker.stats import Spread
from stoker.theory import whatif
from stoker.theory.assume import CACHE_OF_MEMORY
from stoker.theory.cache import cached_share

# Of the work of known stages: a draw in code that takes no more leaves most of them apart.
_LITTLE = 0.10


class Shares(NamedTuple):
    """Of the loader's CPU time: what repeats, and what is random; the rest is no sample's own.

    `random` is None where it can't be told apart from what follows it.
    """

    repeated: float
    random: float | None


def draws_itself(profile: Profile) -> bool:
    """True where the data set's own `__getitem__` is the first random operation."""
    operation = (profile.loader.random_op if profile.loader else None) or ""
    return operation.rpartition(".")[2] == "__getitem__"


def is_random_apart(profile: Profile) -> bool:
    """False where the data set's own `__getitem__` draws, and then does much of the work itself.

    What follows the draw need not be random, and only stages that it calls are told apart.
    """
    if not draws_itself(profile) or _is_told_by_stages(profile):
        return True
    loader = profile.loader
    return loader is not None and (loader.random_share or 0.0) <= _LITTLE


def random_share(profile: Profile) -> float | None:
    """Share of the work on a sample that is random; None where it can't be told apart.

    From the first random operation on. Where a data set draws itself, only the stages that other
    seeds change, if that is less.
    """
    loader = profile.loader
    if loader is None or loader.random_share is None or not is_random_apart(profile):
        return None
    if not draws_itself(profile) or not _is_told_by_stages(profile):
        return loader.random_share
    told = [s for s in profile.stages if s.where != BESIDE and s.deterministic is not None]
    random = sum(stage.cpu_s for stage in told if not stage.deterministic)
    return min(loader.random_share, random / sum(stage.cpu_s for stage in told))


def _is_told_by_stages(profile: Profile) -> bool:
    """Nearly all of the work lies in stages that were seen to repeat, or not to."""
    stages = [stage for stage in profile.stages if stage.where != BESIDE]
    told = sum(stage.cpu_s for stage in stages if stage.deterministic is not None)
    own = sum(stage.cpu_s for stage in stages if stage.stage.endswith(".__getitem__"))
    return told > 0 and own <= _LITTLE * told


def shares_of(profile: Profile) -> Shares | None:
    """As the twin runs of single samples gave them, over what leg L costs; None without either."""
    loader, leg = profile.loader, profile.leg(LegCode.LOADER)
    if loader is None or loader.random_share is None or loader.sample_s is None:
        return None
    if leg is None or leg.cpu_s is None or leg.cpu_s.median <= 0:
        return None
    samples = loader.batch_size * loader.batches_per_step  # of a step, as leg L is told
    own = min(1.0, loader.sample_s * samples / leg.cpu_s.median)
    apart = random_share(profile)
    random = own * (loader.random_share if apart is None else apart)
    return Shares(own - random, None if apart is None else random)


def marked(profile: Profile, scenario: Scenario) -> Scenario:
    """The scenario with each stage's CPU time in parts that repeat, that are random, and others.

    Parts keep the name of their stage, so that they vary together. The stages' own marks stay where
    there are no shares, or where they tell more: of a data set that draws before all else.
    """
    shares = shares_of(profile)
    if shares is None or (draws_itself(profile) and _is_told_by_stages(profile)):
        return scenario
    random = shares.random or 0.0
    parts = ((shares.repeated, True), (random, False), (1 - shares.repeated - random, None))
    stages = tuple(
        part
        for cost in scenario.workload.stages
        for part in (_split(cost, parts) if cost.resource is Resource.CORES else (cost,))
    )
    return _with_stages(scenario, stages)


def packed(profile: Profile, scenario: Scenario) -> Scenario | None:
    """A marked run that reads a pack; None where the bytes of a sample are not known.

    Stored is what comes before the first random operation: as large as it was seen there, else as a
    finished sample. Where leg Q measured the store's transfer, a worker waits for the bytes that
    are more than now.
    """
    seen = profile.loader.packed_bytes if profile.loader else None
    stored = scenario.workload.sample_bytes if seen is None else seen
    if stored is None:
        return None
    after = whatif.pack(scenario, stored_bytes=stored)
    seconds = _further_wait(profile, scenario, stored)
    if seconds <= 0:
        return after
    read = StageCost(
        stage="read (pack)",
        resource=Resource.STORAGE,
        per_sample=Spread.exact(seconds),
        source="measured: leg Q",
    )
    return _with_stages(after, (*after.workload.stages, read))


def kept_in_memory(scenario: Scenario) -> Scenario | None:
    """A marked run that reads what repeats out of memory; None as for `packed`."""
    stored = scenario.workload.sample_bytes
    return None if stored is None else whatif.pack(scenario, stored_bytes=stored, cached_share=1.0)


def on_device(scenario: Scenario) -> Scenario:
    """A marked run whose random operations are the device's; its batches stay of the same size."""
    return whatif.device_augment(scenario, payload=1.0)


def _split(cost: StageCost, parts: tuple[tuple[float, bool | None], ...]) -> tuple[StageCost, ...]:
    return tuple(
        msgspec.structs.replace(
            cost, per_sample=cost.per_sample.scaled(share), deterministic=deterministic
        )
        for share, deterministic in parts
        if share > 0
    )


def _further_wait(profile: Profile, scenario: Scenario, stored_bytes: float) -> float:
    """Seconds for which one reader waits longer for a sample of a pack than for its files now."""
    reads = profile.reads
    # A store that was named has a rate of its own, which the pack is charged for.
    if reads is None or not reads.bytes_per_s or scenario.machine.storage_bytes_per_s is not None:
        return 0.0
    now = reads.bytes_per_read * (1 - (reads.resident_share or 0.0))
    then = stored_bytes * (1 - _share_in_memory(profile, stored_bytes))
    return max(0.0, then - now) / reads.bytes_per_s


def _share_in_memory(profile: Profile, stored_bytes: float) -> float:
    """What the page cache would serve of all packed samples; 0 where it is not known."""
    room = profile.host.memory_available_bytes
    samples = profile.loader.samples if profile.loader else None
    if room is None or not samples:
        return 0.0
    return cached_share(CACHE_OF_MEMORY * room, samples * stored_bytes)


def _with_stages(scenario: Scenario, stages: tuple[StageCost, ...]) -> Scenario:
    workload = msgspec.structs.replace(scenario.workload, stages=stages)
    return msgspec.structs.replace(scenario, workload=workload)
