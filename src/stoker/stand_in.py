"""In the data set's place, between it and who fetches samples: all else is the data set's own.

Can be pickled for workers that are started anew. Standard library only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class StandIn:
    """A data set whose samples are given by `one`, or by `many` where it gives whole batches."""

    def __init__(
        self, dataset: Any, one: Callable[[Any], Any], many: Callable[[list[Any]], Any]
    ) -> None:
        self._dataset = dataset
        self._one = one
        if gives_batches(dataset):
            self.__getitems__ = many

    def __getattr__(self, name: str) -> Any:
        # Asked for while it is being unpickled, and of data sets that give no batches.
        if name in ("_dataset", "_one", "__getitems__"):
            raise AttributeError(name)
        return getattr(self._dataset, name)

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, index: Any) -> Any:
        return self._one(index)


def sample_of(dataset: Any, index: Any) -> Any:
    """One sample as torch fetches it: by a batch of one where the data set gives batches."""
    if gives_batches(dataset):
        (sample,) = dataset.__getitems__([index])
        return sample
    return dataset[index]


def gives_batches(dataset: Any) -> bool:
    """Whether torch asks it for all samples of a batch in one call."""
    return callable(getattr(dataset, "__getitems__", None))
