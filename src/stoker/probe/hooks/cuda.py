"""What a CUDA device says of itself: how long it had no work, how busy it was, its clocks.

Made only where the model lives on such a device. Never synchronizes: events are recorded in passing
and read once the device has passed them. NVML is asked where nvidia-ml-py is installed.
"""

from __future__ import annotations

import importlib
import warnings
from collections import deque
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

from stoker import clocks
from stoker.probe.legs import DEVICE_LEGS

# NVML averages over a sixth of a second to a second, and an answer takes about a millisecond.
_ASK_EVERY_S = 1.0

_SLOWED_BY = {
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x10: "sync boost",
    0x20: "thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
}

Write = Callable[..., None]


class _Mark(NamedTuple):
    """An event on the device's stream, and the host's time when it was put there."""

    event: Any
    at: float


class CudaWatch:
    """Two events a step: where its work ends on the device, and where the next batch is there.

    Between them the device has no work. A host that is ahead records the second right behind the
    first; one that waits for a batch records it late. How far the device is behind when the host
    has launched a step tells whether it waits for launches inside of it: then it is not behind.
    """

    def __init__(
        self,
        cuda: ModuleType,
        device: Any,
        write: Write,
        *,
        nvml: Nvml | None = None,
        clock: Callable[[], float] = clocks.wall_s,
    ) -> None:
        """`cuda` is torch.cuda; `write` takes the kind and the fields of a record."""
        self._cuda = cuda
        self._device = device
        self._write = write
        self._nvml = nvml
        self._now = clock
        self._asked = clock()
        self._leg: str | None = None
        self._began: _Mark | None = None  # at the leg's first batch, the device being at rest
        self._ended: _Mark | None = None  # behind the last step
        self._open: deque[tuple[_Mark, _Mark]] = deque()
        self._spare: list[Any] = []
        self._idle: list[float] = []
        self._behind: list[float] = []
        self._states: list[dict[str, Any]] = []

    def step_ended(self) -> None:
        """The optimizer made its step: all work of the step is launched."""
        if self._ended is not None:
            self._spare.append(self._ended.event)  # a second optimizer
        self._ended = self._record()

    def batch_given(self, leg: str | None) -> None:
        """The training loop got its next batch, in that leg."""
        if leg != self._leg:
            self.tell()
            self._leg = leg
            self._began = self._record() if leg in DEVICE_LEGS else None
        elif self._ended is not None:
            self._open.append((self._ended, self._record()))
            self._ended = None
        self._collect()
        if self._nvml is not None and leg in DEVICE_LEGS:
            now = self._now()
            if now - self._asked >= _ASK_EVERY_S:
                self._asked = now
                state = self._nvml.read()
                self._states += [state] if state is not None else []

    def tell(self) -> None:
        """Write down the leg that ends here."""
        self._collect()
        if self._leg in DEVICE_LEGS and (self._idle or self._states):
            idle, behind = ([round(v, 7) for v in series] for series in (self._idle, self._behind))
            leg, states = self._leg, self._states
            self._write("device", leg=leg, each="step", idle=idle, behind=behind, states=states)
        # What lies between two legs is a drain of ours; what is not over yet is let go.
        self._began = self._ended = None
        self._idle, self._behind, self._states = [], [], []
        self._open.clear()
        self._asked = self._now()

    def _record(self) -> _Mark:
        event = self._spare.pop() if self._spare else self._cuda.Event(enable_timing=True)
        at = self._now()
        event.record(self._cuda.current_stream(self._device))
        return _Mark(event, at)

    def _collect(self) -> None:
        """Read the pairs that the device has passed; never waits for one."""
        while self._open and self._open[0][1].event.query():
            ended, given = self._open.popleft()
            self._idle.append(ended.event.elapsed_time(given.event) / 1000)  # milliseconds
            if self._began is not None:
                on_device = self._began.event.elapsed_time(ended.event) / 1000
                self._behind.append(max(0.0, on_device - (ended.at - self._began.at)))
            self._spare += [ended.event, given.event]


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
