"""The steps of `stoker.augment`; the numbers are drawn without torch, and the rest needs it."""

from __future__ import annotations

from stoker.loader.augment.colour import ColorJitter, RandomGrayscale
from stoker.loader.augment.geometry import HorizontalFlip
from stoker.loader.augment.mixing import CutMix, MixUp, RandomErasing
from stoker.loader.augment.normalize import Normalize
from stoker.loader.augment.recipe import Recipe, Step
from stoker.loader.crops import CenterCrop, CenterResizedCrop, RandomCrop, RandomResizedCrop

__all__ = [
    "CenterCrop",
    "CenterResizedCrop",
    "ColorJitter",
    "CutMix",
    "HorizontalFlip",
    "MixUp",
    "Normalize",
    "RandomCrop",
    "RandomErasing",
    "RandomGrayscale",
    "RandomResizedCrop",
    "Recipe",
    "Step",
    "imagenet",
]


def imagenet(size: int = 224) -> Recipe:
    """The usual training recipe: random resized crop, flip, normalise to float32."""
    return Recipe(RandomResizedCrop(size), HorizontalFlip(), Normalize())
