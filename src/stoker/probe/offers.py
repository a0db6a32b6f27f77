"""What may be tried in place of the loop's own loader: handed down by whoever can make it.

The probe conducts a trial and knows no remedy: candidates come with names, and with loaders that
are asked for batches. Standard library only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class Candidate:
    """One configuration of the loader; `refused` says why it can't be tried here."""

    name: str  # as `stoker run --apply` has it
    workers: int = 0
    depth: int = 0  # batches that may lie ready
    warm: int = 0  # steps until it does what it is for: a cache that fills
    needs_epochs: bool = False  # its gain lies between epochs
    thins_threads: bool = False  # its gain lies where there are more threads than cores
    data: str = ""  # what it means for samples and their order
    kept_bytes: int = 0  # what it would keep in memory of the whole data set
    unfit: str = ""  # why it is measured, and can't be had by `stoker run`
    refused: str = ""


class Unsuitable(Exception):  # noqa: N818 - it says what the candidate is
    """Found out while it is tried: the candidate can't do here what it is for."""


class Variant(Protocol):
    """The training loader under other settings, asked by the script itself for a while."""

    @property
    def pids(self) -> list[int]:
        """Its worker processes."""
        ...

    @property
    def iterator(self) -> Any:
        """The library's iterator that has the workers."""
        ...

    def open(self) -> None:
        """Start it; what lies before its first batch is not measured."""
        ...

    def take(self) -> Any:
        """The next batch. Raises Unsuitable, and what the data set raises."""
        ...

    def begin_epoch(self, batches: int) -> None:
        """Begin anew, as the script does with its own loader, for so many batches."""
        ...

    def close(self) -> None:
        """End its workers, and undo what it has put in place."""
        ...


class Offers(Protocol):
    """The candidates for one training loader."""

    def counts(self, base: str, counts: Sequence[int]) -> list[Candidate]:
        """Other numbers of workers, on top of a candidate; of the loop as it is for ""."""
        ...

    def further(self, base: str) -> list[Candidate]:
        """Single settings on top of a candidate, those that it has left out."""
        ...

    def together(self, names: Sequence[str]) -> list[Candidate]:
        """All that these candidates change, as one; nothing where that is no new one."""
        ...

    def open(self, name: str, *, start: int) -> Variant:
        """The loader of a candidate, from that place of the sampler's order on."""
        ...


# Offers for a loader, and the bytes of one of its batches.
Maker = Callable[[Any, int], Offers]

_handed_down: list[Maker] = []


def hand_down(maker: Maker) -> None:
    """Called in an examined process, before the script begins."""
    _handed_down[:] = [maker]


def maker() -> Maker | None:
    """What was handed down; None where nothing is to be tried."""
    return _handed_down[0] if _handed_down else None
