"""The crops that a loader or a recipe can be given: which box of each picture, and what size.

Known without torch, so that a loader can cut while it reads; as steps of a recipe they need it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stoker.errors import InputError
from stoker.loader import boxes
from stoker.loader.boxes import Boxes
from stoker.loader.checks import ABOVE_0, Given
from stoker.loader.draws import Chance

if TYPE_CHECKING:
    from stoker.loader.augment.recipe import Working

Size = int | tuple[int, int]


@dataclass(frozen=True)
class RandomCrop:
    """A square of `size` pixels (or (height, width)) at a random place of each picture."""

    size: Size

    def __post_init__(self) -> None:
        Given(self).size("size")

    def boxes(self, chance: Chance, source: boxes.Source) -> Boxes:
        """The part of each picture of `source` (height, width)."""
        return boxes.fixed(chance, source, sides(self.size))

    def apply(self, batch: Working, chance: Chance, /) -> None:
        """Cut every picture, and its masks at the same place."""
        _crop(self, batch, chance)


@dataclass(frozen=True)
class CenterCrop:
    """A square of `size` pixels (or (height, width)) from the middle of each picture."""

    size: Size

    def __post_init__(self) -> None:
        Given(self).size("size")

    def boxes(self, chance: Chance, source: boxes.Source) -> Boxes:
        """The part of each picture of `source` (height, width)."""
        return boxes.centred(chance, source, sides(self.size))

    def apply(self, batch: Working, chance: Chance, /) -> None:
        """Cut every picture, and its masks at the same place."""
        _crop(self, batch, chance)


@dataclass(frozen=True)
class RandomResizedCrop:
    """A random part of each picture, resized to `size`: bilinear, antialiased.

    `scale`: bounds of its share of the area; `ratio`: bounds of width : height.
    """

    size: Size
    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)

    def __post_init__(self) -> None:
        given = Given(self)
        given.size("size")
        given.bounds("scale", "two shares of the area, the smaller one first", least=0.0)
        given.bounds("ratio", "two of width : height, the smaller one first", least=ABOVE_0)

    def boxes(self, chance: Chance, source: boxes.Source) -> Boxes:
        """The part of each picture of `source` (height, width)."""
        return boxes.resized(chance, source, self.scale, self.ratio)

    def apply(self, batch: Working, chance: Chance, /) -> None:
        """Cut and resize every picture; masks by their nearest pixel."""
        _resized_crop(self, batch, chance)


@dataclass(frozen=True)
class CenterResizedCrop:
    """The middle square of each picture, `share` of its shorter side, resized to `size`.

    What evaluation commonly uses: 0.875 is a centre crop of 224 after a resize to 256.
    """

    size: Size
    share: float = 0.875

    def __post_init__(self) -> None:
        given = Given(self)
        given.size("size")
        given.number("share", "above 0, up to 1", least=ABOVE_0, most=1.0)

    def boxes(self, chance: Chance, source: boxes.Source) -> Boxes:
        """The part of each picture of `source` (height, width)."""
        return boxes.middle(chance, source, self.share)

    def apply(self, batch: Working, chance: Chance, /) -> None:
        """Cut and resize every picture; masks by their nearest pixel."""
        _resized_crop(self, batch, chance)


Crop = RandomCrop | CenterCrop | RandomResizedCrop | CenterResizedCrop


def is_resized(crop: Crop) -> bool:
    """True when what is cut may have any size."""
    return isinstance(crop, RandomResizedCrop | CenterResizedCrop)


def sides(size: Size) -> tuple[int, int]:
    """(height, width)."""
    height, width = size if isinstance(size, tuple) else (size, size)
    return int(height), int(width)


def check_fits(crop: Crop, source: tuple[int, int]) -> None:
    """Raises InputError for a crop without resizing that is larger than the pictures."""
    height, width = sides(crop.size)
    if is_resized(crop) or (height <= source[0] and width <= source[1]):
        return
    raise InputError(
        f"{type(crop).__name__} of {height}x{width} does not fit into pictures of "
        f"{source[0]}x{source[1]}",
        looked_at="the height and width of the pictures",
        run_next="crop less, or use RandomResizedCrop, which enlarges",
    )


def _crop(crop: RandomCrop | CenterCrop, batch: Working, chance: Chance) -> None:
    from stoker.loader.augment import geometry

    source = geometry.source_of(batch)
    check_fits(crop, source)
    geometry.crop(batch, crop.boxes(chance, source), sides(crop.size))


def _resized_crop(crop: Crop, batch: Working, chance: Chance) -> None:
    from stoker.loader.augment import geometry

    cut = crop.boxes(chance, geometry.source_of(batch))
    geometry.resized_crop(batch, cut, sides(crop.size))
