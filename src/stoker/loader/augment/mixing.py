"""Steps that take something away from a picture or mix it with its neighbour in the batch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from stoker.errors import InputError
from stoker.loader import boxes
from stoker.loader.augment.geometry import source_of
from stoker.loader.augment.needs import need_masks_alike, need_no_masks
from stoker.loader.augment.recipe import Working
from stoker.loader.boxes import Boxes
from stoker.loader.checks import ABOVE_0, Given
from stoker.loader.draws import Chance

# Jöhnk's method takes a pair with probability 1/2 or more for shapes up to 1, and 1/6 for 2:
# after 64 pairs less than one sample in 100,000 is left, and gets an even mixture.
_PAIRS = 64


@dataclass(frozen=True)
class RandomErasing:
    """With probability `p`, set a random box of each picture to `value`.

    `scale`: bounds of its share of the area; `ratio`: bounds of width : height.
    """

    p: float = 0.5
    scale: tuple[float, float] = (0.02, 0.33)
    ratio: tuple[float, float] = (0.3, 3.3)
    value: float = 0.0

    def __post_init__(self) -> None:
        given = Given(self)
        given.number("p", "a probability, 0 to 1", least=0.0, most=1.0)
        given.bounds("scale", "two shares of the area, the smaller one first", least=0.0)
        given.bounds("ratio", "two of width : height, the smaller one first", least=ABOVE_0)
        given.number("value", "a number", least=-math.inf, most=math.inf)

    def apply(self, batch: Working, chance: Chance) -> None:
        """Erase in every chosen picture; masks stay."""
        source = source_of(batch)
        cut = boxes.resized(chance, source, self.scale, self.ratio)
        # As torchvision: a box as high or as wide as the picture is none.
        fits = (cut.height < source[0]) & (cut.width < source[1])
        chosen = (chance.uniform(2 * boxes.TRIES + 2) < self.p) & fits
        inside = _inside(cut, source, batch.image.device)
        inside &= torch.as_tensor(chosen, device=batch.image.device)[:, None, None, None]
        batch.replace(batch.image.masked_fill(inside, self.value))


@dataclass(frozen=True)
class MixUp:
    """Each picture blended with the one before it in the batch; labels become shares.

    `alpha`: both shapes of the Beta distribution that the share is drawn from, up to 2. The
    neighbour depends on the batch that a sample is in; its share does not. Wants floats: place it
    after Normalize.
    """

    classes: int
    alpha: float = 1.0

    def __post_init__(self) -> None:
        _check_mixture(self)

    def apply(self, batch: Working, chance: Chance) -> None:
        """Blend pictures, and labels (N,) to shares (N, classes)."""
        need_no_masks(batch, self)
        share = torch.as_tensor(beta(chance, self.alpha), device=batch.image.device).float()
        kept = share.view(-1, 1, 1, 1)
        batch.replace(batch.image * kept + batch.image.roll(1, 0) * (1.0 - kept))
        batch.label = _shares(batch, self.classes, share)


@dataclass(frozen=True)
class CutMix:
    """A box of each picture, and of its masks, replaced by the one before it in the batch.

    Labels become shares. Parameters as of `MixUp`.
    """

    classes: int
    alpha: float = 1.0

    def __post_init__(self) -> None:
        _check_mixture(self)

    def apply(self, batch: Working, chance: Chance) -> None:
        """Paste boxes, and turn labels (N,) to shares (N, classes) by area."""
        need_masks_alike(batch)
        rows, columns = source_of(batch)
        side = np.sqrt(1.0 - beta(chance, self.alpha))
        middle = chance.below(2 * _PAIRS, rows), chance.below(2 * _PAIRS + 1, columns)
        edges = [
            (
                np.clip(centre - np.floor(side * length / 2), 0, length).astype(np.int64),
                np.clip(centre + np.floor(side * length / 2), 0, length).astype(np.int64),
            )
            for centre, length in zip(middle, (rows, columns), strict=True)
        ]
        (top, bottom), (left, right) = edges
        cut = Boxes(top, left, bottom - top, right - left)
        inside = _inside(cut, (rows, columns), batch.image.device)
        batch.replace(_pasted(batch.image, inside))
        batch.masks = {name: _pasted(mask, inside) for name, mask in batch.masks.items()}
        kept = 1.0 - cut.height * cut.width / (rows * columns)
        share = torch.as_tensor(kept, device=batch.image.device).float()
        batch.label = _shares(batch, self.classes, share)


def beta(chance: Chance, alpha: float) -> NDArray[np.float64]:
    """Beta(alpha, alpha) numbers by Jöhnk's method (Metrika 8, 1964): draws 0 to 127."""
    found = np.full(len(chance), 0.5)
    is_open = np.ones(len(chance), bool)
    for pair in range(_PAIRS):
        one = chance.uniform(2 * pair) ** (1.0 / alpha)
        both = one + chance.uniform(2 * pair + 1) ** (1.0 / alpha)
        fits = is_open & (both <= 1.0) & (both > 0.0)
        found = np.where(fits, one / np.where(fits, both, 1.0), found)
        is_open &= ~fits
        if not is_open.any():
            break
    return found


def _check_mixture(step: MixUp | CutMix) -> None:
    given = Given(step)
    given.whole("classes", "a number of classes, 1 or more", least=1)
    given.number("alpha", "above 0, up to 2", least=ABOVE_0, most=2.0)


def _pasted(image: Any, inside: Any) -> Any:
    """Pictures or masks (N, [C,] H, W), with the one before each where `inside` is true."""
    return torch.where(inside if image.ndim == 4 else inside[:, 0], image.roll(1, 0), image)


def _inside(cut: Boxes, source: tuple[int, int], device: Any) -> Any:
    """Whether each pixel is in its sample's box, shape (N, 1, H, W)."""
    sides = []
    for start, length, side in zip(cut[:2], cut[2:], source, strict=True):
        pixel = torch.arange(side, device=device)
        first = torch.as_tensor(start, device=device)[:, None]
        last = torch.as_tensor(start + length, device=device)[:, None]
        sides.append((pixel >= first) & (pixel < last))
    return sides[0][:, None, :, None] & sides[1][:, None, None, :]


def _shares(batch: Working, classes: int, kept: Any) -> Any:
    """Each label's share, shape (N, classes): whole numbers or shares before."""
    label = batch.label
    if label is None:
        raise InputError(
            'mixing pictures needs their labels, and the batch has no "label"',
            looked_at="the batch's fields",
            run_next="leave MixUp or CutMix out, or give labels",
        )
    if label.ndim == 1:
        label = torch.nn.functional.one_hot(label.long(), classes)
    shares = label.float()
    kept = kept[:, None]
    return shares * kept + shares.roll(1, 0) * (1.0 - kept)
