"""Where the training thread is inside a step: samples of its stack and of its CPU clock.

Leg P serves kept batches like leg D and has this sampler beside it, so that D stays undisturbed.
Standard library only.
"""

from __future__ import annotations

import dis
import os
import sys
import threading
import time
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Sequence
from operator import itemgetter
from types import CodeType, FrameType
from typing import Any, NamedTuple

from stoker import clocks
from stoker.probe.call_sites import CallSites
from stoker.probe.host_libraries import are_of_host, is_of_host, module_of

_EVERY_S = 0.004  # a tenth of a millisecond a sample would be felt, twenty of them tell nothing
_LATE = 0.8  # of the switch interval, which the sampler waits for a lock that is held
_ON_CPU = 0.5  # of the time since the last sample
_MOST_FRAMES = 60
# What makes the host wait for a result of a CUDA device, by the name under which it is called.
_READ_BACKS = frozenset(
    {"item", "cpu", "tolist", "numpy", "synchronize", "_cuda_synchronize", "float", "int", "bool"}
)
# A read-back of a subclass of Tensor passes through some frames of torch.
_NEAR = 6
# Functions of an emulated device: that in which its host waits, and those that wait for a result.
_WAIT = "wait_until"
_RESULTS = frozenset({"item", "synchronize"})
# Where the interpreter lets another thread run: when it goes round a loop, and when it enters a
# function. A thread that is met there computes in Python; one met at a call may be in a library.
_IN_PYTHON = frozenset(
    number for number, name in enumerate(dis.opname) if name.startswith(("JUMP_BACK", "RESUME"))
)
# Calls met at this many places belong to Python that makes many small ones, not to one long one.
_LOOP_PLACES = 4
_PLACES = 5  # lines of the script that are told


class _Sample(NamedTuple):
    """What the thread did in the time before one moment."""

    at: float
    seconds: float  # a thread that holds the interpreter is met less often
    state: str
    place: tuple[str, int, str]  # file, line and function of the script
    call: int | None  # the instruction, where it is Python code that stands at a call


class StackSampler:
    """Samples one thread until stopped."""

    def __init__(self, thread: threading.Thread, device: str | None) -> None:
        self._thread_id = thread.ident or 0
        self._reads_cuda = device is not None and device != "emulated"
        self._clock = time.pthread_getcpuclockid(self._thread_id)
        self._queue = open_run_queue(thread.native_id)
        self._is_over = threading.Event()
        self._samples: list[_Sample] = []
        self._code: dict[CodeType, bytes] = {}
        self._sites = CallSites()
        self._sampler = threading.Thread(target=self._run, name="stoker-stacks", daemon=True)
        self._sampler.start()

    def _run(self) -> None:
        wall, cpu = clocks.wall_s(), self._computing_s()
        while not self._is_over.wait(_EVERY_S):
            frame = sys._current_frames().get(self._thread_id)
            wall_now, cpu_now = clocks.wall_s(), self._computing_s()
            if frame is not None:
                seconds = wall_now - wall
                is_on_cpu = cpu_now - cpu >= _ON_CPU * seconds
                self._samples.append(self._sample(frame, wall_now, seconds, is_on_cpu=is_on_cpu))
            wall, cpu = wall_now, cpu_now

    def _computing_s(self) -> float:
        """On a core, or waiting for one that others hold: it has something to compute."""
        return clocks.gettime(self._clock) + waited_s(self._queue)

    def _sample(self, frame: FrameType, at_s: float, seconds: float, *, is_on_cpu: bool) -> _Sample:
        chain: list[FrameType] = []
        at: FrameType | None = frame
        while at is not None and len(chain) < _MOST_FRAMES:
            chain.append(at)
            at = at.f_back
        user = next(filter(is_users, chain), frame)
        # Who polls the device has let go of the interpreter's lock; who computes in Python has not,
        # and the sampler comes late by its wait for it.
        holds = is_on_cpu and seconds > _EVERY_S + _LATE * sys.getswitchinterval()
        state = self._state(chain, user, is_on_cpu=is_on_cpu, holds=holds)
        place = user.f_code.co_filename, user.f_lineno, user.f_code.co_qualname
        # Libraries let go of the lock in their long calls; many small ones of builtins don't.
        is_own = holds or self._is_at_loop(user) or chain[0] is not user
        is_call = state == "python" and not is_own and not self._calls_host_library(user)
        return _Sample(at_s, seconds, state, place, user.f_lasti if is_call else None)

    def _is_at_loop(self, frame: FrameType) -> bool:
        code = self._code.setdefault(frame.f_code, frame.f_code.co_code)
        return 0 <= frame.f_lasti < len(code) and code[frame.f_lasti] in _IN_PYTHON

    def _calls_host_library(self, frame: FrameType) -> bool:
        name = self._sites.root(frame)
        return name is not None and is_of_host(module_of(frame, name))

    def _state(
        self, chain: list[FrameType], user: FrameType, *, is_on_cpu: bool, holds: bool
    ) -> str:
        """ "python" is on a core in the script's own code, and in what works for it on the host
        alone; "library" on one elsewhere.

        Waiting comes first: a host that polls, as CUDA's does, is on a core while it waits.
        """
        names = [_module(f) for f in chain]
        if any(name.startswith("torch.distributed") for name in names):
            return "collective"
        # Where a leg ends we wait for the device ourselves.
        is_ours = any(name.startswith("stoker.probe") for name in names[: chain.index(user)])
        emulated = {
            f.f_code.co_name
            for name, f in zip(names, chain, strict=True)
            if name.startswith("stoker.emulate")
        }
        if _WAIT in emulated:
            return "blocked" if is_ours or emulated.isdisjoint(_RESULTS) else "read-back"
        is_reading = self._reads_cuda and not holds
        if is_reading and any(self._sites.callee(f) in _READ_BACKS for f in chain[:_NEAR]):
            return "blocked" if is_ours else "read-back"
        if is_on_cpu:
            is_own = chain[0] is user or are_of_host(chain[: chain.index(user)])
            return "python" if is_own else "library"
        return "blocked"

    def stop(self, steps: Sequence[tuple[float, float]]) -> dict[str, Any]:
        """End; shares of the time of these steps by state, and the lines where most of it went.

        `steps`: begin and end of each, in seconds of `clocks.wall_s`, in order. What was
        sampled between them, or after the last (a script that comes to its end), is no step's.
        """
        self._is_over.set()
        self._sampler.join()
        if self._queue is not None:
            os.close(self._queue)
        return _shares([sample for sample in self._samples if _is_inside(sample.at, steps)])


