"""The raw lines of the examined processes, one `Trainer` each. Runs in the parent."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from stoker.probe.session import read_lines

Line = dict[str, Any]

# Without working ahead a batch is waited for as long as it takes to make one; reading it a second
# time, for leg L, can only be faster.
_AHEAD_SHARE = 0.75


class Trainer:
    """The lines of one examined process, those about its last training loader."""

    def __init__(self, lines: Iterable[Line], *, pid: int = 0) -> None:
        lines = list(lines)
        self.pid = pid
        begun = [n for n, line in enumerate(lines) if line["kind"] == "training-loader"]
        # What was measured of a loader that turned out not to be the one is not mixed in.
        self.lines = _with_one_worker(lines[begun[-1] :]) if begun else lines
        self.notes = [line["text"] for line in lines if line["kind"] == "note"]

    def of(self, kind: str) -> list[Line]:
        """All lines of a kind, in order."""
        return [line for line in self.lines if line["kind"] == kind]

    def last(self, kind: str) -> Line | None:
        """The last line of a kind."""
        found = self.of(kind)
        return found[-1] if found else None

    @property
    def rank(self) -> int:
        """Its rank among the processes of the run."""
        line = self.last("training-loader")
        return int(line["rank"]) if line else 0

    @property
    def has_loop(self) -> bool:
        """True when a training loader was found."""
        return bool(self.of("training-loader"))


def _with_one_worker(lines: list[Line]) -> list[Line]:
    """The lines of a watched iterable that works ahead, as those of a loader with a worker.

    How many threads or processes it has is not known.
    """
    if not lines[0].get("watched") or not _works_ahead(lines):
        return lines
    return [
        line | {"workers": 1}
        if line["kind"] == "training-loader" or (line["kind"] == "drain" and line["what"] == "L")
        else line
        for line in lines
    ]


def _works_ahead(lines: list[Line]) -> bool:
    """Batches lay ready after pauses, or the loop waits for less than it takes to make one."""
    ready = [line["batches"] > 0 for line in lines if line["kind"] == "lay-ready"]
    if ready:
        return bool(2 * sum(ready) > len(ready))
    waits = [
        v for line in lines if line["kind"] == "window" and line["leg"] == "R" for v in line["wait"]
    ]
    alone = [v for line in lines if line["kind"] == "drain" for v in line["periods"]]
    if not waits or not alone:
        return False
    return bool(statistics.median(waits) < _AHEAD_SHARE * statistics.median(alone))


def read_trainers(folder: Path) -> list[Trainer]:
    """The processes in which a training loop was seen: by rank, the longest watched first."""
    files = sorted(folder.glob("trainer-*.jsonl"))
    trainers = [
        Trainer(read_lines(file)[0], pid=int(file.stem.removeprefix("trainer-"))) for file in files
    ]
    return sorted(
        (t for t in trainers if t.has_loop),
        key=lambda trainer: (trainer.rank, -len(trainer.of("window"))),
    )


def total(folder: Path, kind: str, key: str) -> int:
    """The sum of a field over all lines of a kind, of processes with and without a loop."""
    return sum(
        int(line.get(key, 0))
        for file in folder.glob("trainer-*.jsonl")
        for line in read_lines(file)[0]
        if line["kind"] == kind
    )
