"""What a CUDA device says of itself: how long it had no work, how busy it was, its clocks.

Made only where the model lives on such a device. Never synchronizes: events are recorded in passing
and read once the device has passed them. NVML is asked where nvidia-ml-py is installed.
"""

from __future__ import annotations

import importlib
import time
import warnings
from collections import deque
from collections.abc import Callable
from types import ModuleType
from typing import Any

# NVML averages over a sixth of a second to a second, and an answer takes about a millisecond.
_ASK_EVERY_S = 1.0
# Legs that tell of the script's own steps or of the device alone.
_TOLD_LEGS = frozenset("RD")

_SLOWED_BY = {
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x10: "sync boost",
    0x20: "thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
}

Write = Callable[..., None]


class CudaWatch:
    """Two events a step: where its work ends on the device, and where the next batch is there.

    Between them the device has no work. A host that is ahead records the second right behind the
    first; one that waits for a batch records it late.
    """

    def __init__(
        self,
        cuda: ModuleType,
        device: Any,
        write: Write,
        *,
        nvml: Nvml | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """`cuda` is torch.cuda; `write` takes the kind and the fields of a record."""
        self._cuda = cuda
        self._device = device
        self._write = write
        self._nvml = nvml
        self._now = clock
        self._asked = clock()
        self._leg: str | None = None
        self._ended: Any = None  # the event behind the last step
        self._open: deque[tuple[Any, Any]] = deque()
        self._spare: list[Any] = []
        self._idle: list[float] = []
        self._states: list[dict[str, Any]] = []

    def step_ended(self) -> None:
        """The optimizer made its step: all work of the step is launched."""
        if self._ended is not None:
            self._spare.append(self._ended)  # a second optimizer
        self._ended = self._record()

    def batch_given(self, leg: str | None) -> None:
        """The training loop got its next batch, in that leg."""
        if leg != self._leg:
            self.tell()
            self._leg = leg
        elif self._ended is not None:
            self._open.append((self._ended, self._record()))
            self._ended = None
        self._collect()
        if self._nvml is not None and leg is not None and leg in _TOLD_LEGS:
            now = self._now()
            if now - self._asked >= _ASK_EVERY_S:
                self._asked = now
                state = self._nvml.read()
                self._states += [state] if state is not None else []

    def tell(self) -> None:
        """Write down the leg that ends here."""
        self._collect()
        if self._leg in _TOLD_LEGS and (self._idle or self._states):
            idle = [round(value, 7) for value in self._idle]
            self._write("device", leg=self._leg, idle=idle, states=self._states)
        # What lies between two legs is a drain of ours; what is not over yet is let go.
        self._ended, self._idle, self._states = None, [], []
        self._open.clear()
        self._asked = self._now()

    def _record(self) -> Any:
        event = self._spare.pop() if self._spare else self._cuda.Event(enable_timing=True)
        event.record(self._cuda.current_stream(self._device))
        return event

    def _collect(self) -> None:
        """Read the pairs that the device has passed; never waits for one."""
        while self._open and self._open[0][1].query():
            ended, given = self._open.popleft()
            self._idle.append(ended.elapsed_time(given) / 1000)  # milliseconds
            self._spare += [ended, given]


class Nvml:
    """One device through nvidia-ml-py."""

    def __init__(self, library: ModuleType, handle: Any) -> None:
        self._library = library
        self._handle = handle

    @classmethod
    def open(cls, cuda: ModuleType, device: Any) -> Nvml | None:
        """The device under its own name; None without the library, or where that does not know it.

        By its UUID: CUDA and NVML count devices in different orders.
        """
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # an old package of the same name announces its end
                library = importlib.import_module("pynvml")
        except ImportError:
            return None
        try:
            library.nvmlInit()
            uuid = f"GPU-{cuda.get_device_properties(device).uuid}"
            return cls(library, library.nvmlDeviceGetHandleByUUID(uuid))
        except (library.NVMLError, AttributeError):  # no such device, or a torch without UUIDs
            return None

    def read(self) -> dict[str, Any] | None:
        """Share of the time with a kernel running, clocks in MHz, and what holds them down."""
        library, handle = self._library, self._handle
        try:
            reasons = library.nvmlDeviceGetCurrentClocksThrottleReasons(handle)
            return {
                "busy": library.nvmlDeviceGetUtilizationRates(handle).gpu / 100,
                "sm_mhz": library.nvmlDeviceGetClockInfo(handle, library.NVML_CLOCK_SM),
                "sm_most_mhz": library.nvmlDeviceGetMaxClockInfo(handle, library.NVML_CLOCK_SM),
                "slowed_by": [name for bit, name in _SLOWED_BY.items() if reasons & bit],
            }
        except library.NVMLError:
            return None
