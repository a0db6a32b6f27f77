"""Writes torchvision.npz: what torchvision v2 makes of two real pictures, parameters given.

Run once, in an environment of its own with torch and torchvision 0.28 (CPU):

    python tests/unit/loader/references/make.py

Where torchvision was built for another kind of torch its compiled operators are missing; the
transforms used here need none, and the two that its import asks for are declared.
"""

import sys
from pathlib import Path

import numpy as np
import torch

SIDE, TARGET = 64, 48
BOXES = [(0, 0, 64, 64), (10, 20, 50, 40), (30, 5, 20, 24), (24, 20, 40, 33)]
FACTORS = {
    "brightness": (0.6, 1.3),
    "contrast": (0.6, 1.4),
    "saturation": (0.5, 1.6),
    "hue": (-0.3, 0.1),
}
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def pictures():
    """Two real pictures (3, 64, 64): a face, and fur."""
    import skimage.data

    parts = [skimage.data.astronaut()[60:124, 186:250], skimage.data.chelsea()[60:124, 110:174]]
    return torch.from_numpy(np.stack(parts)).permute(0, 3, 1, 2).contiguous()


def box_shares(torchvision):
    """Deciles of the share of a square picture that RandomResizedCrop cuts."""
    torch.manual_seed(0)
    transform = torchvision.transforms.RandomResizedCrop
    square = torch.zeros(3, 500, 500)
    boxes = [transform.get_params(square, (0.08, 1.0), (3 / 4, 4 / 3)) for _ in range(20_000)]
    return np.quantile([box[2] * box[3] / 250_000 for box in boxes], np.arange(1, 10) / 10)


def main():
    if not hasattr(torch.ops.torchvision, "nms"):
        library = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    import torchvision
    from torchvision.transforms.v2 import functional

    images = pictures()
    made = {"pictures": images.numpy(), "version": np.array(torchvision.__version__)}
    made["resized"] = np.stack(
        [functional.resized_crop(images, *box, (TARGET, TARGET)).numpy() for box in BOXES]
    )
    mask = torchvision.tv_tensors.Mask(images[:, 0])
    made["masks"] = np.stack(
        [
            functional.resized_crop(
                mask, *box, (TARGET, TARGET), interpolation=functional.InterpolationMode.NEAREST
            ).numpy()
            for box in BOXES
        ]
    )
    for name, factors in FACTORS.items():
        change = getattr(functional, f"adjust_{name}")
        made[name] = np.stack([change(images, factor).numpy() for factor in factors])
    made["grayscale"] = functional.rgb_to_grayscale(images, num_output_channels=3).numpy()
    made["flipped"] = functional.horizontal_flip(images).numpy()
    floats = functional.to_dtype(images, torch.float32, scale=True)
    made["normalized"] = functional.normalize(floats, MEAN, STD).numpy()
    made["erased"] = functional.erase(images, 10, 20, 30, 40, torch.zeros(3, 1, 1)).numpy()
    made["centred"] = functional.center_crop(images, (33, 48)).numpy()
    made["box_shares"] = box_shares(torchvision)
    np.savez_compressed(Path(__file__).with_name("torchvision.npz"), **made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
