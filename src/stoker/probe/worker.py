"""What a loader's worker process does for us: a stand-in for the script's `worker_init_fn`.

Must stay importable and picklable by name: spawned workers get it by pickle. Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stoker import clocks
from stoker.probe import stages
from stoker.probe.hooks.fetchers import time_whole_fetches
from stoker.probe.session import LineFile

# Seconds of batches are written down together: a line a batch would be felt where they are short.
_EVERY_S = 0.05


class WorkerStart:
    """Runs the script's own function first, then notes what this worker owns.

    `duty`: "stages" times every batch stage by stage, "batches" as a whole, "one-thread" keeps
    native libraries to one thread, "" does nothing beside. `asked`: the number of workers that the
    leg is about.
    """

    def __init__(
        self, own: Callable[[int], object] | None, folder: Path, *, duty: str = "", asked: int = 0
    ) -> None:
        self._own = own
        self._folder = folder
        self._duty = duty
        self._asked = asked
        self._trainer = os.getpid()  # a fork server stands between it and its workers

    def __call__(self, worker_id: int) -> None:
        """Called by torch in the worker, before its first batch."""
        if self._own is not None:
            self._own(worker_id)
        lines = LineFile(self._folder / f"worker-{os.getpid()}.jsonl")
        lines.write(
            {
                "kind": "worker",
                "worker": worker_id,
                "pid": os.getpid(),
                "trainer": self._trainer,
                "cpus": sorted(os.sched_getaffinity(0)),
                "is_prepared": self._own is not None,
            }
        )
        if self._duty == "stages":
            self._time_stages(lines)
        elif self._duty == "batches":
            time_whole_fetches(_BatchTimes(lines, worker_id, self._asked))
        elif self._duty == "one-thread":
            self._use_one_thread()

    def _time_stages(self, lines: LineFile) -> None:
        """Have every batch of this worker written down stage by stage."""
        info = sys.modules["torch.utils.data"].get_worker_info()

        def sink(record: dict[str, Any]) -> None:
            lines.write({"kind": "stages", "workers": self._asked, **record})

        stages.install(info.dataset, sink, where="worker")

    @staticmethod
    def _use_one_thread() -> None:
        """Torch's own pool, and OpenCV's where it is loaded."""
        sys.modules["torch"].set_num_threads(1)
        if "cv2" in sys.modules:
            sys.modules["cv2"].setNumThreads(1)


class _BatchTimes:
    """Seconds of a worker's batches, written down some at a time; the last few may be lost.

    None that took long is: it is written down at once.
    """

    def __init__(self, lines: LineFile, worker: int, asked: int) -> None:
        self._lines = lines
        self._facts = {"kind": "batches", "worker": worker, "workers": asked}
        self._seconds: list[float] = []
        self._written = clocks.wall_s()

    def __call__(self, seconds: float) -> None:
        self._seconds.append(round(seconds, 6))
        now = clocks.wall_s()
        if now - self._written < _EVERY_S:
            return
        told, self._seconds, self._written = self._seconds, [], now
        with contextlib.suppress(OSError):  # a full disk must not end the worker
            self._lines.write({**self._facts, "seconds": told})
