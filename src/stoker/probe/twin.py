"""Leg "twin": the same sample under equal and under other random seeds, compared call by call.

Tells what of the work on a sample gives the same result each time and could be stored, and what is
random and must be done anew. Found by experiment: the results of the Python calls below
`__getitem__` are compared, names are only reported. Standard library only.
"""

from __future__ import annotations

import hashlib
import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

# A flip with probability 1/2 comes out alike under two seeds half of the time. Under these four
# each of the first three draws of random, numpy and torch falls twice on either side of 1/2.
SEEDS = (42, 46, 148, 40)
SAMPLES = 2
_DEEPEST = 6  # levels of calls below __getitem__ that are told apart
_MOST_CALLS = 20_000  # a sample of more calls is timed as one
_HASHED_ITEMS = 64  # of a container
# Drawing a number is not the random operation; the function that uses it is.
_DRAWING = ("random", "numpy.random", "torch.random", "torch._C", "secrets")


@dataclass
class Call:
    """One call of a Python function below `__getitem__`."""

    name: str
    module: str
    began_s: float
    is_library: bool = False  # installed, not the script's own
    ended_s: float = 0.0
    result: bytes | None = None  # digest; None: nothing that can be compared
    below: list[Call] = field(default_factory=list)


@dataclass(frozen=True)
class Split:
    """Where the work on one sample turns random."""

    seconds: float
    stored_s: float  # of it, before the first random operation
    random_op: str | None  # None: nothing on the sample is random


def digest(value: Any) -> bytes | None:
    """A digest of a result, or None for what has no comparable content."""
    state = hashlib.blake2b(digest_size=12)
    return state.digest() if _feed(state, value, depth=0) else None


def _feed(state: Any, value: Any, *, depth: int) -> bool:
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes, bytearray)):
        state.update(repr(value).encode() if not isinstance(value, (bytes, bytearray)) else value)
        return True
    kind = type(value)
    if hasattr(value, "_version") and hasattr(value, "numpy"):  # a tensor
        try:
            state.update(value.detach().contiguous().numpy().tobytes())
        except (TypeError, RuntimeError):
            return False
        return True
    if kind.__module__ == "numpy" and hasattr(value, "tobytes"):
        state.update(value.tobytes())
        return True
    if kind.__module__.startswith("PIL.") and hasattr(value, "tobytes"):
        # A picture that was only opened is not decoded yet, and asking for it would decode it.
        if getattr(value, "_im", None) is None:
            state.update(repr((value.size, value.mode, getattr(value, "filename", ""))).encode())
        else:
            state.update(value.tobytes())
        return True
    if depth < 4 and isinstance(value, dict):
        items = list(value.items())[:_HASHED_ITEMS]
        return all(_feed(state, part, depth=depth + 1) for item in items for part in item)
    if depth < 4 and isinstance(value, (list, tuple)):
        if len(value) > _HASHED_ITEMS and all(isinstance(v, (int, float)) for v in value):
            state.update(repr(value).encode())
            return True
        return all(_feed(state, part, depth=depth + 1) for part in value[:_HASHED_ITEMS])
    return False


class _Tracer:
    """Records the tree of Python calls of one thread; its own time is taken out."""

    def __init__(self) -> None:
        self.root = Call("__getitem__", "", 0.0)
        self._open: list[Call | None] = []
        self._lost_s = 0.0
        self._calls = 0

    def now(self) -> float:
        """Seconds without the tracer's own."""
        return time.perf_counter() - self._lost_s

    def __call__(self, frame: FrameType, event: str, result: Any) -> None:
        if event not in ("call", "return"):
            return
        entered = time.perf_counter()
        try:
            if event == "call":
                self._enter(frame, entered - self._lost_s)
            else:
                self._leave(result, entered - self._lost_s)
        finally:
            self._lost_s += time.perf_counter() - entered

    def _enter(self, frame: FrameType, now: float) -> None:
        self._calls += 1
        if len(self._open) >= _DEEPEST or self._calls > _MOST_CALLS:
            self._open.append(None)
            return
        module = str(frame.f_globals.get("__name__", ""))
        code = frame.f_code
        is_library = "site-packages" in code.co_filename
        call = Call(code.co_qualname, module, now, is_library)
        parent = next((c for c in reversed(self._open) if c is not None), self.root)
        parent.below.append(call)
        self._open.append(call)

    def _leave(self, result: Any, now: float) -> None:
        if not self._open:
            return
        call = self._open.pop()
        if call is not None:
            call.ended_s = now
            call.result = digest(result)


