"""Cores for each accelerator: at the pace that was measured, and at that of faster ones.

A faster accelerator ends its share of a step sooner, so it wants as many times the cores. How many
times as fast it is depends on the model: work at the arithmetic peak gains what the dense 16-bit
rates differ by, work at the memory what the bandwidths differ by, and all else lies between (the
roofline; Williams, Waterman and Patterson, CACM 2009).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from statistics import median
from typing import NamedTuple

from stoker.errors import InputError
from stoker.records.diagnosis import SUPPOSED
from stoker.records.scenario import Scenario
from stoker.records.zoo import Accelerator, Host, Precision
from stoker.stats import Spread
from stoker.theory.pipeline import cores_spread
from stoker.zoo.load import Shelf

# Accelerators nearer to each other than this are one choice for who asks about cores.
_APART = 1.5
_MOST = 2
_IF_FASTER = (2.0, 4.0)


class Pace(NamedTuple):
    """How many times as fast as the present accelerator one is; the ends are a band.

    `hosts`: physical cores for each accelerator of the zoo's hosts with it, median and range.
    """

    name: str
    title: str
    times: Spread
    source: str
    hosts: Spread | None = None


PRESENT = Pace("this one", "this one", Spread.exact(1.0), "measured: leg D")


def cores_at(scenario: Scenario, pace: Pace) -> Spread:
    """Cores for utilisation 1; low and high join the scenario's own interval and the band."""
    now, times = cores_spread(scenario), pace.times
    return Spread(now.median * times.median, now.low * times.low, now.high * times.high)


def known_as(name: str, machines: Shelf[Accelerator]) -> Accelerator | None:
    """The zoo's entry for what a driver calls its device ("Tesla V100-SXM2-16GB"), if any."""
    words = name.split()
    # Makers put their names before it, drivers the kind of memory behind it.
    for start in range(min(2, len(words))):
        for end in range(len(words), start, -1):
            try:
                return machines.find(" ".join(words[start:end]))
            except InputError:
                continue
    return None


def faster_than(now: Accelerator, machines: Iterable[Accelerator]) -> tuple[Pace, ...]:
    """The next accelerators of the same maker that are faster whatever the model does."""
    against = [_against(now, one) for one in machines if one.vendor == now.vendor]
    paces = [pace for pace in against if pace is not None and pace.times.low >= 1.0]
    chosen: list[Pace] = []
    last = 1.0
    for pace in sorted(paces, key=lambda one: one.times.median):
        if pace.times.median >= _APART * last and len(chosen) < _MOST:
            chosen.append(pace)
            last = pace.times.median
    return tuple(chosen)


def with_hosts(pace: Pace, accelerator: Accelerator, hosts: Iterable[Host]) -> Pace:
    """The pace with what the hosts of its accelerator offer; as it is where the zoo has none."""
    cores = sorted(
        host.cores_per_accelerator
        for host in hosts
        if host.accelerator == accelerator.name and host.cores_per_accelerator is not None
    )
    if not cores:
        return pace
    return pace._replace(hosts=Spread(median(cores), cores[0], cores[-1], len(cores)))


def if_faster() -> tuple[Pace, ...]:
    """Where the present accelerator is not in the zoo."""
    return tuple(
        Pace(f"{times:g}x as fast", f"{times:g} times as fast", Spread.exact(times), SUPPOSED)
        for times in _IF_FASTER
    )


def _against(now: Accelerator, other: Accelerator) -> Pace | None:
    rates = _dense(now), _dense(other)
    if rates[0] is None or rates[1] is None:
        return None
    computing = rates[1] / rates[0]
    moving = other.memory_bytes_per_s.value / now.memory_bytes_per_s.value
    low, high = sorted((computing, moving))
    return Pace(
        other.name,
        other.title,
        Spread(math.sqrt(computing * moving), low, high),
        f"zoo's dense 16-bit rates and memory bandwidths, against those of {now.name}",
    )


def _dense(accelerator: Accelerator) -> float | None:
    return accelerator.peak(Precision.BF16) or accelerator.peak(Precision.FP16)
