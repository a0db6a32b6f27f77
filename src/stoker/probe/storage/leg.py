"""Leg Q: raw reads of the files that the loader itself opened.

Standard library only; runs in the examined process (whose files may be gone when it has ended)
and gives plain JSON values, which `evaluate` turns into records in the parent. Never writes.
"""

from __future__ import annotations

import random
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from stoker import clocks
from stoker.probe.storage.filesystem import mounted
from stoker.probe.storage.phase import COLD, WARM, Bounds, Phase, Reads, Supply
from stoker.probe.storage.reading import LIKE_A_LOADER, Manner, Request, Store
from stoker.probe.storage.residency import cached_share

# Files up to this size are read whole, as image, audio and text files are; larger ones are
# containers, of which a loader reads ranges.
_WHOLE_BYTES = 8 * 1024 * 1024
# Length of a range of a container whose reads were not seen: about one compressed photo.
_RANGE_BYTES = 128 * 1024
# Ranges of one container, and requests in all: enough to keep eight readers cold for a second on
# a fast disk, few enough to look at.
_MOST_RANGES = 256
_MOST_REQUESTS = 1024
# Below this share of a loader's time no store could win what two runs of a script do not differ by.
_WAITS = 0.05
# All of it, but for a page that the kernel has taken back meanwhile.
_IN_MEMORY = 0.99


class OpenedFile(NamedTuple):
    """A file that the loader opened; `offsets` and `read_bytes` where it read only ranges."""

    path: str
    size: int
    offsets: tuple[int, ...] = ()
    read_bytes: int | None = None


class Plan(NamedTuple):
    """How much leg Q may use, and with how many readers."""

    seconds: float = 3.0
    most_bytes: int = 256 * 1024 * 1024
    readers: tuple[int, ...] = (1, 2, 4, 8)


def measure_reads(
    files: Sequence[OpenedFile],
    *,
    plan: Plan = Plan(),  # noqa: B008 - immutable
    store: Store | None = None,
    clock: Callable[[], float] = clocks.wall_s,
    waiting_share: float | None = None,
) -> dict[str, Any]:
    """Read samples of the files cold, warm, and cold with more readers, within the plan's bounds.

    Reading cold drops the pages that it reads from the page cache, which others may need. So where
    the loader was seen to wait for next to nothing (`waiting_share` of its time), and all that it
    reads is in memory, nothing is read: there are no `phases` then.
    The keys: `files`, `bytes_per_read`, `resident_share` (as found), `phases` (lists in the order
    of `Phase`), `never_cold` (the reason, or None), `skipped` (texts), `seconds`, `bytes_read`.
    """
    found, skipped = _usable(files)
    requests = _requests(found)
    never_cold = mounted(found[0].path).never_cold if found else None
    reads = Reads(
        Bounds(plan.seconds, plan.most_bytes), store=store, clock=clock, never_cold=never_cold
    )
    supply = Supply(requests)
    resident = _resident_share(requests)
    matters = waiting_share is None or waiting_share >= _WAITS
    matters = matters or resident is None or resident < _IN_MEMORY
    phases = _phases(reads, supply, plan) if requests and matters else []
    if supply.was_reused:
        skipped.append("the files were read more than once: caches behind this machine may help")
    if reads.stuck and not reads.never_cold:
        skipped.append(f"{reads.stuck} reads were left out: their pages stayed in the page cache")
    if reads.failures:
        skipped.append(f"{len(reads.failures)} reads failed, the first: {reads.failures[0]}")
    return {
        "files": len(found),
        "bytes_per_read": supply.mean_length,
        "resident_share": resident,
        "phases": phases,
        "never_cold": reads.never_cold,
        "skipped": skipped,
        "seconds": reads.elapsed_s,
        "bytes_read": reads.bytes_read,
    }


class _Step(NamedTuple):
    name: str
    supply: Supply
    readers: int = 1
    temperature: str = COLD
    manner: Manner = LIKE_A_LOADER
    share: float = 0.0  # of the plan's time and bytes


def _phases(reads: Reads, supply: Supply, plan: Plan) -> list[Phase]:
    """A third for single reads, a tenth for warm ones, the rest for several readers."""
    parts = supply.parts()
    each = 0.6 / (2 * (len(plan.readers) + 1))
    # Everything cold happens twice and in turns, so that a store that changes in between does not
    # look like a size or a number of readers.
    alone = [_Step("whole", supply, share=0.1)]
    together = [_Step("together", supply, readers, share=each) for readers in plan.readers]
    if len(parts):
        manner = Manner(is_random=True)  # or read-ahead would fetch the whole file
        alone.append(_Step("part", parts, manner=manner, share=0.05))
        together.append(_Step("together", parts, plan.readers[-1], manner=manner, share=each))
    warm = _Step("whole", supply, temperature=WARM, share=0.1)
    phases = (
        reads.run(
            step.name,
            step.supply,
            readers=step.readers,
            temperature=step.temperature,
            manner=step.manner,
            bounds=Bounds(step.share * plan.seconds, int(step.share * plan.most_bytes)),
        )
        for step in (*alone, *alone, warm, *together, *together)
    )
    return [phase for phase in phases if phase is not None]


def _usable(files: Sequence[OpenedFile]) -> tuple[list[OpenedFile], list[str]]:
    """The files that are there and plain, with their size now, and what was left out."""
    found: list[OpenedFile] = []
    gone = other = 0
    for file in files:
        try:
            facts = Path(file.path).stat()
        except OSError:
            gone += 1
            continue
        if stat.S_ISREG(facts.st_mode) and facts.st_size > 0:
            found.append(file._replace(size=facts.st_size))
        else:
            other += 1
    skipped = [f"{gone} files are gone or not readable"] if gone else []
    skipped += [f"{other} are empty or no plain files"] if other else []
    return found, skipped


def _requests(files: Sequence[OpenedFile]) -> list[Request]:
    picked = list(files)
    random.Random(len(picked)).shuffle(picked)
    requests: list[Request] = []
    for file in picked[:_MOST_REQUESTS]:
        if file.size <= _WHOLE_BYTES and file.read_bytes is None:
            requests.append(Request(file.path, 0, file.size))
        else:
            requests += _ranges(file)
    return requests[:_MOST_REQUESTS]


def _ranges(file: OpenedFile) -> list[Request]:
    """Ranges that don't overlap: where the loader read, or spread at random over the file."""
    length = min(file.read_bytes or _RANGE_BYTES, file.size)
    slots = file.size // length
    if file.offsets:
        starts = {offset // length for offset in file.offsets if offset + length <= file.size}
    else:
        starts = set(random.Random(slots).sample(range(slots), min(slots, _MOST_RANGES)))
    return [Request(file.path, slot * length, length) for slot in sorted(starts)[:_MOST_RANGES]]


def _resident_share(requests: Sequence[Request]) -> float | None:
    """Share of the sampled bytes in the page cache as found; None when the kernel hides it."""
    seen = [
        (share, request.length)
        for request in requests[:128]
        if (share := cached_share(request.path, request.offset, request.length)) is not None
    ]
    total = sum(length for _, length in seen)
    return sum(share * length for share, length in seen) / total if total else None
