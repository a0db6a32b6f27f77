"""EmulatedAccelerator: what a training script sees of a device that only takes time.

Knows no training library. Measures itself before it lets itself be used.
"""

from __future__ import annotations

import math
import random
import threading
import weakref
from collections.abc import Callable
from functools import cache
from typing import Any

from stoker.emulate.device import LONG_AGO, Device
from stoker.emulate.host import Host, HostTime, RealHost
from stoker.emulate.residents import Copies, Residents, leaves
from stoker.errors import InputError, StokerError

# What an accelerator that is always fed must reach [mlcommons/storage#400: 0.15 to 0.20 in one].
_WANTED_AU = 0.99
# A step costs a little beside its own time, which is not to be felt in 5 ms. A window of four is
# over in 20 ms, and one quiet window shows that the emulation is exact, however busy the machine
# is: they are tried for so long before it is refused. Steps as long as those to come are fair,
# within reason.
_CALIBRATION_STEP_S = 0.005
_LONGEST_CALIBRATION_STEP_S = 0.05
_CALIBRATION_STEPS = 4
_CALIBRATION_WINDOWS = 10
_CALIBRATION_LIMIT_S = 3.0


class StepHandle:
    """A launched step: its result is there when the device has come to its end."""

    __slots__ = ("_ends_at", "_host", "_value")

    def __init__(self, host: HostTime, ends_at: float, value: float) -> None:
        self._host = host
        self._ends_at = ends_at
        self._value = value

    def item(self) -> float:
        """Wait for the step and return its loss, a number that falls with the step number."""
        self._host.wait_until(self._ends_at)
        return self._value


class EmulatedAccelerator:
    """A device with one queue of steps and one link to the host.

    `step_s`: seconds of a step, or a function of (step number from 0 on, batch). `launch_s`: CPU
    seconds that the caller spends on a launch, before the step can begin. `link_bytes_per_s`: of
    copies to the device; None: they take no time. `asynchronous`: `step` returns before the step
    has ended, with at most two steps outstanding. `jitter`: relative standard deviation of the
    step time, the same sequence in each run. `host`: what the caller does while it waits: sleep,
    spin (a core is taken, the GIL is not) or gil (both are).

    Raises InputError for numbers that cannot be, and StokerError when this machine cannot keep
    the emulated time. Safe to use from several threads.
    """

    def __init__(
        self,
        step_s: float | Callable[[int, Any], float],
        *,
        launch_s: float = 0.0,
        link_bytes_per_s: float | None = None,
        asynchronous: bool = True,
        jitter: float = 0.0,
        host: Host = "sleep",
    ) -> None:
        _require(callable(step_s) or step_s >= 0, "step_s", step_s)
        _require(launch_s >= 0, "launch_s", launch_s)
        _require(
            link_bytes_per_s is None or link_bytes_per_s > 0, "link_bytes_per_s", link_bytes_per_s
        )
        _require(jitter >= 0, "jitter", jitter)
        _require(host in ("sleep", "spin", "gil"), "host", host)
        self._step_s = step_s
        self._launch_s = launch_s
        self._link_bytes_per_s = link_bytes_per_s
        self._is_asynchronous = asynchronous
        self._jitter = jitter
        self._host_kind: Host = host
        self._host: HostTime = RealHost(host)
        self._device = Device()
        self._residents = Residents()
        self._lock = threading.Lock()  # of the step number and the random sequence
        self._random = random.Random(0)
        self._steps = 0
        _calibrate_once(host, self._calibration_step_s())
        _LIVE.add(self)

    @property
    def steps(self) -> int:
        """Steps launched so far."""
        return self._steps

    @property
    def busy_s(self) -> float:
        """Device time of all steps launched so far."""
        return self._device.busy_s

    @property
    def idle_s(self) -> float:
        """Time between the steps launched so far in which the device had nothing to do."""
        return self._device.idle_s

    def to_device(self, batch: Any, non_blocking: bool = False, pinned: bool = False) -> Any:
        """Copy a batch over the link, and return it as it stands on the device.

        Takes bytes / `link_bytes_per_s`. Returns at once only with both `pinned` and
        `non_blocking`; the step that uses the batch then waits for the rest of the copy. What is
        on the device already takes no time.
        """
        if self._link_bytes_per_s is None:
            return batch
        copies = Copies(self._residents)
        placed = copies.of(batch)
        if copies.size:
            arrives_at = self._device.send(self._host.now(), copies.size / self._link_bytes_per_s)
            for leaf in copies.made:
                self._residents.add(leaf, arrives_at)
            if not (pinned and non_blocking):
                self._host.wait_until(arrives_at)
        return placed

    def step(self, batch: Any) -> StepHandle:
        """Launch one training step on a batch."""
        if self._launch_s:
            self._host.spend(self._launch_s)
        with self._lock:
            number = self._steps
            self._steps += 1
            stretch = self._random.gauss(1.0, self._jitter) if self._jitter else 1.0
        seconds = self._step_s(number, batch) if callable(self._step_s) else self._step_s
        ready_at = LONG_AGO
        if self._link_bytes_per_s is not None:
            ready_at = max(map(self._residents.arrival, leaves(batch)), default=LONG_AGO)
        booked = self._device.launch(
            self._host.now(), seconds * max(0.0, stretch), ready_at=ready_at
        )
        self._host.wait_until(booked.room_at if self._is_asynchronous else booked.ends_at)
        return StepHandle(self._host, booked.ends_at, 1.0 / math.sqrt(1.0 + number))

    def synchronize(self) -> None:
        """Wait for everything that was launched, copies included."""
        self._host.wait_until(self._device.done_at())

    def mark_resident(self, batch: Any) -> None:
        """Take a batch as being on the device already.

        A buffer of plain bytes, which cannot be followed, counts for the next `to_device` only.
        """
        if self._link_bytes_per_s is not None:
            for leaf in leaves(batch):
                self._residents.add(leaf, LONG_AGO)

    def calibrate(self) -> float:
        """The utilisation (0 to 1) that such an accelerator reaches with a loader that takes none.

        Runs windows of four of its own steps (5 ms where they depend on the batch, 5 to 50 ms
        else) for three seconds at the most, beside its own timeline. Raises StokerError when the
        best of them stays below 0.99.
        """
        return _calibrate(self._host_kind, self._calibration_step_s())

    def _calibration_step_s(self) -> float:
        """Its own step, within reason; a short one where steps depend on the batch."""
        own = _CALIBRATION_STEP_S if callable(self._step_s) else self._step_s
        return min(max(own, _CALIBRATION_STEP_S), _LONGEST_CALIBRATION_STEP_S)


