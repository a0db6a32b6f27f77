"""Compares a pack with its checksums and names the bytes that changed.

Exit code 1 when anything changed. Nothing is repaired; what does that is told.
With --against, compares on a sample what the pack gives with what your own Dataset gives.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path

from stoker.cli.files import add_json, answer
from stoker.cli.streams import told_on_stderr, write_stdout
from stoker.errors import EXIT_ERROR, EXIT_OK


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the pack and how much of it is read."""
    parser.epilog = "examples:\n  stoker verify packed/\n  stoker verify packed/ --sample 1%\n"
    parser.add_argument("pack", metavar="PACK", help="the folder of a pack")
    parser.add_argument(
        "--sample",
        type=_share,
        metavar="SHARE",
        help="compare a share of the blocks, 1%% or 0.01, one at least (default: all of them); "
        "with --against, of the samples (default: 64 of them)",
    )
    add_json(parser, "write it as JSON as well; - writes it to stdout, in place of the text")
    parser.add_argument(
        "--against",
        metavar="MODULE:OBJECT",
        help="compare samples and labels with those of your own Dataset instead of checksums",
    )
    parser.add_argument("--quiet", action="store_true", help="no progress on stderr")


def run(args: argparse.Namespace) -> int:
    """Read, compare, tell."""
    if args.against is not None:
        return _certify(args)
    from stoker.cli.progress import watched
    from stoker.pack.verify import verify
    from stoker.probe.attach import Progress
    from stoker.records.codec import to_json
    from stoker.report.pack import render_verified

    with watched(quiet=args.quiet, stream=sys.stderr) as listener:

        def tell(done: float) -> None:
            if listener is not None:
                listener(Progress(leg="", text="comparing checksums", fraction=done, left_s=None))

        found = verify(Path(args.pack), share=args.sample or 1.0, on_step=tell)
    answer(args.json, lambda: to_json(found), lambda: write_stdout(render_verified(found)))
    return EXIT_ERROR if found.damage else EXIT_OK


def _certify(args: argparse.Namespace) -> int:
    from stoker.pack.fidelity import USUAL_COUNT, certify
    from stoker.pack.reader import open_pack
    from stoker.records.codec import to_json
    from stoker.report.pack import render_certificate

    pack = open_pack(args.pack)
    share = args.sample
    count = USUAL_COUNT if share is None else max(1, round(share * len(pack.usable)))
    with told_on_stderr():
        found = certify(pack, args.against, count)
    answer(args.json, lambda: to_json(found), lambda: write_stdout(render_certificate(found)))
    return EXIT_OK if found.is_equivalent else EXIT_ERROR


def _share(text: str) -> float:
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = math.nan
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share, such as 1% or 0.01")
    return value
