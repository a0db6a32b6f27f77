"""A plain loop over a stoker.Loader of JPEGs; arguments: torch or numpy, milliseconds of a step."""

import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

import stoker

BATCH, PICTURES, SIDE = 8, 160, 192


def write_pictures(folder: Path) -> None:
    rng = np.random.default_rng(0)
    for number in range(PICTURES):
        coarse = rng.integers(0, 256, (SIDE // 8, SIDE // 8, 3), np.uint8)
        Image.fromarray(coarse).resize((SIDE, SIDE)).save(folder / f"{number:03}.jpg")


if __name__ == "__main__":
    array, step_s = sys.argv[1], float(sys.argv[2]) / 1000
    with tempfile.TemporaryDirectory() as name:
        write_pictures(Path(name))
        loader = stoker.Loader(name, BATCH, shuffle=True, crop=128, array=array, seed=3)
        if array == "torch":
            import torch

            weight = torch.nn.Parameter(torch.zeros(1))
            optimizer = torch.optim.SGD([weight], lr=0.1)
        for _ in range(10_000):
            for batch in loader:
                assert batch["image"].shape[0] == BATCH
                time.sleep(step_s)
                if array == "torch":
                    weight.grad = torch.ones(1)
                    optimizer.step()
    os._exit(0)  # nobody watched
