"""Where a row of transforms is cut, found by experiment; no transform is judged by its name.

Once: all before the first that gives other values under another seed or draws a random number, and
before pixels become floats. Of the rest, the last that give the same for the same and handle floats
could as well be done on the device, on whole batches. Standard library only.
"""

from __future__ import annotations

import copy
import random
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from stoker import clocks
from stoker.containers import parts
from stoker.random_state import states
from stoker.split.digest import digest
from stoker.split.generators import Generators
from stoker.split.row import Chain, Row, Step, find_row, owner_of, with_steps

# A flip of half the pictures shows in two of them; what happens to one in ten needs these many.
_SAMPLES, _SEEDS = 8, 4
# What the user's transforms may raise when they are asked for a step by itself: anything, as the
# errors of libraries have nothing else in common.
_ANY_ERROR = Exception


class Cut(NamedTuple):
    """Where a row is cut: steps before `once` are packed, those from `device` on could move.

    `once` ≤ `device` ≤ the number of steps.
    """

    row: Row
    once: int
    device: int

    @property
    def rest(self) -> tuple[Step, ...]:
        """What every epoch does."""
        return self.row.steps[self.once :]

    def kept(self, dataset: Any) -> Any:
        """A copy of the data set that gives what is packed."""
        return with_steps(dataset, self.row, self.row.steps[: self.once])

    def __str__(self) -> str:
        names = tuple(map(name_of, self.row.steps))
        parts = (names[: self.once], names[self.once : self.device], names[self.device :])
        once, host, device = (", ".join(part) or "nothing" for part in parts)
        told = f"packed once: {once} | in every epoch: {host}"
        return told if device == "nothing" else f"{told} | there or on the device: {device}"


def name_of(step: Step) -> str:
    """A function's own name, or that of an object's class."""
    return str(getattr(step, "__name__", type(step).__name__))


def cut_at(dataset: Any, count: int) -> Cut | None:
    """The cut behind so many steps; None when there are not so many."""
    row = find_row(dataset)
    return None if row is None or len(row.steps) < count else Cut(row, count, len(row.steps))


def find_cut(dataset: Any, *, limit_s: float | None = None) -> Cut | None:
    """Where its transforms are to be cut; None when it has none that can be told apart.

    Asks for the first samples under several seeds; the data set and its transforms are left as they
    are, with the random generators that these keep. What is random before any transform can't be
    cut off: then, and where samples are made without the transforms, the answer is None. After
    `limit_s` seconds no further sample is looked at.
    """
    end = None if limit_s is None else clocks.wall_s() + limit_s
    row = find_row(dataset)
    if row is None:
        return None
    own = Generators([owner_of(dataset, row), *row.steps])
    kept = own.kept()
    runs: list[list[list[_Seen]]] = []  # by sample and seed: what was seen in front of each step
    for position in range(min(_SAMPLES, len(dataset))):
        if end is not None and clocks.wall_s() > end:
            break
        try:
            watched = [_watched(dataset, row, own, position, seed) for seed in range(_SEEDS)]
        except _ANY_ERROR:
            continue  # a broken sample
        finally:
            own.put_back(kept)
        # Only now, as an error of these is none of the sample's.
        seen = [[watch.seen() for watch in watches] for watches in watched]
        if any(one is None for places in seen for one in places):
            return None
        runs.append([[one for one in places if one is not None] for places in seen])
    if not runs:
        return None
    once = -1
    for step in range(len(row.steps) + 1):
        if any(_is_random(seeds, step) for seeds in runs) or _makes_floats(runs[0][0], step):
            break
        once = step
    if once < 0:
        return None
    try:
        return Cut(row, once, _first_for_device(runs[0][0], row, once))
    finally:
        own.put_back(kept)


def seed_all(seed: int) -> None:
    """Begin the random numbers of Python, numpy and torch at `seed`."""
    random.seed(seed)
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None:
        numpy.random.seed(seed)
    if torch is not None:
        torch.manual_seed(seed)


def is_equal(a: Any, b: Any) -> bool:
    """True when two values have the same type, shape and bytes."""
    if type(a) is not type(b) or getattr(a, "size", 0) != getattr(b, "size", 0):
        return False
    return bool(a.tobytes() == b.tobytes() if hasattr(a, "tobytes") else a == b)


class _Seen(NamedTuple):
    """What came to one place in the row: by call, the digest of it and of the random numbers."""

    calls: tuple[bytes, ...]
    random: tuple[Any, ...]
    has_floats: bool
    last: tuple[tuple[Any, ...], dict[str, Any]]


class _Watch:
    """Stands between two steps, changes nothing, and notes what it sees."""

    def __init__(self, own: Generators) -> None:
        self._own = own
        self._calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
        self._random: list[Any] = []

    def __call__(self, *args: Any, **parts: Any) -> Any:
        """Hand on what came."""
        self._calls.append(copy.deepcopy((args, parts)))  # steps may write into it
        self._random.append((states(), self._own.states()))
        if parts:
            return parts
        return args[0] if len(args) == 1 else args

    def seen(self) -> _Seen | None:
        """All of it; None when nothing ever came here."""
        if not self._calls:
            return None
        last = self._calls[-1]
        floats = any(_is_float(part) for _, part in parts(last))
        return _Seen(tuple(map(digest, self._calls)), tuple(self._random), floats, last)


def _watched(dataset: Any, row: Row, own: Generators, position: int, seed: int) -> list[_Watch]:
    """Those of every place in the row, after one sample."""
    watches = [_Watch(own) for _ in range(len(row.steps) + 1)]
    between: list[Step] = [watches[0]]
    for step, watch in zip(row.steps, watches[1:], strict=True):
        between += [step, watch]
    seed_all(seed)
    with_steps(dataset, row, between)[position]
    return watches


def _is_random(seeds: Sequence[list[_Seen]], place: int) -> bool:
    """True where other seeds gave other values, or a number was drawn on the way from the start."""
    first = seeds[0]
    return any(
        one[place].calls != first[place].calls or one[place].random != one[0].random
        for one in seeds
    )


def _makes_floats(seen: list[_Seen], place: int) -> bool:
    return place > 0 and seen[place].has_floats and not seen[0].has_floats


def _is_float(part: Any) -> bool:
    """True for arrays and tensors of floats; single numbers are parameters or labels."""
    kind = str(getattr(part, "dtype", ""))
    return "float" in kind and getattr(part, "ndim", 0) > 0


def _first_for_device(seen: list[_Seen], row: Row, once: int) -> int:
    """The first of the last steps that all give the same for the same, and take or make floats."""
    first = len(row.steps)
    while first > once and seen[first].has_floats:
        if not _is_steady(row.steps[first - 1], seen[first - 1]):
            break
        first -= 1
    return first


def _is_steady(step: Step, before: _Seen) -> bool:
    """True when the step by itself gives one result under all seeds and draws nothing."""
    own = Generators([step])
    results: set[bytes] = set()
    for seed in range(_SEEDS):
        args, parts = copy.deepcopy(before.last)
        seed_all(seed)
        start = states(), own.states()
        try:
            result = Chain([step])(*args, **parts)
        except _ANY_ERROR:
            return False
        results.add(digest(result))
        if (states(), own.states()) != start:
            return False
    return len(results) == 1
