"""Leg "twin": the same sample under equal and under other random seeds, compared call by call.

Tells what of the work on a sample gives the same result each time and could be stored, and what is
random and must be done anew. Found by experiment: the results of the Python calls below
`__getitem__` are compared, names are only reported. Standard library only.
"""

from __future__ import annotations

import hashlib
import itertools
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from stoker import clocks

# A flip with probability 1/2 comes out alike under two seeds half of the time. Under these four
# each of the first three draws of random, numpy and torch falls twice on either side of 1/2.
SEEDS = (42, 46, 148, 40)
SAMPLES = 2
# A sample that takes so many times less from the second time on was kept by its data set.
_KEPT = 3
_DEEPEST = 6  # levels of calls below __getitem__ that are told apart
_MOST_CALLS = 20_000  # a sample of more calls is timed as one
_HASHED_ITEMS = 64  # of a container
# Drawing a number is not the random operation; the function that uses it is.
_DRAWING = ("random", "numpy.random", "torch.random", "torch._C", "secrets")
# Functions of torch, and methods of its tensors, that draw; those of generators all do.
_DRAWING_IN_TORCH = frozenset(
    {"rand", "randn", "randint", "randperm", "rand_like", "randn_like", "randint_like", "normal"}
    | {"bernoulli", "multinomial", "poisson", "random_", "uniform_", "normal_", "bernoulli_"}
)
# Functions of numpy.random that draw nothing.
_NO_DRAWS = ("seed", "get_state", "set_state")


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
    drew_s: float | None = None  # when its own body first drew a random number


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
        return clocks.wall_s() - self._lost_s

    def __call__(self, frame: FrameType, event: str, result: Any) -> None:
        if event not in ("call", "return", "c_call"):
            return
        entered = clocks.wall_s()
        try:
            if event == "call":
                self._enter(frame, entered - self._lost_s)
            elif event == "c_call":
                self._note_draw(result, entered - self._lost_s)
            else:
                self._leave(result, entered - self._lost_s)
        finally:
            self._lost_s += clocks.wall_s() - entered

    def _enter(self, frame: FrameType, now: float) -> None:
        self._calls += 1
        if len(self._open) >= _DEEPEST or self._calls > _MOST_CALLS:
            self._open.append(None)
            return
        module = str(frame.f_globals.get("__name__", ""))
        code = frame.f_code
        is_library = "site-packages" in code.co_filename
        call = Call(code.co_qualname, module, now, is_library)
        parent = self._innermost
        parent.below.append(call)
        if _is_drawing(call):
            self._drew(parent, now)
        self._open.append(call)

    def _note_draw(self, function: Any, now: float) -> None:
        """A call of a builtin; of most generators the methods are."""
        if _draws(function):
            self._drew(self._innermost, now)

    @property
    def _innermost(self) -> Call:
        return next((call for call in reversed(self._open) if call is not None), self.root)

    @staticmethod
    def _drew(call: Call, now: float) -> None:
        if call.drew_s is None:
            call.drew_s = now

    def _leave(self, result: Any, now: float) -> None:
        if not self._open:
            return
        call = self._open.pop()
        if call is not None:
            call.ended_s = now
            call.result = digest(result)


def _draws(function: Any) -> bool:
    """Whether a builtin takes random numbers of random, numpy or torch."""
    owner = getattr(function, "__self__", None)
    if owner is None:
        return False
    kind = owner if isinstance(owner, type) else type(owner)
    module = kind.__module__
    if module == "random" or module.startswith("numpy.random"):
        return True
    return module.startswith("torch") and function.__name__ in _DRAWING_IN_TORCH


def _is_drawing(call: Call) -> bool:
    return call.module.startswith(_DRAWING) or call.name == _SEEN


