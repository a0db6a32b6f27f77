"""What the conductor needs from others: side loaders, and a view of the hooked library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from stoker.probe.offers import Offers
from stoker.probe.tracks import Track


class Drainer(Protocol):
    """Takes one batch from a side loader for each ticket, in the background."""

    def ticket(self) -> None:
        """One more batch may be taken."""
        ...

    def stop(self) -> list[float]:
        """End; the periods between batches, the ramp left out."""
        ...


class Rehearsal(Protocol):
    """Loaders beside the script's own, made from the same arguments."""

    threads: int  # of the workers of leg L together
    start_each_s: float | None  # from starting a worker to its first batch, workers side by side

    def drain(self, what: str, workers: int, *, batches: int, limit_s: float) -> list[float]:
        """Periods of a loader that is drained here and now."""
        ...

    def start_drainer(self) -> Drainer:
        """Begin to take a batch for every ticket."""
        ...

    def offers(self) -> Offers | None:
        """What may be tried; None where nothing was handed down."""
        ...

    def begin_trial(self, workers: int, variant: str) -> None:
        """Start a loader with that many workers, or the one offered under that name."""
        ...

    def on_trial(self, anew: int | None) -> Any:
        """The next batch of the loader on trial; `anew`: the first of an epoch of so many."""
        ...

    @property
    def on_trial_now(self) -> Any:
        """The iterator of the loader on trial; None without."""
        ...

    def end_trial(self) -> None:
        """End the loader on trial."""
        ...

    def once(self, limit_s: float) -> None:
        """Examinations that need no loop."""
        ...

    def close(self) -> None:
        """End all workers."""
        ...


class Hooked(Protocol):
    """What the conductor needs to know from the hooked library."""

    def grad_enabled(self) -> bool:
        """False inside no_grad and inference_mode."""
        ...

    def has_optimizer(self) -> bool:
        """True where the script has made an optimizer; takes a moment."""
        ...

    def has_compiled(self) -> bool:
        """True where code of the script was compiled for what it was given."""
        ...

    def synchronize(self) -> None:
        """Wait for the device, if there is one."""
        ...

    def device(self) -> str | None:
        """Where the model lives when that is not the host."""
        ...

    def place(self, leaf: Any) -> Any:
        """The leaf on the model's device."""
        ...

    def mark_resident(self, batch: Any) -> None:
        """Tell an emulated device that it has the batch already."""
        ...

    def quiesce(self, iterator: Any, limit_s: float) -> None:
        """Wait until the workers of an iterator have nothing left to do."""
        ...

    def worker_pids(self, iterator: Any) -> list[int]:
        """The worker processes of an iterator."""
        ...

    def versions(self) -> dict[str, str]:
        """Versions of the libraries that matter for the result."""
        ...

    def rehearsal(self, track: Track, sample: Any, beside: Sequence[Track]) -> Rehearsal:
        """Side loaders for a track and those that go along; `sample` is a batch of it."""
        ...
