"""Copies to the device begun early: learns which parts of a batch the script copies, and where to.

The script keeps its host tensors; where it asks for a copy that is under way it gets that one.
Only here are `.to`, `.cuda` and `to_device` replaced, and put back at the end. CUDA or emulated.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any, NamedTuple

from stoker.containers import Place, mapped, parts
from stoker.loader.device import CudaLane, EmulatedLane, Lane


class Route(NamedTuple):
    """Where the script copies to, and the lane that brings a leaf there; equal keys do the same."""

    key: object
    lane: Lane


class Deliveries:
    """What is under way. `given` and `asked` are the script's thread, `begin` the feeding one."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._places: dict[int, tuple[weakref.ref[Any], Place]] = {}
        self._wanted: dict[Place, Route] = {}
        self._begun: dict[int, tuple[weakref.ref[Any], int, Route, Any]] = {}
        self._is_on = True
        self._undo: list[Callable[[], None]] = []

    def given(self, batch: Any) -> None:
        """The script has this batch now: what it copies of it is copied early next time."""
        self._places.clear()
        for place, leaf in parts(batch):
            if hasattr(leaf, "_version"):
                self._places[id(leaf)] = (weakref.ref(leaf), place)

    def begin(self, batch: Any) -> None:
        """Begin the copies of a batch that the script will get later."""
        if not (self._is_on and self._wanted):
            return
        try:
            for place, leaf in parts(batch):
                route = self._wanted.get(place)
                if route is not None and hasattr(leaf, "_version"):
                    holder = weakref.ref(leaf, partial(self._forget, id(leaf)))
                    sent = route.lane.send(leaf)
                    self._begun[id(leaf)] = (holder, leaf._version, route, sent)
        except Exception as error:  # noqa: BLE001 - out of memory, say: the script copies itself
            self._is_on = False
            self._tell(f"copies are not begun early any more: {error!r}")

    def _forget(self, key: int, _: object) -> None:
        """A leaf that dies before it was asked for; its number may be another's next."""
        self._begun.pop(key, None)

    def asked(self, leaf: Any, route: Route) -> Any | None:
        """The early copy of a leaf that the script wants to copy now; None when there is none."""
        early = self._begun.pop(id(leaf), None)
        if early is not None and early[0]() is not None:
            _, version, taken, sent = early
            # What the script has changed since must be copied as it is now.
            if version == leaf._version and taken.key == route.key:
                return taken.lane.receive(sent)
            return None
        known = self._places.get(id(leaf))
        if known is not None and known[0]() is leaf and self._is_on:
            self._wanted[known[1]] = route
        return None

    def undo(self) -> None:
        """Put back what was replaced."""
        for put_back in reversed(self._undo):
            put_back()
        self._undo.clear()

    # -- where scripts ask for copies --------------------------------------------------------------

    def watch_emulated(self, module: ModuleType) -> None:
        """Stand in for `EmulatedAccelerator.to_device`."""
        kind = module.EmulatedAccelerator
        original = kind.to_device

        def to_device(
            accelerator: Any, batch: Any, non_blocking: bool = False, pinned: bool = False
        ) -> Any:
            route = Route(("emulated", id(accelerator)), EmulatedLane(accelerator))

            def early(leaf: Any) -> Any:
                if not hasattr(leaf, "_version"):
                    return leaf
                copy = self.asked(leaf, route)
                return leaf if copy is None else copy

            return original(accelerator, mapped(batch, early), non_blocking, pinned)

        kind.to_device = to_device
        self._undo.append(lambda: setattr(kind, "to_device", original))

    def watch_cuda(self, torch: ModuleType) -> None:
        """Stand in for `Tensor.to` and `Tensor.cuda`."""
        to, cuda = torch.Tensor.to, torch.Tensor.cuda
        lanes: dict[int, CudaLane] = {}

        def early(tensor: Any, device: Any) -> Any:
            index = device.index if device.index is not None else torch.cuda.current_device()
            if index not in lanes:
                lanes[index] = CudaLane(torch.device("cuda", index))
            return self.asked(tensor, Route(("cuda", index), lanes[index]))

        def moved(tensor: Any, *args: Any, **options: Any) -> Any:
            if (id(tensor) in self._begun or id(tensor) in self._places) and "copy" not in options:
                device, dtype, _, layout = torch._C._nn._parse_to(*args, **options)
                is_plain = dtype in (None, tensor.dtype) and layout is None
                if device is not None and device.type == "cuda" and is_plain:
                    copy = early(tensor, device)
                    if copy is not None:
                        return copy
            return to(tensor, *args, **options)

        def moved_to_cuda(tensor: Any, device: Any = None, *args: Any, **options: Any) -> Any:
            if id(tensor) in self._begun or id(tensor) in self._places:
                where = torch.device("cuda" if device is None else device)
                if isinstance(device, int):
                    where = torch.device("cuda", device)
                copy = early(tensor, where) if not options.get("memory_format") else None
                if copy is not None:
                    return copy
            return cuda(tensor, device, *args, **options)

        torch.Tensor.to, torch.Tensor.cuda = moved, moved_to_cuda
        self._undo.append(lambda: setattr(torch.Tensor, "to", to))
        self._undo.append(lambda: setattr(torch.Tensor, "cuda", cuda))


def has_device() -> bool:
    """True where batches are copied somewhere: a CUDA device, or an emulated one."""
    emulator = sys.modules.get("stoker.emulate.accelerator")
    if emulator is not None and emulator.live():
        return True
    torch = sys.modules.get("torch")
    return torch is not None and bool(torch.cuda.is_available())
