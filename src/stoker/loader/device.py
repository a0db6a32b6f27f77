"""The way to a device: what a batch goes through in the feeding thread, and in the loop's.

One protocol for the host, emulated devices and CUDA: `send` begins the copy in the feeding thread,
`receive` makes the loop's own work wait for it on the device, never on the host.
"""

from __future__ import annotations

import importlib
import sys
from collections import deque
from typing import Any, Protocol

from stoker.containers import leaves, mapped
from stoker.emulate import EmulatedAccelerator
from stoker.errors import InputError


class Lane(Protocol):
    """A way to a device."""

    def send(self, batch: Any) -> Any:
        """Begin to bring the batch there; what comes back goes to `receive`."""
        ...

    def receive(self, sent: Any) -> Any:
        """The batch, safe to use by what the calling thread launches from now on."""
        ...


class HostLane:
    """The batch is where it is to be."""

    def send(self, batch: Any) -> Any:
        """The batch itself."""
        return batch

    def receive(self, sent: Any) -> Any:
        """The batch itself."""
        return sent


class EmulatedLane:
    """A copy over the link of an emulated accelerator; its next step waits for the bytes."""

    def __init__(self, accelerator: EmulatedAccelerator) -> None:
        self._accelerator = accelerator

    def send(self, batch: Any) -> Any:
        """Put the batch on the link, and return at once as a pinned copy does."""
        return self._accelerator.to_device(batch, non_blocking=True, pinned=True)

    def receive(self, sent: Any) -> Any:
        """The batch on the device."""
        return sent


class CudaLane:
    """Pinned staging and a stream of its own, so that copies run beside the model's kernels."""

    def __init__(self, device: Any) -> None:
        self._torch: Any = importlib.import_module("torch")
        self._device = self._torch.device(device)
        self._stream = self._torch.cuda.Stream(self._device)
        # Host batches stay referenced until their copy is over: their memory may be used again
        # as soon as nobody refers to it, and a copy that is under way would read the new bytes.
        self._under_way: deque[tuple[Any, Any]] = deque()

    def send(self, batch: Any) -> Any:
        """Stage the tensors in pinned memory and launch their copies."""
        pinned = mapped(batch, self._pinned)
        with self._torch.cuda.stream(self._stream):
            placed = mapped(pinned, self._placed)
            done = self._torch.cuda.Event()
            done.record(self._stream)
        self._under_way.append((done, pinned))
        while self._under_way and self._under_way[0][0].query():
            self._under_way.popleft()
        return placed, done

    def receive(self, sent: Any) -> Any:
        """Let the calling thread's stream wait for the copy, and the allocator for the stream."""
        placed, done = sent
        stream = self._torch.cuda.current_stream(self._device)
        stream.wait_event(done)
        for leaf in leaves(placed):
            if isinstance(leaf, self._torch.Tensor) and leaf.is_cuda:
                # Made on the other stream: without this its memory could be given to the next
                # copy while the model still reads it.
                leaf.record_stream(stream)
        return placed

    def _pinned(self, leaf: Any) -> Any:
        if not isinstance(leaf, self._torch.Tensor) or leaf.is_cuda:
            return leaf
        return leaf if leaf.is_pinned() else leaf.pin_memory()

    def _placed(self, leaf: Any) -> Any:
        if not isinstance(leaf, self._torch.Tensor):
            return leaf
        return leaf.to(self._device, non_blocking=True)


def lane_to(device: Any) -> Lane:
    """The way to a device: None or "cpu", a CUDA device of torch, or an EmulatedAccelerator.

    Raises InputError for anything else, and for CUDA where torch sees no such device.
    """
    if isinstance(device, EmulatedAccelerator):
        return EmulatedLane(device)
    kind = "cpu" if device is None else str(device).partition(":")[0]
    if kind == "cpu":
        return HostLane()
    if kind != "cuda":
        raise InputError(
            f"batches cannot be brought to device={device!r}",
            looked_at='None, "cpu", "cuda", "cuda:N", a torch.device, a stoker.EmulatedAccelerator',
            run_next="give one of them, or none, and move the batches in the loop",
        )
    torch = sys.modules.get("torch") or importlib.import_module("torch")
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    number = torch.device(device).index or 0
    if number >= count:
        raise InputError(
            f"device={str(device)!r}, but torch {torch.__version__} sees {count} CUDA devices",
            looked_at="torch.cuda.is_available() and torch.cuda.device_count()",
            run_next="python -c 'import torch; print(torch.cuda.is_available())'",
        )
    return CudaLane(device)
