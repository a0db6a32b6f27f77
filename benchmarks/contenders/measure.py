"""What one contender's process measures of itself: rate, CPU, memory, time to the first batch.

Standard library only: it also runs in the environments of peers.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

# Batches after the first that are not counted: queues fill and caches warm.
_WARMING = 4


def run(make: Callable[[], Iterable[Any]], *, batch_size: int, seconds: float) -> None:
    """Iterate what `make` makes for so long, in epochs, and print the numbers as JSON."""
    began = time.perf_counter()
    batches = _endless(make())
    first = next(batches)
    first_s = time.perf_counter() - began
    _check(first, batch_size)
    del first
    for _ in range(_WARMING):
        next(batches)
    at_first = memory_bytes()
    count, cpu_s, began = 0, _cpu_s(), time.perf_counter()
    while time.perf_counter() - began < seconds:
        next(batches)
        count += batch_size
    wall_s, cpu_s = time.perf_counter() - began, _cpu_s() - cpu_s
    json.dump(
        {
            "images_per_s": count / wall_s,
            "cpu_s_per_1000": cpu_s / count * 1000,
            "memory_bytes": max(at_first, memory_bytes()),
            "first_batch_s": first_s,
        },
        sys.stdout,
    )
    sys.stdout.flush()
    # Workers and threads of any loader end with the process; their clean-up is not measured.
    os._exit(0)


def read_all(path: Path) -> None:
    """Bring a file, or all files of a folder, into the page cache."""
    files = [path] if path.is_file() else [one for one in path.rglob("*") if one.is_file()]
    room = bytearray(1 << 22)
    for one in files:
        with one.open("rb", buffering=0) as file:
            while file.readinto(room):
                pass


def _endless(loader: Iterable[Any]) -> Any:
    while True:
        yield from loader


def _check(batch: Any, batch_size: int) -> None:
    """A batch has to hold as many pictures of uint8 as are counted for it."""
    pictures = batch
    while isinstance(pictures, list | tuple):
        pictures = pictures[0]
    if hasattr(pictures, "keys"):
        pictures = pictures["image"]
    if len(pictures) != batch_size or "uint8" not in str(pictures.dtype):
        raise SystemExit(f"a batch of {len(pictures)} pictures of {pictures.dtype}")


def _cpu_s() -> float:
    """CPU of this process, of all below it that live, and of those that ended."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    total = time.process_time() + ended.ru_utime + ended.ru_stime
    tick = os.sysconf("SC_CLK_TCK")
    for child in _below():
        try:
            fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        total += sum(int(spent) for spent in fields[11:15]) / tick
    return total


def memory_bytes() -> int:
    """Memory of this process and of all below it, shared memory counted once.

    Not the pages of mapped files: they are the page cache's, and go when others need room.
    """
    total = 0
    for process in ["self", *_below()]:
        try:
            lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
        except (FileNotFoundError, ProcessLookupError):
            continue
        kept = (line.split() for line in lines if line.startswith(("Pss_Anon:", "Pss_Shmem:")))
        total += sum(int(words[1]) for words in kept) * 1024
    return total


def _below() -> list[str]:
    """The processes below this one."""
    found: list[str] = []
    left = ["self"]
    while left:
        for children in Path(f"/proc/{left.pop()}/task").glob("*/children"):
            try:
                words = children.read_text().split()
            except (FileNotFoundError, ProcessLookupError):  # has just ended
                continue
            found += words
            left += words
    return found
