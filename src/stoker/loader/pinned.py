"""Pinned memory for batches, from which a CUDA device copies without another stage."""

from __future__ import annotations

import logging

from stoker.loader.device import CudaLane
from stoker.loader.slots import View, host_memory

_log = logging.getLogger("stoker.loader")


class PinnedMemory:
    """A `slots.Allocate` for the batches of a lane. Where no more can be pinned it gives ordinary
    memory, and says so once: the lane stages what is not pinned.
    """

    def __init__(self, lane: CudaLane) -> None:
        self._lane = lane
        self._is_short = False

    def __call__(self, size: int) -> View:
        """A block of so many bytes; it takes `device.pinned_bytes` of them."""
        if not self._is_short:
            try:
                return self._lane.pinned(size)
            except RuntimeError as error:  # a limit on locked memory, or no more of it
                self._is_short = True
                _log.warning("batches are staged, no memory could be pinned for them: %s", error)
        return host_memory(size)
