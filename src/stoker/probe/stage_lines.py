"""What the workers of leg S wrote, read back: times of stages, single samples, opened files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from stoker.probe.session import read_lines
from stoker.probe.storage.leg import OpenedFile

Line = dict[str, Any]


def stage_lines(folder: Path) -> Iterator[Line]:
    """All records of stages in a session, of workers and of training processes."""
    for pattern in ("worker-*.jsonl", "trainer-*.jsonl"):
        for file in sorted(folder.glob(pattern)):
            yield from (line for line in read_lines(file)[0] if line["kind"] == "stages")


def samples_of(lines: Iterable[Line]) -> list[Line]:
    """Single samples: index, wall_s, cpu_s, path and size, each at most once."""
    found: dict[tuple[Any, ...], Line] = {}
    for line in lines:
        for _slot, index, wall_ns, cpu_ns, path, size in line["records"]:
            found[(index, wall_ns)] = {
                "index": index,
                "wall_s": wall_ns / 1e9,
                "cpu_s": cpu_ns / 1e9,
                "path": path,
                "size": size,
            }
    return list(found.values())


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
