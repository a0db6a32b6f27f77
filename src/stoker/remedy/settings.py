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


@dataclass(frozen=True)
class Refusal:
    """Why a remedy is not applied to this loader."""

    reason: str
