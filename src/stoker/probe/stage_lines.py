"""What workers wrote, read back: times of stages (leg S) and batches, single samples, files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from stoker.probe.session import read_lines
from stoker.probe.storage.leg import OpenedFile

Line = dict[str, Any]


def worker_lines(folder: Path, trainer: int) -> Iterator[Line]:
    """All that the workers of one training process wrote in a session."""
    for file in sorted(folder.glob("worker-*.jsonl")):
        lines, _ = read_lines(file)
        if lines and lines[0].get("trainer") == trainer:
            yield from lines


def stage_lines(folder: Path, trainer: int) -> list[Line]:
    """All records of stages of one training process, its workers' among them."""
    own = folder / f"trainer-{trainer}.jsonl"
    lines = [*worker_lines(folder, trainer), *(read_lines(own)[0] if own.exists() else ())]
    return [line for line in lines if line["kind"] == "stages"]


def batch_seconds(folder: Path, trainer: int, workers: int) -> list[float]:
    """Seconds of single batches of leg L's loader with that many workers, in the order of its
    batches: one of each worker in turn. The first of each, for which it imports and opens what it
    keeps, is left out.
    """
    found: dict[int, list[float]] = {}
    for line in worker_lines(folder, trainer):
        if line["kind"] == "batches" and line["workers"] == workers:
            found.setdefault(line["worker"], []).extend(line["seconds"])
    if len(found) < workers:
        return []
    rounds = zip(*(found[worker][1:] for worker in sorted(found)), strict=False)
    return [seconds for each in rounds for seconds in each]


def samples_of(lines: Iterable[Line]) -> list[Line]:
    """Single samples: index, wall_s, cpu_s, path, size, dearest stage and pixels, each once."""
    found: dict[tuple[Any, ...], Line] = {}
    for line in lines:
        for _slot, index, wall_ns, cpu_ns, path, size, stage, pixels in line["records"]:
            found[(index, wall_ns)] = {
                "index": index,
                "wall_s": wall_ns / 1e9,
                "cpu_s": cpu_ns / 1e9,
                "path": path,
                "size": size,
                "stage": stage,
                "pixels": pixels,
            }
    return list(found.values())


def later_lines(lines: Sequence[Line]) -> list[Line]:
    """Without each worker's first batch, where there are others.

    The first one imports modules, and reads and decodes what is kept for all that follow.
    """
    return [line for line in lines if line["gap_ns"] is not None] or list(lines)


def waiting_share(lines: Iterable[Line]) -> float | None:
    """Share of the time in fetches that passed on no core and in no queue for one."""
    wall = used = 0
    for line in lines:
        if "wall_ns" in line:
            wall += line["wall_ns"]
            used += line["cpu_ns"] + (line["runqueue_ns"] or 0)
    return max(0.0, 1 - used / wall) if wall else None


def opened_files(lines: Iterable[Line]) -> list[OpenedFile]:
    """The files that samples were made from, each once."""
    sizes = {
        sample["path"]: sample["size"]
        for sample in samples_of(lines)
        if sample["path"] and sample["size"]
    }
    return [OpenedFile(path, size) for path, size in sizes.items()]
