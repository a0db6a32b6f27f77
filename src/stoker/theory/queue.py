"""What the closed form leaves out: variance, delivery order and prefetch depth, by simulation.

`loader_run` is a DataLoader of worker processes in front of one consumer; `chain` is a row of
stages with bounded queues between them. Both are exact for the times they are given and draw no
random numbers of their own: variance enters through the empirical costs.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from itertools import takewhile
from typing import NamedTuple

from stoker.errors import InputError


class LoaderRun(NamedTuple):
    """What a simulated run gave, start-up excluded."""

    step_s: float  # mean time from one step's end to the next's
    au: float  # share of the time in which the consumer worked
    wait_s: float  # mean wait for a batch
    ready_share: float  # batches that were there when they were asked for
    queued: float  # finished batches that lay waiting when one was asked for, mean


def loader_run(
    batch_s: Sequence[float],
    step_s: Sequence[float],
    *,
    workers: int,
    prefetch_factor: int = 2,
    in_order: bool = True,
) -> LoaderRun:
    """Run `len(batch_s)` batches through `workers` workers and one consumer.

    `batch_s` are one worker's seconds for each batch, `step_s` the consumer's (repeated when
    shorter). Indices are handed out as torch does: `prefetch_factor` a worker to begin with, one
    more whenever a batch is taken; round robin, or to the least loaded worker when batches may
    come out of order. With 0 workers the consumer makes its own. The first prefetch depth is not
    counted: it was made before anybody waited. Raises InputError for no batches or no prefetch.
    """
    if workers > 0 and prefetch_factor < 1:
        raise InputError(
            f"prefetch_factor is {prefetch_factor}: a worker needs at least 1 batch to make",
            looked_at="prefetch_factor",
            run_next="give 1 or more; torch's default is 2",
        )
    depth = workers * prefetch_factor
    warm_up = 2 * depth
    if len(batch_s) <= warm_up:
        raise InputError(
            f"{len(batch_s)} batches are too few: the first {warm_up} only fill the queue",
            looked_at=f"{workers} workers that prefetch {prefetch_factor} each",
            run_next=f"give more than {warm_up} batch times",
        )
    deliver = _Workers(batch_s, workers, in_order).deliver if workers else None
    now, marks, waits, queued = 0.0, [], [], []
    for index in range(len(batch_s)):
        asked = now
        if deliver is None:
            now += batch_s[index]
            waiting = 0
        else:
            now, waiting = deliver(asked, depth if index == 0 else 1)
        waits.append(now - asked)
        queued.append(waiting)
        now += step_s[index % len(step_s)]
        marks.append(now)
    counted = range(warm_up, len(batch_s))
    begin = marks[warm_up - 1] if warm_up else 0.0
    spent = marks[-1] - begin
    working = sum(step_s[index % len(step_s)] for index in counted)
    return LoaderRun(
        step_s=spent / len(counted),
        au=working / spent,
        wait_s=sum(waits[index] for index in counted) / len(counted),
        ready_share=sum(waits[index] <= 0 for index in counted) / len(counted),
        queued=sum(queued[index] for index in counted) / len(counted),
    )


class _Workers:
    """Worker processes, each with a queue of the indices it was given."""

    def __init__(self, batch_s: Sequence[float], workers: int, in_order: bool) -> None:
        self._batch_s = batch_s
        self._free = [0.0] * workers  # when each worker will have finished all it was given
        self._given = 0
        self._taken = 0
        self._in_order = in_order
        self._ready: list[tuple[float, int]] = []  # (finished at, index), heap when unordered
        self._made_at: deque[float] = deque()

    def _give(self, now: float) -> None:
        """The next index to the next worker; it starts when the worker is free."""
        if self._given == len(self._batch_s):
            return
        worker = (
            self._given % len(self._free)
            if self._in_order
            else min(range(len(self._free)), key=self._free.__getitem__)
        )
        self._free[worker] = max(self._free[worker], now) + self._batch_s[self._given]
        if self._in_order:
            self._made_at.append(self._free[worker])
        else:
            heapq.heappush(self._ready, (self._free[worker], self._given))
        self._given += 1

    def deliver(self, asked: float, new: int) -> tuple[float, int]:
        """When the batch asked for is there, and how many finished ones lay waiting.

        `new` indices are handed out: all of the prefetch at the first call, one at each other.
        """
        if self._taken == 0:
            for _ in range(new):
                self._give(0.0)
        if self._in_order:
            waiting = sum(1 for _ in takewhile(lambda made: made <= asked, self._made_at))
            at = self._made_at.popleft()
        else:
            waiting = sum(made <= asked for made, _ in self._ready)
            at, _ = heapq.heappop(self._ready)
        self._taken += 1
        now = max(asked, at)
        self._give(now)
        return now, waiting


class Station(NamedTuple):
    """One stage of a chain: seconds an item, items gathered into one, slots of its own queue."""

    seconds: float
    group: int = 1
    slots: int = 2


class ChainRun(NamedTuple):
    """What a simulated chain gave in its second half."""

    period_s: float  # between two items of the last station
    occupancy: tuple[float, ...]  # of each queue: share of the time in which it was not empty
    utilisation: float  # of the last station


def chain(stations: Sequence[Station], *, items: int = 400) -> ChainRun:
    """A row of stations, each handing on through a bounded queue; the last one is the consumer.

    A station that has finished waits until its queue has room (blocking after service). A group
    gathers as many items as it says and hands on one. `items` leave the last station. Raises
    InputError for an empty row.
    """
    if len(stations) < 2:
        raise InputError(
            f"{len(stations)} stations make no chain: a producer and a consumer are needed",
            looked_at="the stations",
            run_next="give at least two",
        )
    taken: list[list[float]] = [[] for _ in stations]  # when an item was taken by the station
    put: list[list[float]] = [[] for _ in stations]  # when its result entered the queue behind it
    # Beyond the window, so that what lies in the queues at its end has a time of leaving.
    beyond = items + 2 * sum(station.slots for station in stations)
    while len(put[-1]) < beyond:
        _pass_one(stations, taken, put)
    begin = put[-1][items // 2 - 1]
    end = put[-1][items - 1]
    occupancy = tuple(
        _busy_share(put[index], taken[index + 1], begin, end) for index in range(len(stations) - 1)
    )
    period = (end - begin) / (items - items // 2)
    return ChainRun(period, occupancy, stations[-1].seconds / period)


def _pass_one(
    stations: Sequence[Station], taken: list[list[float]], put: list[list[float]]
) -> None:
    """Send one more item from the source as far as it gets."""
    arrived = 0.0
    for index, station in enumerate(stations):
        number = len(taken[index])
        if number % station.group == 0:
            free = put[index][-1] if put[index] else 0.0
        else:
            free = taken[index][-1]
        taken[index].append(max(arrived, free))
        if (number + 1) % station.group:
            return
        done = taken[index][-1] + station.seconds
        before = len(put[index]) - station.slots
        if index + 1 < len(stations) and before >= 0:
            done = max(done, taken[index + 1][before])
        put[index].append(done)
        arrived = done


def _busy_share(put: Sequence[float], taken: Sequence[float], begin: float, end: float) -> float:
    """Share of [begin, end] in which at least one item lay in the queue."""
    covered, until = 0.0, begin
    for entered, left in zip(put, taken, strict=False):
        start, stop = max(entered, until), min(left, end)
        if stop > start:
            covered += stop - start
            until = stop
    return covered / (end - begin)
