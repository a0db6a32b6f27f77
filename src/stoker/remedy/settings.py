"""How a loader is run: its own settings, or those with remedies. A remedy changes these alone.

Standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol


class Duty(Protocol):
    """Done once in every worker, behind the script's own `worker_init_fn`. Must be picklable."""

    def __call__(self) -> None:
        """Do it; what it raises is told and changes nothing else."""
        ...


class Layer(Protocol):
    """Stands between fetching and the data set. Must be picklable for spawned workers."""

    def around(self, dataset: Any) -> Any:
        """What is asked for samples in the data set's place."""
        ...

    def renew(self) -> None:
        """The data set is another than before: forget what was kept of it."""
        ...

    def problem(self) -> str | None:
        """Why the layer has stopped doing its work; None while it does."""
        ...

    def held(self) -> int | None:
        """How many samples or files it has come to hold; None where it fills nothing, or no more.
        A layer that fills helps later than it costs.
        """
        ...


@dataclass(frozen=True)
class Settings:
    """What a loader's iterator is made with."""

    workers: int
    prefetch_factor: int | None = None
    persistent: bool = False
    pin_memory: bool = False
    in_order: bool = True
    duties: tuple[Duty, ...] = ()
    layers: tuple[Layer, ...] = ()
    is_fed: bool = False  # the next batch is taken from the workers while a step runs
    delivers_early: bool = False  # and what the script copies of it is copied, too

    @property
    def depth(self) -> int:
        """Batches that may be with the workers, or lie ready behind them."""
        return self.workers * (self.prefetch_factor or 2)


# Never more than this share of what is free: others live on the machine, and estimates err.
_SHARE_OF_FREE = 0.8


@dataclass(frozen=True)
class Subject:
    """What preconditions are judged by: the loader and the machine as they are."""

    settings: Settings
    dataset: Any
    is_iterable: bool
    cores: float
    shm_free_bytes: int | None
    memory_available_bytes: int | None
    worker_bytes: int  # what one more worker may come to hold of its own
    batch_bytes: int | None
    has_device: bool  # an accelerator, real or emulated, to which batches are copied
    memory_taken_bytes: int = 0  # by the remedies that were applied before

    def lacks_memory(self, needed: int) -> str | None:
        """Why so many bytes more are too many; None where they fit, or nobody knows."""
        room, taken = self.memory_available_bytes, self.memory_taken_bytes
        if room is None or needed + taken <= _SHARE_OF_FREE * room:
            return None
        beside = f" beside the {taken / 1e9:.1f} GB of other remedies" if taken else ""
        return (
            f"{needed / 1e9:.1f} GB of memory do not fit{beside}: {room / 1e9:.1f} GB are "
            "available, of which four fifths may be taken"
        )


# What a remedy means for the data.
SAME = "same samples, same order"
REDRAWN = "same samples, same order; random numbers are drawn in other processes"
REORDERED = "same samples, other order"


@dataclass(frozen=True)
class Change:
    """What a remedy makes of the settings, what is told of it, and what it means for the data."""

    settings: Settings
    told: str
    data: str = SAME
    layer: Layer | None = None  # that comes on top of those of the settings
    needs_bytes: int = 0  # of memory, that others may not count on


@dataclass(frozen=True)
class Refusal:
    """Why a remedy is not applied to this loader."""

    reason: str
