"""What a worker does for us before its first batch: a stand-in for the script's `worker_init_fn`.

Must stay importable and picklable by name: spawned workers get it by pickle. Standard library only.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from stoker import lifetime
from stoker.remedy.settings import Duty, Layer


class WorkerSetup:
    """Runs the script's own function first, then the duties; fetches through the layers."""

    def __init__(
        self,
        own: Callable[[int], object] | None,
        duties: tuple[Duty, ...],
        layers: tuple[Layer, ...],
    ) -> None:
        self._own = own
        self._duties = duties
        self._layers = layers
        # The process whose main thread starts the workers: they end with it. None: another thread.
        self.starter: int | None = None

    def __call__(self, worker_id: int) -> None:
        """Called by torch in the worker, before it makes its fetcher."""
        if self.starter is not None:
            # torch's own watchdog looks every five seconds, and not while a sample is made.
            lifetime.end_with(self.starter)
        if self._own is not None:
            self._own(worker_id)
        for duty in self._duties:
            try:
                duty()
            except Exception as error:  # noqa: BLE001 - the worker loads as it would without
                sys.stderr.write(f"stoker run: in a worker, {duty} failed: {error!r}\n")
        if self._layers:
            fetch_through(self._layers)


def fetch_through(layers: tuple[Layer, ...]) -> None:
    """Have the fetcher that this worker makes next ask the layers. Ends with the worker."""
    kinds = sys.modules["torch.utils.data.dataloader"]._DatasetKind
    make = kinds.create_fetcher

    def create_fetcher(kind: Any, dataset: Any, *rest: Any) -> Any:
        return make(kind, around(layers, dataset), *rest)

    kinds.create_fetcher = staticmethod(create_fetcher)


def around(layers: tuple[Layer, ...], dataset: Any) -> Any:
    """The data set behind all layers, the first one asked last."""
    for layer in layers:
        dataset = layer.around(dataset)
    return dataset
