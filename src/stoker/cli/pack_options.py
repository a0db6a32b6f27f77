"""What `stoker pack` can be told: its options, and what their values mean."""

from __future__ import annotations

import argparse
import re
import shlex
from typing import TYPE_CHECKING, Any

from stoker.cli.files import add_json
from stoker.cli.quantities import byte_count, count

if TYPE_CHECKING:
    from stoker.pack.job import Order
    from stoker.pack.manifest import Transform

_TIERS = ("raw", "crop-jpeg", "jpeg", "keep", "auto")
_FITS = ("shorter", "exact", "pad", "bucket")
_RESAMPLERS = ("nearest", "box", "bilinear", "hamming", "bicubic", "lanczos")


def add_stored(group: Any) -> None:
    """Declare what decides the bytes of the pack."""
    group.add_argument("--size", type=count, metavar="S", help="pixels of the shorter side")
    group.add_argument(
        "--fit",
        choices=_FITS,
        default="shorter",
        help="shorter: shorter side S, then the centre S×S (default); exact: squashed to S×S; "
        "pad: all of it, black beside; bucket: aspect families",
    )
    group.add_argument("--resampler", choices=_RESAMPLERS, default="bilinear", metavar="NAME")
    group.add_argument(
        "--tier",
        choices=_TIERS,
        default="auto",
        help="raw pixels; crop-jpeg, jpeg; keep: the files' own bytes; auto (default): raw with "
        "--size and for a Dataset, else keep",
    )
    group.add_argument("--quality", type=count, metavar="Q", help="of JPEG tiers (default: 90)")
    group.add_argument(
        "--exif",
        choices=("ignore", "apply"),
        default="ignore",
        help="EXIF rotation: ignored, as torchvision does (default), or applied",
    )
    group.add_argument(
        "--order", type=_order, default="source", metavar="ORDER", help="source, or shuffled:SEED"
    )
    group.add_argument(
        "--shard-size", type=byte_count, metavar="N", help="bytes a shard (default: 256MB)"
    )
    group.add_argument(
        "--hash",
        action="store_true",
        help="keep a hash of every source's bytes, by which --repack tells what changed",
    )


def add_making(group: Any) -> None:
    """Declare how it is made, and what is told."""
    group.add_argument("--workers", type=count, metavar="N", help="processes (default: the cores)")
    group.add_argument(
        "--max-bad",
        type=_natural,
        metavar="N",
        help="accept that many samples that can't be read; more of them stop it. Without it all "
        "others are packed, and the exit code is 1",
    )
    kinds = group.add_mutually_exclusive_group()
    kinds.add_argument("--append", action="store_true", help="add the sources that DST lacks")
    kinds.add_argument("--repack", action="store_true", help="make the changed shards again")
    group.add_argument("--resume", action="store_true", help="go on where a run was stopped")
    group.add_argument("--shard", type=_part, metavar="I/N", help="only this machine's part, 0/N …")
    group.add_argument("--plan", action="store_true", help="measure and forecast, pack nothing")
    group.add_argument(
        "--diagnosis", metavar="FILE", help="with --plan: what the script of this diagnosis needs"
    )
    group.add_argument(
        "--force", action="store_true", help="with --from: also where the diagnosis sees no gain"
    )
    group.add_argument("--finalize", action="store_true", help="join the parts of --shard")
    add_json(
        group, "write the summary as JSON as well; - writes it to stdout, in place of the text"
    )
    group.add_argument("--quiet", action="store_true", help="no progress on stderr")


def source_of(args: argparse.Namespace) -> str:
    """The source, as it was given on the command line."""
    if args.from_diagnosis is not None:
        return f"--from {shlex.quote(args.from_diagnosis)}"
    return shlex.quote(args.source)


def transform_of(args: argparse.Namespace, tier: str) -> Transform:
    """What was asked for, in that tier."""
    from stoker.pack.manifest import Transform

    return Transform(
        tier=tier,
        size=args.size,
        fit=args.fit,
        resampler=args.resampler,
        quality=args.quality,
        exif=args.exif,
    )


def _natural(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 on")
    return int(text)


def _order(text: str) -> Order:
    from stoker.pack.job import Order

    if text == "source":
        return Order()
    seed = text.removeprefix("shuffled:")
    if seed == text or not seed.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not source or shuffled:SEED")
    return Order(int(seed))


def _part(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    if not found or int(found[1]) >= int(found[2]):
        raise argparse.ArgumentTypeError(f"{text!r} is not I/N with I from 0 to N − 1")
    return int(found[1]), int(found[2])
