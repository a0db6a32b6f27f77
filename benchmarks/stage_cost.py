"""Claim: timing the stages costs at most 3 % of the loading of a 20 ms batch.

The cost is that of the calls, whatever they work on. So it is measured on tiny photos, where it
is a third of the time and not lost in noise, and set against a batch of 20 ms of larger ones: same
code, same calls, in one thread as in a worker. `python -m benchmarks.stage_cost`
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset

from benchmarks import record
from stoker.probe import stages
from stoker.probe.session import LineFile
from stoker.stats import difference, median_spread, ratio

CLAIM = "Stage timing takes at most 3 % of the loading of a 20 ms batch."
ALLOWED = 0.03
BATCH = 8
TINY, LARGE = 16, 460  # pixels a side; eight of the large ones take about 20 ms
FILES = 64
# By turns without timing and with; the first batches of a turn fill caches that patching emptied.
TURNS = 8
SKIPPED, COUNTED = 6, 15


class Photos(Dataset[torch.Tensor]):
    """Small photos, decoded, cropped and normalised as an ordinary script does it."""

    def __init__(self, folder: Path, size: int) -> None:
        self.paths = sorted(folder.glob("*.jpg"))
        self.size = size
        self.transform = Compose([flip, to_tensor])

    def __len__(self) -> int:
        return BATCH * (2 * TURNS + 1) * (SKIPPED + COUNTED)

    def load(self, index: int) -> Image.Image:
        """The photo at training size."""
        image = Image.open(self.paths[index % len(self.paths)]).convert("RGB")
        return image.resize((self.size, self.size), Image.Resampling.BILINEAR)

    def __getitem__(self, index: int) -> torch.Tensor:
        sample: torch.Tensor = self.transform(self.load(index))
        return sample


class Compose:
    """One transform after the other."""

    def __init__(self, transforms: list[Any]) -> None:
        self.transforms = transforms

    def __call__(self, value: Any) -> Any:
        """Apply all."""
        for transform in self.transforms:
            value = transform(value)
        return value


def flip(image: Image.Image) -> Image.Image:
    """Left to right, every second time."""
    is_flipped = bool(torch.rand(()) < 0.5)
    return image.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if is_flipped else image


def to_tensor(image: Image.Image) -> torch.Tensor:
    """Channels first, from 0 to 1."""
    return torch.from_numpy(np.asarray(image).copy()).permute(2, 0, 1).float() / 255


def make_photos(folder: Path, pixels: int) -> None:
    """Square JPEG files with soft structure."""
    folder.mkdir()
    random = np.random.default_rng(0)
    for number in range(FILES):
        soft = Image.fromarray(random.integers(0, 255, (36, 36, 3), dtype=np.uint8))
        soft.resize((pixels, pixels)).save(folder / f"{number:03}.jpg", quality=90)


def times_s(dataset: Photos, lines: LineFile) -> tuple[list[float], list[float]]:
    """CPU seconds of single batches, without stage timing and with it."""
    batches = iter(DataLoader(dataset, batch_size=BATCH))
    plain: list[float] = []
    timed: list[float] = []

    def turn(found: list[float]) -> None:
        for _ in range(SKIPPED):
            next(batches)
        for _ in range(COUNTED):
            began = time.thread_time()
            next(batches)
            found.append(time.thread_time() - began)

    for _ in range(TURNS):
        turn(plain)
        with stages.install(dataset, lines.write, where="main"):
            turn(timed)
    return plain, timed


def main() -> int:
    """Measure, print and keep."""
    torch.set_num_threads(1)  # as in a worker
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        lines = LineFile(folder / "stages.jsonl")
        for pixels in (TINY, LARGE):
            make_photos(folder / str(pixels), pixels)
        tiny_plain, tiny_timed = times_s(Photos(folder / str(TINY), TINY), lines)
        batch = median_spread(_plain_batches(Photos(folder / str(LARGE), 224)))
    extra = difference(median_spread(tiny_timed), median_spread(tiny_plain))
    share = ratio(extra, batch)
    row = f"{BATCH} photos of {LARGE} pixels"
    held = record.write(
        "stage_cost",
        claim=CLAIM,
        columns=("batch", "its CPU time", "more a batch", "more a sample", "share"),
        rows={
            row: (
                row,
                f"{batch.median * 1e3:.1f} ms",
                f"{extra.median * 1e3:.2f} ms",
                f"{extra.median / BATCH * 1e6:.0f} µs",
                f"{share.median:.1%} ({share.low:.1%} to {share.high:.1%})",
            )
        },
        numbers={
            row: {
                "batch_s": batch.median,
                "tiny_plain_s": median_spread(tiny_plain).median,
                "tiny_timed_s": median_spread(tiny_timed).median,
            }
        },
        passed={row: share.median <= ALLOWED},
    )
    return 0 if held else 1


def _plain_batches(dataset: Photos) -> list[float]:
    """CPU seconds of single batches without stage timing."""
    batches = iter(DataLoader(dataset, batch_size=BATCH))
    found = []
    for _ in range(SKIPPED + COUNTED):
        began = time.thread_time()
        next(batches)
        found.append(time.thread_time() - began)
    return found[SKIPPED:]


if __name__ == "__main__":
    sys.exit(main())
