"""A loader under some settings, for a while in the place of the script's: one side of a trial.

The same copies, queues and layers as in `stoker run`; what differs is the order, which is not the
script's stretch of its epoch, so that the script's own iterator keeps its place. Standard library
only.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from typing import Any

from stoker.probe.offers import Unsuitable
from stoker.probe.side_loader import Endless, kept_random_state
from stoker.remedy.delivery import Deliveries
from stoker.remedy.indices import Indices
from stoker.remedy.settings import Settings
from stoker.remedy.supply import Iterate, Supply, torchs_own

# Entries pulled from the sampler at once: putting the random numbers back takes 0.1 ms each time.
_PULLED = 64


def entries(loader: Any, start: int, *, repeated: int = 0) -> Iterator[Any]:
    """What the loader's sampler gives from that place on, without end; where `repeated`, only so
    many entries, over and over. Nothing is drawn from the script's random numbers.
    """
    source = iter(Endless(loader._index_sampler, start=start))
    if repeated:
        with kept_random_state():
            few = list(itertools.islice(source, repeated))
        yield from itertools.cycle(few)
    while True:
        with kept_random_state():
            some = list(itertools.islice(source, _PULLED))
        if not some:
            return
        yield from some


class LoaderVariant:
    """A `probe.offers.Variant`."""

    def __init__(
        self, loader: Any, settings: Settings, source: Iterator[Any], iterate: Iterate
    ) -> None:
        """`source`: entries of the sampler; `iterate`: torch's own DataLoader.__iter__."""
        self._settings = settings
        self._source = source
        self._deliveries = Deliveries(_unsuitable)
        self._supply = Supply(loader, settings, iterate, early=self._deliveries)
        self._indices = Indices(iter(()))
        self._batches: Iterator[Any] = iter(())
        self._taken = 0

    def open(self) -> None:
        """Start the workers, and stand where the script asks for copies."""
        if self._settings.delivers_early:
            torch = sys.modules["torch"]
            emulator = sys.modules.get("stoker.emulate.accelerator")
            if emulator is not None:
                self._deliveries.watch_emulated(emulator)
            if torch.cuda.is_available():
                self._deliveries.watch_cuda(torch)
        self._begin(self._source)

    def begin_epoch(self, batches: int) -> None:
        """As the script does with its own loader: workers that are not kept end and start."""
        self._end_batches()
        self._begin(itertools.islice(self._source, batches))

    def take(self) -> Any:
        """The next batch. Raises what the data set raises, and Unsuitable for a cache that has
        found out that it may keep nothing.
        """
        problem = self._supply.problem()
        if problem:
            raise Unsuitable(problem)
        if self._settings.workers:
            return self._taken_next()
        with kept_random_state():  # samples are made here, with the script's generators
            return self._taken_next()

    def _taken_next(self) -> Any:
        try:
            batch = next(self._batches)
        except StopIteration:  # the script's epoch is longer than the loader says
            self._begin(self._source)
            try:
                batch = next(self._batches)
            except StopIteration:
                raise RuntimeError("the sampler gives nothing when it is asked again") from None
        self._indices.delivered()
        if self._settings.delivers_early:
            self._deliveries.given(batch)
        self._taken += 1
        return batch

    @property
    def pids(self) -> list[int]:
        """Its worker processes."""
        return [worker.pid for worker in getattr(self.iterator, "_workers", ())]

    def close(self) -> None:
        """End the workers, and put back what was replaced."""
        try:
            self._end_batches()
            self._supply.close()
        finally:
            self._deliveries.undo()

    def _begin(self, source: Iterator[Any]) -> None:
        torch = sys.modules["torch"]
        with kept_random_state():
            # Workers draw other numbers than the script's, and others at each beginning.
            base = torch.Generator().manual_seed((torch.initial_seed() + self._taken + 1) % 2**63)
            self._indices = Indices(source)
            self._batches = self._supply.begin(self._indices, base)

    def _end_batches(self) -> None:
        """End what is on its way; workers that are kept live on."""
        batches, self._batches = self._batches, iter(())
        self._supply.stop(batches)

    @property
    def iterator(self) -> Any:
        """Torch's own, which has the workers."""
        return torchs_own(self._batches)


def _unsuitable(text: str) -> None:
    raise Unsuitable(text)