def _seen(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, called from Python."""

    def draw(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return draw


_SEEN = _seen(len).__qualname__


@contextmanager
def _seen_draws_of_numpy() -> Iterator[None]:
    """The functions of numpy.random as Python functions: compiled by Cython, they tell no profiler.

    What a script has imported by name, and what a generator of its own draws, stays unseen.
    """
    numpy = sys.modules.get("numpy")
    if numpy is None:
        yield
        return
    module = numpy.random
    kept = {
        name: function
        for name, function in vars(module).items()
        if type(getattr(function, "__self__", None)).__name__ == "RandomState"
        and name not in _NO_DRAWS
    }
    try:
        for name, function in kept.items():
            setattr(module, name, _seen(function))
        yield
    finally:
        for name, function in kept.items():
            setattr(module, name, function)


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
        if _is_drawing(call):
            return [reference]
        return [reference, *path_to_difference(call, twins)]
    return [reference]


def split(reference: Call, others: list[Call], *, is_repeatable: bool = True) -> Split:
    """How much of the work comes before the first difference.

    What differs under one seed draws from a source of its own, which was not seen.
    """
    path = path_to_difference(reference, others)
    whole = _seconds(reference)
    if not path:
        return Split(whole, whole, None)
    found = path[-1]
    # An operation is told by the script's own function, not by what that calls in a library; but
    # `__getitem__` names the operation only where it is random in its own body.
    name = next((call.name for call in reversed(path) if not call.is_library), found.name)
    if name.rpartition(".")[2] == "__getitem__":
        name = found.name
    stored_until = found.began_s
    if _is_data_set(found) and is_repeatable:
        stored_until = _stored_until(found, _at(path, others))
    return Split(whole, stored_until - reference.began_s, name)


def _seconds(call: Call) -> float:
    return call.ended_s - call.began_s


def _is_data_set(call: Call) -> bool:
    return call.name.rpartition(".")[2] == "__getitem__"


def _at(path: list[Call], others: list[Call]) -> list[Call]:
    """The calls in the other runs that stand where the last one of the path does."""
    for call, below in itertools.pairwise(path):
        place = next(n for n, one in enumerate(call.below) if one is below)
        others = [other.below[place] for other in others]
    return others


def _stored_until(call: Call, twins: list[Call]) -> float:
    """When a body that is random itself first drew, or what it calls went apart before that.

    What is before a draw is the same each time. Where none was seen, nothing is known.
    """
    if call.drew_s is None:
        return call.began_s
    if _comes_from_memory(call, twins):
        return call.drew_s
    alike = call.began_s
    for place, inner in enumerate(call.below):
        if inner.began_s >= call.drew_s:
            break
        others = [twin.below[place] for twin in twins if place < len(twin.below)]
        is_alike = inner.result is not None and all(o.result == inner.result for o in others)
        if len(others) < len(twins) or not is_alike:
            return alike
        alike = inner.ended_s
    return call.drew_s


def _comes_from_memory(call: Call, twins: list[Call]) -> bool:
    """A data set that keeps samples calls nothing before its draw where it has one already."""
    if any(twin.drew_s is None for twin in twins):
        return False
    return not any(_before_draw(twin) for twin in twins) and bool(_before_draw(call))


def _before_draw(call: Call) -> list[Call]:
    return [inner for inner in call.below if call.drew_s and inner.began_s < call.drew_s]


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
    the first random operation, whether equal seeds give equal samples, and whether the data set
    keeps those that it has made.
    """
    began = clocks.wall_s()
    splits: list[Split] = []
    kept: dict[int, Split] = {}  # by the sample's number, from 1
    is_repeatable = True
    for index in indices[: 2 * SAMPLES]:
        if len(splits) >= SAMPLES and len(kept) in (0, len(splits)):
            break  # they agree
        runs = []
        for seed in (SEEDS[0], *SEEDS):
            with seeded(seed), _seen_draws_of_numpy():
                runs.append(trace(lambda index=index: dataset[index]))  # type: ignore[misc]
            if clocks.wall_s() - began > limit_s:
                break
        if len(runs) < 3:
            break
        same, reference, *others = runs
        is_same = same.result == reference.result
        is_repeatable = is_repeatable and is_same
        splits.append(split(reference, [same, *others], is_repeatable=is_same))
        if is_same and _seconds(same) > _KEPT * max(map(_seconds, [reference, *others])):
            kept[len(splits)] = split(same, [reference, *others])
    if not splits:
        return None
    # A handle that is opened late makes the first sample slow, a cache the first run of each that
    # it does not hold already.
    is_kept = max(kept, default=1) > 1
    if is_kept:
        splits = list(kept.values())
    whole = sum(part.seconds for part in splits)
    return {
        "samples": len(splits),
        "sample_s": whole / len(splits),
        "random_share": 1 - sum(part.stored_s for part in splits) / whole if whole else None,
        "random_op": next((part.random_op for part in splits if part.random_op), None),
        "repeatable": is_repeatable,
        "is_kept": is_kept,
    }
