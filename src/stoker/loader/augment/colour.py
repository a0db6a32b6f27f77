"""Steps that change colours, each sample by its own factors; on uint8 rounded as torchvision does.

The arithmetic runs on floats of 0 to 255 in blocks of samples that have the same change next.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from stoker.loader.augment.needs import need_bytes
from stoker.loader.augment.recipe import Working
from stoker.loader.checks import Given
from stoker.loader.draws import Chance

# ITU-R BT.601 luma, in the digits that Pillow and torchvision use.
_LUMA = (0.2989, 0.587, 0.114)
# Pictures of 224² in floats: 0.6 MB each, and a change holds about three times that.
_BLOCK = 1
# Each change is given pixels (N, 3, H, W) of 0 to 255 and factors (N, 1, 1, 1), and may write into
# the pixels: with new memory a multiplication takes half as long again and more.
Change = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class ColorJitter:
    """Brightness, contrast, saturation and hue by random factors, in a random order.

    A number b stands for factors in [max(0, 1 − b), 1 + b]; for hue, h for shifts in [−h, h], with
    h up to 0.5 (half the circle). 0 leaves that change out.
    """

    brightness: float = 0.0
    contrast: float = 0.0
    saturation: float = 0.0
    hue: float = 0.0

    def __post_init__(self) -> None:
        given = Given(self)
        for name in ("brightness", "contrast", "saturation"):
            given.number(name, "a number, 0 or more", least=0.0, most=math.inf)
        given.number("hue", "a share of the circle, 0 to 0.5", least=0.0, most=0.5)

    def apply(self, batch: Working, chance: Chance) -> None:
        """Change every picture by its own factors, in its own order."""
        need_bytes(batch, self, in_colour=True)
        widths = self.brightness, self.contrast, self.saturation
        factors = [
            *(
                chance.uniform(number, max(0.0, 1.0 - width), 1.0 + width)
                for number, width in enumerate(widths)
            ),
            chance.uniform(3, -self.hue, self.hue),
        ]
        # Sorting four random numbers gives each order equally often.
        turns = np.argsort([chance.uniform(4 + number) for number in range(4)], axis=0)
        wanted = [width > 0 for width in (*widths, self.hue)]
        batch.replace(jittered(batch.image, factors, turns, wanted))


@dataclass(frozen=True)
class RandomGrayscale:
    """Take the colour out of each picture with probability `p`; it keeps three channels."""

    p: float = 0.1

    def __post_init__(self) -> None:
        Given(self).number("p", "a probability, 0 to 1", least=0.0, most=1.0)

    def apply(self, batch: Working, chance: Chance) -> None:
        """Make the chosen pictures grey."""
        need_bytes(batch, self, in_colour=True)
        chosen = np.flatnonzero(chance.uniform(0) < self.p)
        if len(chosen):
            picked = torch.as_tensor(chosen, device=batch.image.device)
            out = batch.image.clone()
            out[picked] = luma(batch.image[picked].float()).to(out.dtype).expand(-1, 3, -1, -1)
            batch.replace(out)


def jittered(image: Any, factors: list[Any], turns: Any, wanted: list[bool]) -> Any:
    """Pictures (N, 3, H, W) uint8 changed by factors[change][sample] in the order turns[:, sample].

    Changes are numbered brightness, contrast, saturation, hue.
    """
    # On the host a few pictures at a time, so that their floats stay in a core's cache.
    block = _BLOCK if image.device.type == "cpu" else max(len(image), 1)
    out = torch.empty_like(image)
    for start in range(0, len(image), block):
        part = slice(start, start + block)
        # By way of planes of bytes, which are a quarter to move: a fifth less time.
        pixels = image[part].contiguous().to(torch.float32)
        for turn in turns[:, part]:
            for number, change in enumerate(CHANGES):
                chosen = np.flatnonzero(turn == number)
                if wanted[number] and len(chosen):
                    _change(pixels, chosen, change, factors[number][part][chosen])
        _store(pixels, out[part])
    return out


def _store(pixels: Any, out: Any) -> None:
    """Whole numbers of 0 to 255 into bytes of any memory layout."""
    if out.device.type != "cpu" or out.is_contiguous():
        out.copy_(pixels)
        return
    # NumPy steps through bytes that lie three apart in half of torch's time.
    levels, target = pixels.to(torch.uint8).numpy(), out.numpy()
    for channel in range(levels.shape[1]):
        target[:, channel] = levels[:, channel]


def _change(pixels: Any, chosen: Any, change: Change, factors: Any) -> None:
    factor = torch.as_tensor(factors, device=pixels.device, dtype=torch.float32)
    if len(chosen) == 1 and pixels.device.type == "cpu":
        one = slice(int(chosen[0]), int(chosen[0]) + 1)
        before = pixels[one]
        after = change(before, factor.view(1, 1, 1, 1))
        if after is not before:
            pixels[one] = after
        return
    picked = torch.as_tensor(chosen, device=pixels.device)
    pixels[picked] = change(pixels[picked], factor.view(-1, 1, 1, 1))


def luma(pixels: Any) -> Any:
    """Grey levels (N, 1, H, W) of 0 to 255, without fractions."""
    red, green, blue = pixels.unbind(1)
    grey = (red * _LUMA[0]).add_(green * _LUMA[1]).add_(blue * _LUMA[2])
    return grey.floor_().unsqueeze(1)


def _brightness(pixels: Any, factor: Any) -> Any:
    return _whole(pixels.mul_(factor))


def _contrast(pixels: Any, factor: Any) -> Any:
    return _between(luma(pixels).mean((1, 2, 3), keepdim=True), pixels, factor)


def _saturation(pixels: Any, factor: Any) -> Any:
    return _between(luma(pixels), pixels, factor)


def _hue(pixels: Any, shift: Any) -> Any:
    """Turn the colours by `shift` of the circle; value and chroma of each pixel stay.

    Angles are sixths of the circle times the pixel's chroma, so that nothing is divided, and no
    pixel is asked which of its channels is largest: comparing and choosing takes some thirty times
    as long as adding. The angle from red is 2w + |u − w|, with w = value − red and
    u = |green − blue|.
    """
    red, green, blue = pixels.unbind(1)
    value, least = torch.maximum(red, green), torch.minimum(red, green)
    torch.maximum(value, blue, out=value)
    torch.minimum(least, blue, out=least)
    chroma = value - least
    lacking, side = value - red, green - blue
    angle = side.abs().sub_(lacking).abs_().add_(lacking, alpha=2.0).copysign_(side)
    # Two sixths are the next channel; what is left of the shift is one sixth at most, so that each
    # angle below lies within one turn to either side.
    sixths = 6.0 * shift[:, 0]
    channels = (sixths / 2.0).round()
    left = sixths - 2.0 * channels
    half_turn = torch.mul(chroma, 3.0, out=lacking)
    floor = least - chroma
    for channel in range(3):
        # A channel has all of the value within one sixth of its own angle, and none of the chroma
        # beyond two; |half_turn − |angle|| is how far a pixel is from the opposite.
        centre = 2.0 * ((channel - channels + 1.0).remainder(3.0) - 1.0)
        level = torch.addcmul(angle, chroma, left - centre, out=side)
        level.abs_().sub_(half_turn).abs_().add_(floor)
        torch.clamp(level, least, value, out=pixels[:, channel])
    # 255.999 / 255: torchvision's way back from floats to uint8.
    return pixels.mul_(255.999 / 255.0).floor_()


def _between(towards: Any, pixels: Any, factor: Any) -> Any:
    return _whole(pixels.mul_(factor).add_(towards * (1.0 - factor)))


def _whole(pixels: Any) -> Any:
    """Within 0 to 255 and without fractions: what storing as uint8 leaves."""
    return pixels.clamp_(0.0, 255.0).floor_()


CHANGES: tuple[Change, ...] = (_brightness, _contrast, _saturation, _hue)
