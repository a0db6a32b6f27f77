"""Leg "twin", stage by stage: what gives the same for a sample, whatever the random seed.

The stages are those of leg S, found by the same hooks; in place of their times their results are
kept, as digests, in the order of the calls. Standard library only.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

from stoker import clocks
from stoker.probe.hooks.calls import Decodes
from stoker.probe.hooks.patches import Patches
from stoker.probe.stages import patch_stages
from stoker.probe.twin import SAMPLES, SEEDS, digest, seeded

_MOST_CALLS = 2_000  # of a sample; what is called more often is no stage to store
# Calls of a stage whose results are compared: those of all frames of a video would take seconds.
_MOST_COMPARED = 64


@dataclass
class StageCall:
    """One call of a stage, and the calls of stages in it."""

    stage: str
    makes_samples: bool = False
    result: bytes | None = None  # digest; None: nothing that can be compared
    is_plain: bool = False  # None, a flag or a count: equal ones say little
    below: list[StageCall] = field(default_factory=list)


class StageTrace:
    """Keeps what the stages give, in the thread that made it, while `run` works."""

    def __init__(self) -> None:
        self._home = threading.get_ident()
        self._open: list[StageCall] = []
        self._calls = 0
        self._compared: dict[str, int] = {}

    def run(self, work: Callable[[], Any]) -> StageCall:
        """Work once; the calls lie below what is returned."""
        root = StageCall("")
        self._open, self._calls, self._compared = [root], 0, {}
        try:
            work()
        finally:
            self._open = []
        return root

    def timed(
        self, stage: str, function: Callable[..., Any], *, makes_samples: bool = False
    ) -> Callable[..., Any]:
        """The function; each call leaves a digest of what it gives."""

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if not self.is_inside or self._calls >= _MOST_CALLS:
                return function(*args, **kwargs)
            self._calls += 1
            made = StageCall(stage, makes_samples)
            self._open[-1].below.append(made)
            self._open.append(made)
            try:
                result = function(*args, **kwargs)
            finally:
                self._open.pop()
            compared = self._compared.get(stage, 0)
            if compared < _MOST_COMPARED:
                self._compared[stage] = compared + 1
                made.result = self._digest(result)
            made.is_plain = result is None or isinstance(result, int)
            return result

        call.__stoker_timed__ = True  # type: ignore[attr-defined]
        return call

    def _digest(self, value: Any) -> bytes | None:
        """Whatever a digest calls itself, a picture's bytes for one, is no stage."""
        opened, self._open = self._open, []
        try:
            return digest(value)
        finally:
            self._open = opened

    def timed_sample(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same of a function that makes one sample."""
        return self.timed(stage, function, makes_samples=True)

    def timed_direct(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """A stage only where a data set itself calls it; deeper down it is a part of its caller."""
        kept = self.timed(stage, function)

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            is_direct = self.is_inside and self._open[-1].makes_samples
            return (kept if is_direct else function)(*args, **kwargs)

        call.__stoker_timed__ = True  # type: ignore[attr-defined]
        return call

    def counted(
        self, stage: str, function: Callable[..., Any], decodes: Decodes
    ) -> Callable[..., Any]:
        """The function itself: what is decoded was counted by leg S."""
        del stage, decodes
        return function

    @property
    def is_inside(self) -> bool:
        """True within a run, in its own thread."""
        return bool(self._open) and threading.get_ident() == self._home

    def note(self, text: str) -> None:
        """Nothing that is said here is of use."""

    def note_file(self, path: str, size: int | None) -> None:
        """The files are those of leg S."""


class Comparison:
    """What runs of the same sample under other seeds have in common."""

    def __init__(self) -> None:
        self._found: dict[str, set[bool | None]] = {}
        self._has_parted = False

    def add(self, runs: Sequence[StageCall]) -> None:
        """All runs of one sample."""
        self._has_parted = False
        self._level(runs[0], runs[1:])

    def told(self) -> dict[str, bool]:
        """Stage -> whether all its calls gave the same; without those of which that is open."""
        told = {stage: all(seen) for stage, seen in self._found.items() if None not in seen}
        return told | {stage: False for stage, seen in self._found.items() if False in seen}

    def _level(self, reference: StageCall, others: Sequence[StageCall]) -> None:
        # Without a result of its own a call may change what the next one takes: that one tells.
        pending: list[StageCall] = []
        for place, call in enumerate(reference.below):
            twins = [other.below[place] for other in others if place < len(other.below)]
            if len(twins) < len(others) or any(twin.stage != call.stage for twin in twins):
                self._put(pending, None)
                self._part(place, (reference, *others))
                return
            is_same = all(twin.result == call.result for twin in twins)
            # After the first difference an equal count or flag is no evidence of equal work.
            if is_same and call.is_plain and not self._has_parted:
                pending.append(call)
                continue
            if call.result is not None and not call.is_plain:
                self._put(pending, True if is_same else None)
                pending = []
            if is_same and call.result is not None and not call.is_plain:
                self._put([call], True)
                continue
            self._level(call, twins)
            if not is_same:
                self._has_parted = True
            # What can't be compared is the same as long as nothing before it was another.
            known = False if not is_same else None if self._has_parted else True
            self._found.setdefault(call.stage, set()).add(known)
        self._put(pending, None)
        self._part(len(reference.below), others)

    def _part(self, place: int, runs: Iterable[StageCall]) -> None:
        """From there on the runs take other ways: chance decides what is done."""
        for run in runs:
            if len(run.below) > place:
                self._has_parted = True
                self._put(run.below[place:], False)

    def _put(self, calls: Iterable[StageCall], repeats: bool | None) -> None:
        """The same of the calls and all in them."""
        for call in calls:
            self._found.setdefault(call.stage, set()).add(repeats)
            self._put(call.below, repeats)


def examine_stages(dataset: Any, indices: Sequence[Any], limit_s: float) -> dict[str, bool]:
    """Stage -> whether it gives the same under all seeds, from a few samples; what is open is out.

    Empty where not even one sample could be made under all of them within the time.
    """
    began = clocks.wall_s()
    trace, found = StageTrace(), Comparison()
    with patch_stages(dataset, trace, Patches(trace)):
        for index in indices[:SAMPLES]:
            runs = []
            for seed in (SEEDS[0], *SEEDS):
                if clocks.wall_s() - began > limit_s:
                    return found.told()
                with seeded(seed):
                    runs.append(trace.run(lambda index=index: dataset[index]))  # type: ignore[misc]
            found.add(runs)
    return found.told()
