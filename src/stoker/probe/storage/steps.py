"""Which reads a survey tries on the files it found, and in which order.

A pure function of the files; reads nothing.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

from stoker.probe.storage.inventory import FoundFile
from stoker.probe.storage.phase import COLD, WARM, Supply
from stoker.probe.storage.reading import LIKE_A_LOADER, PIECE_BYTES, Manner, Request

KB = 1024
MB = 1024 * KB
RANDOM_SIZES = (4 * KB, 64 * KB, MB)
# Read whole, as single samples are: compressed photos, sound and text.
_SMALL_FILE_BYTES = MB
# Below this many files a median says little, and several readers get into each other's way.
_FEWEST_FILES = 16
# Random reads go to this many of the largest files, so that each reader can keep them open.
_MOST_LARGE_FILES = 16
# A file much smaller than that is over before a disk's own read-ahead has begun.
_LARGE_FILE_BYTES = 4 * MB
_MOST_REQUESTS = 4096
_PARALLEL_BYTES = 128 * KB


class Step(NamedTuple):
    """One phase to come."""

    name: str
    supply: Supply
    temperature: str
    manner: Manner
    share: float  # of the survey's time and bytes
    readers: int = 1

    @property
    def told(self) -> str:
        """What it does, in words."""
        if self.name == PARALLEL:
            return "one reader alone" if self.readers == 1 else f"{self.readers} readers together"
        return f"{_WORDS.get(self.name, self.name)}, {self.temperature}"


SEQUENTIAL = "sequential"
FILES = "files"
PART = "part"
PARALLEL = "parallel"
_WORDS = {FILES: "small files", PART: "parts of small files", SEQUENTIAL: "sequential reads"}


def steps_for(files: Sequence[FoundFile], readers: Sequence[int]) -> tuple[list[Step], list[str]]:
    """All phases in order, and what can't be tried with these files."""
    large = sorted(
        (file for file in files if file.size >= _LARGE_FILE_BYTES), key=lambda file: -file.size
    )[:_MOST_LARGE_FILES]
    small = [file for file in files if file.size <= _SMALL_FILE_BYTES]
    steps: list[Step] = []
    skipped: list[str] = []
    if large:
        steps += _large_steps(large)
    else:
        skipped.append("no file of 4 MiB or more: no sequential and no random reads")
    if len(small) >= _FEWEST_FILES:
        whole = Supply(_whole_files(small))
        parts = whole.parts()
        steps += _small_steps(whole, parts)
        levels = _levels(whole, parts, LIKE_A_LOADER, readers)
    else:
        skipped.append(f"{len(small)} small files, {_FEWEST_FILES} are needed: none were read")
        levels = _levels(
            Supply(_random_requests(large, _PARALLEL_BYTES)),
            Supply(_random_requests(large, _PARALLEL_BYTES // 4)),
            Manner(is_random=True, keeps_open=True),
            readers,
        )
    # Twice, so that an allowance that is used up meanwhile shows.
    return [step for step in (*steps, *levels, *levels) if len(step.supply)], skipped


def random_name(size: int) -> str:
    """The name of random reads of that size."""
    return f"random-{size // KB}k" if size < MB else f"random-{size // MB}m"


def _large_steps(files: Sequence[FoundFile]) -> list[Step]:
    in_order, at_random = Manner(keeps_open=True), Manner(is_random=True, keeps_open=True)
    pieces = Supply(_pieces(files), in_order=True)
    named = [(random_name(size), Supply(_random_requests(files, size))) for size in RANDOM_SIZES]
    cold = [Step(name, supply, COLD, at_random, 0.03) for name, supply in named]
    return [
        Step(SEQUENTIAL, pieces, COLD, in_order, 0.10),
        Step(SEQUENTIAL, pieces, WARM, in_order, 0.03),
        # In turns, so that a store that changes meanwhile does not look like a size.
        *cold,
        *cold,
        *(Step(name, supply, WARM, at_random, 0.02) for name, supply in named),
    ]


def _small_steps(whole: Supply, parts: Supply) -> list[Step]:
    cold = [
        Step(FILES, whole, COLD, LIKE_A_LOADER, 0.04),
        # Without read-ahead, which would fetch the whole file.
        Step(PART, parts, COLD, Manner(is_random=True), 0.02),
    ]
    return [*cold, *cold, Step(FILES, whole, WARM, LIKE_A_LOADER, 0.02)]


def _levels(alike: Supply, other: Supply, manner: Manner, readers: Sequence[int]) -> list[Step]:
    """The same reads by more and more readers, and by the most of them in another size."""
    share = 0.45 / (2 * (len(readers) + 1))
    return [
        *(Step(PARALLEL, alike, COLD, manner, share, count) for count in readers),
        Step(PARALLEL, other, COLD, manner._replace(is_random=True), share, readers[-1]),
    ]


def _whole_files(files: Sequence[FoundFile]) -> list[Request]:
    picked = list(files)
    if len(picked) > _MOST_REQUESTS:
        picked = random.Random(len(picked)).sample(picked, _MOST_REQUESTS)
    return [Request(file.path, 0, file.size) for file in picked]


def _pieces(files: Sequence[FoundFile]) -> list[Request]:
    """The files from front to back in pieces, as far as the most requests go."""
    requests: list[Request] = []
    for file in files:
        count = min(file.size // PIECE_BYTES, _MOST_REQUESTS - len(requests))
        requests += [Request(file.path, index * PIECE_BYTES, PIECE_BYTES) for index in range(count)]
    return requests


def _random_requests(files: Sequence[FoundFile], size: int) -> list[Request]:
    """Aligned ranges that don't overlap, from each file in proportion to its size."""
    total = sum(file.size for file in files)
    picks = random.Random(size)
    requests: list[Request] = []
    for file in files:
        slots = file.size // size
        wanted = max(1, round(_MOST_REQUESTS * file.size / total))
        requests += [
            Request(file.path, slot * size, size)
            for slot in picks.sample(range(slots), min(slots, wanted))
        ]
    return requests
