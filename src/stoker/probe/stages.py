"""Times the stages of loading, inside a worker or inside the main thread without workers.

Standard library only; assigns nothing itself: the hooks do, and `Restore` puts it back.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol

from stoker.probe.hooks.dataset import time_dataset
from stoker.probe.hooks.early import EarlyBound
from stoker.probe.hooks.fetchers import instrument_fetcher
from stoker.probe.hooks.libraries import Counting, time_libraries
from stoker.probe.hooks.patches import Patches, Timing
from stoker.probe.recorder import Sink, StageRecorder, Where

__all__ = [
    *("Restore", "Sink", "StageRecorder", "StageTiming", "Where"),
    *("install", "patch_stages", "split_waiting"),
]


class Restore:
    """Puts back everything that `install` replaced; also a context manager."""

    def __init__(self, undo: Callable[[], None]) -> None:
        self._undo: Callable[[], None] | None = undo

    def __call__(self) -> None:
        """Undo, once."""
        undo, self._undo = self._undo, None
        if undo is not None:
            undo()

    def __enter__(self) -> Restore:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self()


def install(dataset: Any, sink: Sink, *, where: Where) -> Restore:
    """Time the stages of this process's fetches of `dataset`; `sink` gets a record of each batch.

    Covers torch's fetchers, the data set's own code and what it holds, and the libraries that are
    imported or will be. What cannot be patched is left out and noted in a record. A child that is
    forked while this is in force starts without it.
    """
    recorder = StageRecorder(sink, where=where)
    recorder.learn_cost()
    patches = Patches(recorder)
    recorder.on_off(patches.undo_stage)
    restore = patch_stages(dataset, recorder, patches)
    instrument_fetcher(dataset, recorder, patches)
    recorder.give_notes()
    if where == "main":
        # A worker that is forked later times itself; what it inherits of ours would count twice.
        os.register_at_fork(after_in_child=restore)
    return restore


class StageTiming(Timing, Counting, Protocol):
    """What stands around every stage, and is told of opened files and of what is decoded."""


def patch_stages(dataset: Any, timing: StageTiming, patches: Patches) -> Restore:
    """Have `timing` stand around the stages of a sample: the data set's own and libraries'."""
    early = EarlyBound(patches)
    undo_imports = time_libraries(timing, patches, early)
    time_dataset(dataset, patches, early)

    def undo() -> None:
        undo_imports()
        patches.undo()

    return Restore(undo)


def split_waiting(stages: dict[str, list[int]], runqueue_ns: int) -> dict[str, tuple[float, float]]:
    """Run-queue wait and blocked time, in ns, of each stage; together they are wall minus CPU.

    The kernel counts the wait for a core of a whole thread. It strikes a thread while it computes,
    so it is given out in proportion to CPU time, to no stage more than it waited at all.
    """
    waited = {name: max(0.0, float(wall - cpu)) for name, (_, wall, cpu) in stages.items()}
    given = dict.fromkeys(stages, 0.0)
    left = min(float(runqueue_ns), sum(waited.values()))
    takers = {name for name in stages if waited[name] > 0}
    while left > 1 and takers:
        weight = {name: max(1, stages[name][2]) for name in takers}
        total = sum(weight.values())
        share = {name: left * weight[name] / total for name in takers}
        full = {name for name in takers if share[name] >= waited[name] - given[name]}
        for name in full or takers:
            part = min(share[name], waited[name] - given[name])
            given[name] += part
            left -= part
        if not full:
            break
        takers -= full
    return {name: (given[name], waited[name] - given[name]) for name in stages}
