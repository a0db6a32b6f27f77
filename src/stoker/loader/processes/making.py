"""What a worker does for a task: a whole batch, or some rows of one, into the slot's block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch

from stoker.loader.processes.block import Arena
from stoker.loader.processes.rows import Layout, layout_of

# Told what is made now: stage, and row in the batch or -1.
Note = Callable[[str, int], None]


class Maker(Protocol):
    """How batches are made; goes to each worker as it starts."""

    def whole(self, inputs: Any, note: Note) -> Any:
        """A batch."""
        ...

    def sample(self, key: Any) -> Any:
        """One sample, where batches have rows."""
        ...

    def layout(self) -> Layout | None:
        """What the samples of the last whole batch look like, where they have rows."""
        ...


class OfDataset:
    """Batches of a map-style data set, as torch's workers make them."""

    def __init__(self, dataset: Any, collate: Callable[[list[Any]], Any]) -> None:
        self.dataset = dataset
        self._collate = collate
        self._first: list[Any] = []

    def whole(self, keys: Any, note: Note) -> Any:
        """All samples, and what the collate function makes of them."""
        together = getattr(self.dataset, "__getitems__", None)
        if together:
            note("dataset", 0)
            samples = together(keys)
        else:
            samples = []
            for row, key in enumerate(keys):
                note("dataset", row)
                samples.append(self.dataset[key])
        has_rows = self._collate is torch.utils.data.default_collate and not together
        self._first = samples[:1] if has_rows else []
        note("collate", 0)
        return self._collate(samples)

    def sample(self, key: Any) -> Any:
        """One of the data set."""
        return self.dataset[key]

    def layout(self) -> Layout | None:
        """From the last batch's first sample."""
        return layout_of(self._first[0]) if self._first else None


class OfBatches:
    """Batches made of other batches by a function."""

    dataset = None

    def __init__(self, change: Callable[[Any], Any]) -> None:
        self._change = change

    def whole(self, batch: Any, note: Note) -> Any:
        """What the function makes of it."""
        note("augment", -1)
        return self._change(batch)

    def sample(self, key: Any) -> Any:
        """There are none."""
        raise NotImplementedError

    def layout(self) -> None:
        """There is none."""


class Stacking:
    """Lets `default_collate` stack tensors in the block that they leave in, not in /dev/shm.

    Only in a worker process, whose torch nobody else uses.
    """

    def __init__(self) -> None:
        self.arena: Arena | None = None
        kinds = torch.utils.data._utils.collate.default_collate_fn_map
        self._torchs = kinds[torch.Tensor]
        kinds[torch.Tensor] = self._stacked

    def _stacked(self, batch: Any, *, collate_fn_map: Any = None) -> Any:
        first = batch[0]
        is_plain = type(first) is torch.Tensor and all(
            type(one) is torch.Tensor
            and one.dtype == first.dtype
            and one.shape == first.shape
            and one.layout is torch.strided
            and one.device.type == "cpu"
            and not one.requires_grad
            and not one.is_nested
            for one in batch
        )
        if self.arena is None or not is_plain or not first.numel():
            return self._torchs(batch, collate_fn_map=collate_fn_map)
        memory = self.arena.take(len(batch) * first.nbytes)
        out = torch.from_numpy(memory).view(first.dtype).view(len(batch), *first.shape)
        return torch.stack(tuple(batch), 0, out=out)
