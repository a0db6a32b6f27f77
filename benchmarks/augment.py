"""Claim: the steps of stoker.augment change 1,500 pictures a second on one core.

Photo tiles as a Loader gives them (uint8, channels_last), in one thread; images over the CPU time
of that thread, the median of some rounds. `python -m benchmarks.augment`
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from typing import Any, NamedTuple

import numpy as np
import skimage.data
import torch

from benchmarks import record
from stoker import augment

CLAIM = "Images a second that one core changes, and the least that is claimed."
BATCH, STORED, SIZE = 64, 256, 224
CLAIMED = 1500.0


class Row(NamedTuple):
    """A recipe, the size of the pictures that it is given, and what is claimed."""

    title: str
    recipe: augment.Recipe
    size: int
    claimed: float | None = CLAIMED


ROWS = {
    "1-usual": Row(
        "256² → random crop 224, flip, normalise",
        augment.Recipe(augment.RandomCrop(SIZE), augment.HorizontalFlip(), augment.Normalize()),
        STORED,
    ),
    "2-hue": Row("224²: hue ± 0.1", augment.Recipe(augment.ColorJitter(0, 0, 0, 0.1)), SIZE),
    "3-jitter": Row(
        "224²: brightness, contrast, saturation ± 0.4, hue ± 0.1",
        augment.Recipe(augment.ColorJitter(0.4, 0.4, 0.4, 0.1)),
        SIZE,
    ),
    "4-resized": Row("256² → imagenet(224)", augment.imagenet(SIZE), STORED, None),
}


def photos(size: int) -> Any:
    """Parts of a real photo, (BATCH, 3, size, size) uint8 in channels_last memory."""
    photo = skimage.data.astronaut()
    parts = []
    for number in range(BATCH):
        top, left = number * 7 % (512 - size + 1), number * 13 % (512 - size + 1)
        parts.append(photo[top : top + size, left : left + size])
    return torch.from_numpy(np.stack(parts)).permute(0, 3, 1, 2)


def rate(row: Row, rounds: int) -> list[float]:
    """Images a second of one thread's CPU time, a number a round."""
    batch = {"image": photos(row.size), "index": torch.arange(BATCH)}
    found = []
    for epoch in range(rounds + 1):
        began = time.thread_time()
        made = row.recipe(batch, seed=0, epoch=epoch)
        found.append(BATCH / (time.thread_time() - began))
        del made
    return found[1:]  # the first one makes the memory


def main() -> int:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=CLAIM)
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    torch.set_num_threads(1)
    rows, numbers, passed = {}, {}, {}
    for key, row in ROWS.items():
        found = rate(row, args.rounds)
        median = statistics.median(found)
        claimed = "" if row.claimed is None else f"{row.claimed:,.0f}"
        rows[key] = [row.title, f"{median:,.0f}", claimed]
        numbers[key] = {"images_per_cpu_s": found}
        passed[key] = row.claimed is None or median >= row.claimed
    held = record.write(
        "augment",
        claim=CLAIM,
        columns=["change", "images/s a core", "claimed"],
        rows=rows,
        numbers=numbers,
        passed=passed,
    )
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
