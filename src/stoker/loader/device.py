"""The way to a device: what a batch goes through in the feeding thread, and in the loop's.

One protocol for the host, emulated devices and CUDA: `send` begins the copy in the feeding thread,
`receive` makes the loop's own work wait for it on the device, never on the host.
"""

from __future__ import annotations

import importlib
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from stoker.containers import attributes, leaves, mapped, whole
from stoker.emulate import EmulatedAccelerator
from stoker.errors import InputError

# Makes of a batch what the loop is given: of the batch where it was sent to, and as it was on the
# host, for what is read there.
Change = Callable[[Any, Any], Any]

# Staged while the copy of the one before it is under way.
_STAGED_BATCHES = 2
# How deep tensors may lie in an object that moves itself: graphs keep them in stores of their own.
_DEEPEST = 4


class Lane(Protocol):
    """A way for batches."""

    def send(self, batch: Any) -> Any:
        """Begin to bring the batch there; what comes back goes to `receive`."""
        ...

    def receive(self, sent: Any) -> Any:
        """The batch, safe to use by what the calling thread launches from now on."""
        ...


class DeviceLane(Lane, Protocol):
    """A way to a device, on which batches can be changed."""

    def send(self, batch: Any, change: Change | None = None) -> Any:
        """As above; with `change` what that makes of the batch, on the device if there is one."""
        ...


class HostLane:
    """The batch is where it is to be."""

    def send(self, batch: Any, change: Change | None = None) -> Any:
        """The batch itself, or what is made of it."""
        return batch if change is None else change(batch, batch)

    def receive(self, sent: Any) -> Any:
        """The batch itself."""
        return sent


class EmulatedLane:
    """A copy over the link of an emulated accelerator; its next step waits for the bytes.

    The accelerator is a clock and computes nothing: batches are changed on the host, before.
    """

    def __init__(self, accelerator: EmulatedAccelerator) -> None:
        self._accelerator = accelerator

    def send(self, batch: Any, change: Change | None = None) -> Any:
        """Put the batch on the link, and return at once as a pinned copy does."""
        made = batch if change is None else change(batch, batch)
        return self._accelerator.to_device(made, non_blocking=True, pinned=True)

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
        self._lock = threading.Lock()  # two passes over one Loader share its lane

    def send(self, batch: Any, change: Change | None = None) -> Any:
        """Stage the tensors in pinned memory, launch their copies, and what `change` launches.

        All of it goes to the lane's stream: a change finds the bytes there, and its results are
        safe to use where the event is waited for.
        """
        self._let_go()
        pinned = mapped(batch, self._pinned, is_leaf=self._moves_itself)
        with self._torch.cuda.stream(self._stream):
            placed = mapped(pinned, self._placed, is_leaf=self._moves_itself)
            if change is not None:
                # Whatever of the result is on the host still goes along.
                changed = change(placed, pinned)
                placed = mapped(changed, self._placed, is_leaf=self._moves_itself)
            done = self._torch.cuda.Event()
            done.record(self._stream)
        with self._lock:
            self._under_way.append((done, pinned))
        return placed, done

    def _let_go(self) -> None:
        """Let go of the batches whose copy is over: their pinned memory is for the next one."""
        with self._lock:
            while self._under_way and self._under_way[0][0].query():
                self._under_way.popleft()

    def receive(self, sent: Any) -> Any:
        """Let the calling thread's stream wait for the copy, and the allocator for the stream."""
        placed, done = sent
        stream = self._torch.cuda.current_stream(self._device)
        stream.wait_event(done)
        for leaf in self._tensors(placed):
            if leaf.is_cuda:
                # Made on the other stream: without this its memory could be given to the next
                # copy while the model still reads it.
                leaf.record_stream(stream)
        return placed

    def pinned(self, size: int) -> Callable[[], Any]:
        """So many bytes of pinned memory: each call gives a new uint8 array of NumPy over them.

        Raises RuntimeError where they can't be had.
        """
        block = self._torch.empty(size, dtype=self._torch.uint8, pin_memory=True)
        return block.numpy  # type: ignore[no-any-return]

    def _moves_itself(self, value: Any) -> bool:
        """True for an object that holds tensors and has a `to`, and so a rule of its own for which
        of them go: torch's PackedSequence, whose lengths stay, graphs, encodings.
        """
        has_way = callable(getattr(type(value), "to", None))
        if not has_way or isinstance(value, self._torch.Tensor):
            return False
        return any(True for _ in self._inside(value, _DEEPEST))

    def _tensors(self, value: Any) -> Iterator[Any]:
        """The tensors of a batch that may have been moved."""
        for leaf in leaves(value, is_leaf=self._moves_itself):
            if isinstance(leaf, self._torch.Tensor) or self._moves_itself(leaf):
                yield from self._inside(leaf, _DEEPEST)

    def _inside(self, value: Any, below: int) -> Iterator[Any]:
        """The tensors of any object, so many levels below it."""
        if isinstance(value, self._torch.Tensor):
            yield value
        elif below:
            held = whole(value)
            for item in (attributes(value) if held is None else held).values():
                yield from self._inside(item, below - 1)

    def _pinned(self, leaf: Any) -> Any:
        if self._moves_itself(leaf):
            pin = getattr(leaf, "pin_memory", None)
            return _result(leaf, None if pin is None else pin())
        if not isinstance(leaf, self._torch.Tensor) or leaf.is_cuda:
            return leaf
        return leaf if leaf.is_pinned() else leaf.pin_memory()

    def _placed(self, leaf: Any) -> Any:
        if self._moves_itself(leaf):
            try:
                return _result(leaf, leaf.to(self._device, non_blocking=True))
            except TypeError:  # one without that argument
                return _result(leaf, leaf.to(self._device))
        if not isinstance(leaf, self._torch.Tensor):
            return leaf
        return leaf.to(self._device, non_blocking=True)


def _result(value: Any, made: Any) -> Any:
    """What a method made, or the object itself where it gives nothing: it has changed itself."""
    return value if made is None else made


def pinned_bytes(size: int) -> int:
    """What so many bytes of pinned memory take: torch gives it by powers of two, and keeps it."""
    return 1 << (size - 1).bit_length() if size else 0


def bytes_beside(lane: DeviceLane, leaf_bytes: Sequence[int], ahead: int) -> dict[str, int]:
    """Bytes that a lane takes beside those of the batches on the host, by what they are for.

    `leaf_bytes`: of the arrays of one batch; `ahead`: batches that are sent ahead of the loop.
    """
    if isinstance(lane, HostLane):
        return {}
    taken = {"on the device": ahead * sum(leaf_bytes)}
    if isinstance(lane, CudaLane):
        taken["in pinned memory"] = _STAGED_BATCHES * sum(map(pinned_bytes, leaf_bytes))
    return taken


def lane_to(device: Any) -> DeviceLane:
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
