"""A recipe: steps that run one after the other over a batch, and the draws that each is given."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from stoker.errors import InputError
from stoker.loader import draws
from stoker.loader.batch import Batch
from stoker.loader.draws import Chance

if TYPE_CHECKING:
    from stoker.loader.augment.room import Room


class Working:
    """The batch on its way through the steps: `image` (N, C, H, W), masks (N, [C,] H, W).

    `is_own`: a step made the image, so that the next one may write into it.
    """

    def __init__(self, image: Any, masks: dict[str, Any], label: Any, room: Room) -> None:
        self.image = image
        self.masks = masks
        self.label = label
        self.room = room
        self.is_own = False

    def replace(self, image: Any) -> None:
        """Go on with an image that a step has made."""
        self.image = image
        self.is_own = True


class Step(Protocol):
    """One change. It replaces what it changes, and never writes into the caller's tensors."""

    def apply(self, batch: Working, chance: Chance, /) -> None:
        """Change the whole batch, each sample by its own draws."""
        ...


class Recipe:
    """Steps over the fields "image", "label" and masks of a batch.

    `masks`: names of fields that follow the geometry of the image, by their nearest pixel.
    """

    def __init__(self, *steps: Step, masks: tuple[str, ...] = ("mask",)) -> None:
        self.steps = steps
        self._masks = masks
        self._room: Any = None

    def __repr__(self) -> str:
        return f"Recipe({', '.join(map(repr, self.steps))})"

    def __call__(self, batch: Mapping[str, Any], *, seed: int = 0, epoch: int = 0) -> Batch:
        """The changed batch; `batch` stays as it is.

        `batch["image"]`: a uint8 tensor (N, C, H, W), best in channels_last memory, on any device.
        `batch["index"]`: the samples' indices in the data set, shape (N,).
        Raises InputError for a batch without them.
        """
        _check(batch)
        samples = np.asarray(_on_host(batch["index"]), np.int64)
        _check_counts(batch["image"], samples)
        keys = draws.sample_keys(seed, epoch, samples)
        masks = {name: batch[name] for name in self._masks if name in batch}
        if self._room is None:
            self._room = importlib.import_module("stoker.loader.augment.room").Room()
        working = Working(batch["image"], masks, batch.get("label"), self._room)
        for number, step in enumerate(self.steps, start=draws.CROP_STEP + 1):
            step.apply(working, Chance(keys, number))
        changed = {"image": working.image, **working.masks}
        if "label" in batch:
            changed["label"] = working.label
        return Batch({**batch, **changed})

    def __getstate__(self) -> dict[str, Any]:
        # Memory that is used again is of one process.
        return {**self.__dict__, "_room": None}


def _on_host(index: Any) -> Any:
    return index.cpu() if hasattr(index, "cpu") else index


def _check_counts(image: Any, samples: Any) -> None:
    if samples.shape != (len(image),):
        raise InputError(
            f"there are {len(image)} pictures, and the index has the shape {samples.shape}",
            looked_at='batch["image"] and batch["index"]',
            run_next="give one index for each picture, shape (N,)",
        )


def _check(batch: Mapping[str, Any]) -> None:
    image = batch.get("image")
    torch = importlib.import_module("torch")
    if "index" in batch and isinstance(image, torch.Tensor) and image.ndim == 4:
        return
    found = ", ".join(
        f"{name} {tuple(getattr(value, 'shape', ()))} {getattr(value, 'dtype', type(value))}"
        for name, value in batch.items()
    )
    raise InputError(
        'a recipe needs batch["image"], a tensor (N, C, H, W), and batch["index"]',
        looked_at=f"the batch's fields: {found or 'none'}",
        run_next="stoker.Loader gives such batches; or build the mapping from your own",
    )