def trace(work: Callable[[], Any]) -> Call:
    """Run the work once; the tree of calls below it."""
    tracer = _Tracer()
    tracer.root.began_s = tracer.now()
    sys.setprofile(tracer)
    try:
        result = work()
    finally:
        sys.setprofile(None)
    tracer.root.ended_s = tracer.now()
    tracer.root.result = digest(result)
    return tracer.root


def path_to_difference(reference: Call, others: list[Call]) -> list[Call]:
    """From `reference` down to the call in which the runs first go apart; empty when never.

    The search goes down only through calls that merely pass on what differs below them: a call
    that draws the random numbers itself is the random operation.
    """
    if all(other.result == reference.result for other in others):
        return []
    for place, call in enumerate(reference.below):
        twins = [other.below[place] for other in others if place < len(other.below)]
        if len(twins) < len(others) or any(twin.name != call.name for twin in twins):
            return [reference]  # they take other ways here
        if all(twin.result == call.result for twin in twins):
            continue
        if call.module.startswith(_DRAWING):
            return [reference]
        return [reference, *path_to_difference(call, twins)]
    return [reference]


def split(reference: Call, others: list[Call]) -> Split:
    """How much of the work comes before the first difference."""
    path = path_to_difference(reference, others)
    whole = reference.ended_s - reference.began_s
    if not path:
        return Split(whole, whole, None)
    found = path[-1]
    # An operation is told by the script's own function, not by what that calls in a library; but
    # `__getitem__` names the operation only where it is random in its own body.
    name = next((call.name for call in reversed(path) if not call.is_library), found.name)
    if name.rpartition(".")[2] == "__getitem__":
        name = found.name
    if found is reference:
        # Random in the body itself: what its calls did alike before can be stored, the rest can't.
        alike = 0.0
        for place, call in enumerate(reference.below):
            twins = [other.below[place] for other in others if place < len(other.below)]
            if call.module.startswith(_DRAWING) or len(twins) < len(others):
                break
            if call.result is None or any(twin.result != call.result for twin in twins):
                break
            alike = call.ended_s - reference.began_s
        return Split(whole, alike, name)
    return Split(whole, found.began_s - reference.began_s, name)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """All the usual generators at one seed."""
    random.seed(seed)
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy:
        numpy.random.seed(seed)
    if torch:
        torch.manual_seed(seed)
    yield


def examine(dataset: Any, indices: list[int], limit_s: float) -> dict[str, Any] | None:
    """Twin runs on a few samples; None when none could be finished within the time.

    Gives plain values: mean seconds of a sample, the share that other seeds change, the name of
    the first random operation, and whether equal seeds give equal samples.
    """
    began = time.perf_counter()
    splits: list[Split] = []
    is_repeatable = True
    for index in indices[:SAMPLES]:
        runs = []
        for seed in (SEEDS[0], *SEEDS):
            with seeded(seed):
                runs.append(trace(lambda index=index: dataset[index]))  # type: ignore[misc]
            if time.perf_counter() - began > limit_s:
                break
        if len(runs) < 3:
            break
        same, reference, *others = runs
        is_repeatable = is_repeatable and same.result == reference.result
        splits.append(split(reference, [same, *others]))
    if not splits:
        return None
    whole = sum(part.seconds for part in splits)
    return {
        "samples": len(splits),
        "sample_s": whole / len(splits),
        "random_share": 1 - sum(part.stored_s for part in splits) / whole if whole else None,
        "random_op": next((part.random_op for part in splits if part.random_op), None),
        "repeatable": is_repeatable,
    }
