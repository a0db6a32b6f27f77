"""Antialiased bilinear resizing of another box of each picture of a batch.

On the host torch's own uint8 kernel, a picture at a time. On a device two batched matrix products
for the whole batch: a triangle filter is a banded matrix, and the box only moves its bands.
"""

from __future__ import annotations

from typing import Any

import torch

from stoker.loader.boxes import Boxes


def resampled(image: Any, cut: Boxes, out: Any) -> Any:
    """The boxes of `image` (N, C, H, W) as pictures of the size of `out`, which may be used.

    Bytes or floats. Returns the result, of the same type.
    """
    if image.device.type != "cpu":
        return by_matrices(image, cut, out.shape[-2:])
    # torch has a fast kernel for uint8 in channels_last memory (since 2.1), and none for boxes.
    places = zip(*(side.tolist() for side in cut), strict=True)
    for number, (top, left, height, width) in enumerate(places):
        out[number] = torch.nn.functional.interpolate(
            image[number : number + 1, :, top : top + height, left : left + width],
            size=out.shape[-2:],
            mode="bilinear",
            antialias=True,
        )[0]
    return out


def by_matrices(image: Any, cut: Boxes, size: tuple[int, int]) -> Any:
    """The same by matrix products, for any device: 1 grey level apart at most.

    Needs N · (h · H + w · W) floats besides, 230 MB for 512 pictures of 256² to 224².
    """
    device = image.device
    high = _filters(cut.top, cut.height, image.shape[-2], size[0], device)
    wide = _filters(cut.left, cut.width, image.shape[-1], size[1], device)
    pixels = image.to(high.dtype)
    out = high[:, None] @ pixels @ wide[:, None].transpose(-1, -2)
    if image.is_floating_point():
        return out.to(image.dtype)
    return out.add_(0.5).clamp_(0, 255).to(torch.uint8)


def _filters(starts: Any, lengths: Any, source: int, target: int, device: Any) -> Any:
    """Weights (N, target, source) of a triangle filter over the part [start, start + length).

    A target pixel's centre is at start + (i + ½) · length / target; the filter is one source pixel
    wide to either side, or one target pixel where that is wider; weights sum to 1 inside the part.
    """
    start = torch.as_tensor(starts, device=device, dtype=torch.float32)[:, None, None]
    length = torch.as_tensor(lengths, device=device, dtype=torch.float32)[:, None, None]
    step = length / target
    centre = start + (torch.arange(target, device=device)[None, :, None] + 0.5) * step
    pixel = torch.arange(source, device=device)[None, None, :] + 0.5
    weights = (1 - (pixel - centre).abs() / step.clamp(min=1)).clamp_(min=0)
    weights = weights * ((pixel > start) & (pixel < start + length))
    return weights / weights.sum(-1, keepdim=True)
