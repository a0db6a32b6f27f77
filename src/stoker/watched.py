"""`stoker.watch`: marks the batches of a training loop that no hook of the doctor's can find.

Outside of a doctor's run it hands back what it was given. Imports nothing of Stoker's, so that it
costs a training script next to nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

# The module is not called `watch`: importing it would put it in the function's place.
Batches = TypeVar("Batches", bound=Iterable[Any])

# What a doctor's run puts in front of watched iterables. Set by probe/hooks/watch.py alone.
observer: Callable[[Any, str], Any] | None = None


def watch(batches: Batches, name: str = "train") -> Batches:
    """Let `stoker doctor` see a loop that takes its batches from any iterable.

        for batch in stoker.watch(batches):
            step(batch)

    For tf.data, DALI, WebDataset, generators, lists of arrays. A torch DataLoader needs no mark.
    Without the doctor this is `batches` itself, whatever it is. Under the doctor it is a stand-in
    with the same length, attributes and exceptions; it hands out the batches' own values, and in
    some stretches copies of earlier ones. A loop whose `name` begins with "val", "eval" or "test"
    is told apart from training.
    """
    return batches if observer is None else observer(batches, name)
