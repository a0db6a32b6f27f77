"""Cut a data set of JPEG tiles from the photos that ship with scikit-image and scikit-learn.

    python make_tiles.py FOLDER [--count 1600] [--size 512] [--seed 0]

Each photo becomes a class, FOLDER/<photo>/<number>.jpg. A tile is a square of the photo at a
random place and scale, turned and mirrored at random, so that all tiles differ. The same seed
gives the same tiles; a folder that is complete is left as it is.
"""

import argparse
import json
import random
import sys
import time
from pathlib import Path

import skimage.data
from PIL import Image
from sklearn.datasets import load_sample_image

QUALITY = 90
# The smallest cut, as a share of the photo's shorter side: below it, enlarging blurs too much.
SMALLEST_CUT = 0.4
TURNS = [
    None,
    Image.Transpose.ROTATE_90,
    Image.Transpose.ROTATE_180,
    Image.Transpose.ROTATE_270,
    Image.Transpose.FLIP_LEFT_RIGHT,
    Image.Transpose.FLIP_TOP_BOTTOM,
    Image.Transpose.TRANSPOSE,
    Image.Transpose.TRANSVERSE,
]


def photos():
    """Name and image of each photo; all of them come inside the two packages."""
    for name in ("astronaut", "cat", "coffee", "hubble_deep_field", "retina", "rocket"):
        yield name, Image.fromarray(getattr(skimage.data, name)())
    for name in ("china", "flower"):
        yield name, Image.fromarray(load_sample_image(f"{name}.jpg"))


def cut(photo, size, rng):
    shorter = min(photo.size)
    side = rng.uniform(SMALLEST_CUT, 1.0) * shorter
    left = rng.uniform(0, photo.width - side)
    top = rng.uniform(0, photo.height - side)
    box = (left, top, left + side, top + side)
    tile = photo.resize((size, size), Image.Resampling.BICUBIC, box=box)
    turn = rng.choice(TURNS)
    return tile if turn is None else tile.transpose(turn)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=1600)
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    made_as = {"count": args.count, "size": args.size, "seed": args.seed, "quality": QUALITY}
    complete = args.folder / "tiles.json"  # written last
    if complete.exists() and json.loads(complete.read_text()) == made_as:
        print(f"{args.count} tiles are in {args.folder} already")
        return
    args.folder.mkdir(parents=True, exist_ok=True)
    complete.unlink(missing_ok=True)
    for old in args.folder.glob("*/*.jpg"):
        old.unlink()

    rng = random.Random(args.seed)
    album = list(photos())
    started = time.perf_counter()
    for number in range(args.count):
        name, photo = album[number % len(album)]
        (args.folder / name).mkdir(exist_ok=True)
        tile = cut(photo, args.size, rng)
        tile.save(args.folder / name / f"{number:05}.jpg", quality=QUALITY, subsampling="4:2:0")
        done = number + 1
        if sys.stderr.isatty() or done in (args.count // 2, args.count):
            rate = done / (time.perf_counter() - started)
            end = "\r" if sys.stderr.isatty() and done < args.count else "\n"
            print(f"{done} of {args.count} tiles, {rate:.0f} a second", end=end, file=sys.stderr)
    complete.write_text(json.dumps(made_as) + "\n")


if __name__ == "__main__":
    main()
