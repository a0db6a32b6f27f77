"""What the closed form leaves out: variance, delivery order and prefetch depth, by simulation.

`loader_runs` is a DataLoader of worker processes in front of one consumer, many runs of it side by
side; `chain` is a row of stages with bounded queues between them. Both are exact for the times they
are given and draw no random numbers of their own: variance enters through the empirical costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stoker.errors import InputError

Seconds = NDArray[np.float64]


class LoaderRuns(NamedTuple):
    """What simulated runs gave, start-up excluded: an array of one value a run each."""

    step_s: Seconds  # mean time from one step's end to the next's
    au: Seconds  # share of the time in which the consumer worked
    wait_s: Seconds  # mean wait for a batch
    ready_share: Seconds  # batches that were there when they were asked for


class LoaderRun(NamedTuple):
    """The same of a single run."""

    step_s: float
    au: float
    wait_s: float
    ready_share: float


def loader_run(
    batch_s: Sequence[float],
    step_s: Sequence[float],
    *,
    workers: int,
    prefetch_factor: int = 2,
    in_order: bool = True,
) -> LoaderRun:
    """One run of `len(batch_s)` batches through `workers` workers and one consumer.

    `batch_s` are one worker's seconds for each batch, `step_s` the consumer's (repeated when
    shorter). The first prefetch depth, twice, is not counted: it was made before anybody waited.
    Raises InputError as `loader_runs` does.
    """
    runs = loader_runs(
        np.asarray([batch_s], dtype=np.float64),
        np.asarray([step_s], dtype=np.float64),
        workers=workers,
        prefetch_factor=prefetch_factor,
        in_order=in_order,
    )
    return LoaderRun(*(float(values[0]) for values in runs))


def loader_runs(
    batch_s: Seconds,
    step_s: Seconds,
    *,
    workers: int,
    prefetch_factor: int = 2,
    in_order: bool = True,
    warm_up: int | None = None,
) -> LoaderRuns:
    """Runs side by side, each with a row of seconds a batch and a row of seconds a step.

    `batch_s` has the shape (runs, batches), `step_s` (runs, steps), repeated when shorter. Indices
    are handed out as torch does: `prefetch_factor` a worker to begin with, one more whenever a
    batch is taken; round robin, which out of order comes to the worker whose batch was taken. With
    0 workers the consumer makes its own. `warm_up` batches at the start are not counted, by default
    twice the prefetch depth. Raises InputError for no more batches than those, and for no prefetch.
    """
    if workers > 0 and prefetch_factor < 1:
        raise InputError(
            f"prefetch_factor is {prefetch_factor}: a worker needs at least 1 batch to make",
            looked_at="prefetch_factor",
            run_next="give 1 or more; torch's default is 2",
        )
    depth = workers * prefetch_factor
    skipped = 2 * depth if warm_up is None else warm_up
    runs, batches = batch_s.shape
    if batches <= max(skipped, depth):
        raise InputError(
            f"{batches} batches are too few: the first {skipped} only fill the queue",
            looked_at=f"{workers} workers that prefetch {prefetch_factor} each",
            run_next=f"give more than {max(skipped, depth)} batch times",
        )
    queue = _Queue(batch_s, workers, depth, in_order=in_order) if workers else None
    now, began = np.zeros(runs), np.zeros(runs)
    waited, worked, ready = np.zeros(runs), np.zeros(runs), np.zeros(runs)
    for index in range(batches):
        if index == skipped:
            began = now
        given = queue.take(index, now) if queue is not None else now + batch_s[:, index]
        step = step_s[:, index % step_s.shape[1]]
        if index >= skipped:
            waited += given - now
            ready += given <= now
            worked += step
        now = given + step
    counted, spent = batches - skipped, now - began
    return LoaderRuns(spent / counted, worked / spent, waited / counted, ready / counted)


class _Queue:
    """The batches that are being made or lie ready, `depth` of them in each run.

    A place in it belongs to one worker: in order batch i comes from place i modulo the depth, out
    of order from the place that is ready first, and the next batch for it goes to the same worker.
    """

    def __init__(self, batch_s: Seconds, workers: int, depth: int, *, in_order: bool) -> None:
        runs, self._batches = batch_s.shape
        self._batch_s = batch_s
        self._depth = depth
        self._in_order = in_order
        self._workers = workers
        self._rows = np.arange(runs)
        self._free = np.zeros((runs, workers))  # when each worker has made all it was given
        self._ready = np.empty((runs, depth))  # when the batch of each place is made
        for index in range(depth):
            worker = index % workers
            self._free[:, worker] += batch_s[:, index]
            self._ready[:, index] = self._free[:, worker]

    def take(self, index: int, asked: Seconds) -> Seconds:
        """When the batch that is asked for is there; its worker is given another one then."""
        place = np.full(len(asked), index % self._depth)
        if not self._in_order:
            place = self._ready.argmin(axis=1)
        taken: Seconds = np.maximum(asked, self._ready[self._rows, place])
        following = index + self._depth
        made = np.full(len(asked), np.inf)
        if following < self._batches:
            worker = place % self._workers
            # It begins when its worker is through with what it was given before.
            made = np.maximum(self._free[self._rows, worker], taken) + self._batch_s[:, following]
            self._free[self._rows, worker] = made
        self._ready[self._rows, place] = made
        return taken


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