def _is_inside(at_s: float, steps: Sequence[tuple[float, float]]) -> bool:
    before = bisect_right(steps, at_s, key=itemgetter(0))
    return before > 0 and at_s <= steps[before - 1][1]


def _shares(samples: Sequence[_Sample]) -> dict[str, Any]:
    states: defaultdict[str, float] = defaultdict(float)
    places: defaultdict[tuple[str, int, str, str], float] = defaultdict(float)
    calls: defaultdict[tuple[str, str], Counter[int]] = defaultdict(Counter)
    at_calls: defaultdict[tuple[str, str], float] = defaultdict(float)
    for sample in samples:
        states[sample.state] += sample.seconds
        file, line, function = sample.place
        places[(file, line, function, sample.state)] += sample.seconds
        if sample.call is not None:
            calls[file, function][sample.call] += 1
            at_calls[file, function] += sample.seconds
    total = sum(states.values())
    if not total:
        return {"samples": 0}
    # A single call of a library stands at one instruction of the script's own line.
    single = sum(
        seconds
        for key, seconds in at_calls.items()
        if len(calls[key]) < _LOOP_PLACES <= sum(calls[key].values())
    )
    states["python"] -= single
    states["library"] += single
    longest = sorted(places.items(), key=lambda item: -item[1])[:_PLACES]
    return {
        "samples": len(samples),
        "states": {name: seconds / total for name, seconds in states.items()},
        "places": [
            dict(zip(("file", "line", "function", "state"), place, strict=True))
            | {"share": seconds / total}
            for place, seconds in longest
        ],
    }


def open_run_queue(native_id: int | None) -> int | None:
    """The kernel's account of a thread of this process, kept open; None where there is none."""
    try:
        return os.open(f"/proc/self/task/{native_id}/schedstat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None


def waited_s(queue: int | None) -> float:
    """Seconds that the thread has waited for a core so far."""
    if queue is None:
        return 0.0
    try:
        return int(os.pread(queue, 128, 0).split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def is_users(frame: FrameType) -> bool:
    """True for code that is neither installed, nor the standard library's, nor ours."""
    file = frame.f_code.co_filename
    return not (
        "site-packages" in file
        or file.startswith(("<", sys.base_prefix))
        or _module(frame).startswith("stoker.")
    )
