"""The capacity answer: how many cores an accelerator of this workload needs, now and later."""

from __future__ import annotations

from stoker.diagnose.case import Case
from stoker.diagnose.facts import Facts
from stoker.diagnose.ladder import Climbed, irreducible
from stoker.diagnose.wording import cores, ms
from stoker.errors import InputError
from stoker.records.diagnosis import Capacity, CoresAfter, CoresOn
from stoker.stats import Spread
from stoker.theory.capacity import (
    PRESENT,
    Pace,
    cores_at,
    faster_than,
    if_faster,
    known_as,
    with_hosts,
)
from stoker.theory.pipeline import cores_needed
from stoker.theory.question import AboutMeasured
from stoker.zoo.load import Zoo

# The utilisation that counts as fed: MLPerf Storage asks for 0.90 to 0.95 of its accelerators.
_FED = 0.95
# Workers that keep more than this of their pace need no more cores than their CPU time says.
_WHOLE = 0.95


def capacity(case: Case | None, climbed: Climbed, zoo: Zoo | None) -> Capacity:
    """In a sentence, and as a table over the rungs of the ladder and faster accelerators."""
    if case is None or case.facts.cores_needed is None:
        return Capacity(
            cores_per_accelerator=None, sentence="What loading costs in cores was not measured."
        )
    facts, needed = case.facts, case.facts.cores_needed
    fed = AboutMeasured(profile=facts.profile, base=case.scenario).workers_for(_FED)
    if fed is not None:
        how = f"{fed} worker{'s' if fed > 1 else ''} would do for a utilisation of {_FED:.0%}"
    else:
        how = f"no number of workers reaches a utilisation of {_FED:.0%} here"
    return Capacity(
        cores_per_accelerator=needed,
        sentence=(
            f"Loading costs {ms(facts.load_cpu_s or 0.0)} of CPU time a step of "
            f"{ms(facts.device)}: {cores(needed)} cores for each accelerator of this pace"
            f"{_shared(case)}, {cores(facts.cores_usable)} owned; {how}."
        ),
        table=_table(case, climbed, zoo),
        irreducible=irreducible(case),
    )


def _shared(case: Case) -> str:
    """What workers lose to each other, where that makes another number of cores."""
    efficiency = case.scenario.loader.efficiency
    if efficiency > _WHOLE:
        return ""
    needed = cores(cores_needed(case.scenario))
    return f" ({needed} where workers keep {efficiency:.0%} of their pace, as here)"


def _table(case: Case, climbed: Climbed, zoo: Zoo | None) -> tuple[CoresOn, ...]:
    rungs = ((None, case.scenario), *climbed)
    share = case.facts.random_share
    device = case.scenario.workload.device_s
    found = []
    for pace in _paces(case.facts, zoo):
        now = cores_at(case.scenario, pace)
        found.append(
            CoresOn(
                accelerator=pace.name,
                title=pace.title,
                times=pace.times,
                source=pace.source,
                step_s=_sooner(device, pace.times),
                rows=tuple(
                    CoresAfter(after=code, cores=cores_at(after, pace)) for code, after in rungs
                ),
                irreducible=now.scaled(share) if share else None,
                hosts=pace.hosts,
            )
        )
    return tuple(found)


def _sooner(device: Spread, times: Spread) -> Spread:
    return Spread(device.median / times.median, device.low / times.high, device.high / times.low)


def _paces(facts: Facts, zoo: Zoo | None) -> tuple[Pace, ...]:
    """This accelerator and the zoo's next ones; where it does not know this one, supposed paces."""
    # "cuda:0 NVIDIA A100-SXM4-80GB": the driver's name stands behind torch's.
    name = facts.profile.environment.device.partition(" ")[2]
    if zoo is None or not name:
        return (PRESENT, *if_faster())
    try:
        now = known_as(name, zoo.machines)
        if now is None:
            return (PRESENT, *if_faster())
        hosts = zoo.hosts.values()
        faster = faster_than(now, zoo.machines.values())
        later = [with_hosts(pace, zoo.machines[pace.name], hosts) for pace in faster]
        return (with_hosts(PRESENT, now, hosts), *later)
    except InputError:  # a file of the user's own zoo that can't be read: predict says which
        return (PRESENT, *if_faster())
