"""To floats: the last step before the model, and on the host the dearest one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

from stoker.loader.augment.geometry import is_channels_last
from stoker.loader.augment.needs import need_bytes, need_channels
from stoker.loader.augment.recipe import Working
from stoker.loader.augment.room import Room
from stoker.loader.checks import ABOVE_0, Given, check
from stoker.loader.draws import Chance

# Mean and deviation of the pixels of ImageNet's training set, the numbers in common use.
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
# Rows that are converted, scaled and shifted in one go: of pictures of 224², 1 MB of floats,
# which stays in a core's cache between the three.
_ROWS = 400


@dataclass(frozen=True)
class Normalize:
    """(pixel / 255 − mean) / std by channel, as `dtype`."""

    mean: tuple[float, ...] = IMAGENET_MEAN
    std: tuple[float, ...] = IMAGENET_STD
    dtype: Any = torch.float32

    def __post_init__(self) -> None:
        given = Given(self)
        given.numbers("mean", "one number a channel", least=-math.inf)
        given.numbers("std", "one number above 0 a channel", least=ABOVE_0)
        owner = "stoker.augment.Normalize"
        is_alike = len(self.mean) == len(self.std)
        check(is_alike, "std", self.std, f"as many numbers as mean: {len(self.mean)}", owner=owner)
        is_float = isinstance(self.dtype, torch.dtype) and self.dtype.is_floating_point
        check(is_float, "dtype", self.dtype, "a floating type of torch", owner=owner)

    def apply(self, batch: Working, _: Chance, /) -> None:
        """Replace the image by floats in the same kind of memory."""
        need_bytes(batch, self)
        need_channels(batch, self, len(self.mean))
        batch.replace(self._normalized(batch.image, batch.room))

    def _normalized(self, image: Any, room: Room) -> Any:
        scale = 1.0 / (255.0 * torch.tensor(self.std))
        shift = -torch.tensor(self.mean) / torch.tensor(self.std)
        if image.device.type != "cpu" or not is_channels_last(image):
            place = (1, -1, 1, 1)
            scaled = image.to(torch.float32).mul_(scale.view(place).to(image.device))
            return scaled.add_(shift.view(place).to(image.device)).to(self.dtype)
        # By rows of pixels instead of by channels, so that the inner loop is long.
        count, channels, height, width = image.shape
        flat = image.permute(0, 2, 3, 1).reshape(count * height, width * channels)
        out = room.empty(tuple(flat.shape), torch.float32)
        scale, shift = scale.repeat(width), shift.repeat(width)
        for start in range(0, len(flat), _ROWS):
            rows = out[start : start + _ROWS]
            rows.copy_(flat[start : start + _ROWS])
            torch.addcmul(shift, rows, scale, out=rows)
        return out.view(count, height, width, channels).permute(0, 3, 1, 2).to(self.dtype)