_LIVE: weakref.WeakSet[EmulatedAccelerator] = weakref.WeakSet()


def live() -> list[EmulatedAccelerator]:
    """The accelerators that this process holds."""
    return list(_LIVE)


def synchronize_all() -> None:
    """Wait for everything that was launched on any of them."""
    for accelerator in live():
        accelerator.synchronize()


def mark_resident(batch: Any) -> None:
    """Take a batch as being on every accelerator already: `to_device` is free for it."""
    for accelerator in live():
        accelerator.mark_resident(batch)


@cache
def _calibrate_once(host: Host, step_s: float) -> float:
    """Once in a process for each kind of waiting and step, before an accelerator is handed out."""
    return _calibrate(host, step_s)


def _calibrate(host: Host, step_s: float) -> float:
    """The best utilisation among short windows without a loader; StokerError below 0.99."""
    time_of, device = RealHost(host), Device()
    best, windows, started = 0.0, 0, time_of.now()
    while windows < _CALIBRATION_WINDOWS or time_of.now() - started < _CALIBRATION_LIMIT_S:
        windows += 1
        began = time_of.now()
        for _ in range(_CALIBRATION_STEPS):
            booked = device.launch(time_of.now(), step_s)
            StepHandle(time_of, booked.ends_at, 0.0).item()
        best = max(best, _CALIBRATION_STEPS * step_s / (time_of.now() - began))
        if best >= _WANTED_AU:
            return best
    raise StokerError(
        f"the emulated accelerator would be idle {1 - best:.1%} of the time with a loader that "
        f"takes none: its steps of {step_s * 1e3:g} ms end late",
        looked_at=f"{windows} windows of {_CALIBRATION_STEPS} steps, host={host!r}",
        run_next="take longer steps, or let the machine come to rest (is it shared or throttled?)",
    )


def _require(is_allowed: bool, name: str, value: object) -> None:
    if not is_allowed:
        raise InputError(
            f"EmulatedAccelerator cannot have {name}={value!r}",
            looked_at="times and jitter from 0 on, a link above 0, host sleep, spin or gil",
            run_next="help(stoker.EmulatedAccelerator)",
        )
