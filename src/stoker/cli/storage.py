"""Measures the storage behind a folder or a file: what a read costs, and what many get together.

Reads the files that are there in order, at random, whole, and by several readers at a time, out of
the page cache and in it; no root is needed. It writes nothing, unless the folder holds nothing to
read and --allow-write is given: then it writes one file without a name, which cannot stay behind.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from stoker.cli.files import add_json, answer
from stoker.cli.quantities import byte_count, seconds
from stoker.cli.streams import write_stdout
from stoker.errors import EXIT_OK

if TYPE_CHECKING:
    from stoker.records.storage import StorageReport

_EPILOG = """examples:
  stoker storage /data/imagenet
  stoker storage --seconds 5 --bytes 200MB --json storage.json /mnt/share/train
  stoker storage --allow-write /mnt/empty
"""
_DEFAULT_SECONDS = 15.0
_DEFAULT_BYTES = 1024**3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the path and its bounds."""
    parser.epilog = _EPILOG
    parser.add_argument("path", metavar="PATH", help="a folder with data, or one file")
    add_json(parser, "write the report as JSON; - writes it to stdout, in place of the tables")
    parser.add_argument(
        "--seconds",
        type=seconds,
        default=_DEFAULT_SECONDS,
        metavar="N",
        help="the longest that it may take, about (default: 15)",
    )
    parser.add_argument(
        "--bytes",
        type=byte_count,
        default=_DEFAULT_BYTES,
        metavar="N",
        help="the most that may be read: 500000000, '500 MB' or 2GiB (default: 1GiB)",
    )
    parser.add_argument(
        "--allow-write",
        action="store_true",
        help="when there is nothing to read, write a file of at most 256 MiB and remove it again",
    )
    parser.add_argument("--quiet", action="store_true", help="no progress on stderr")


def run(args: argparse.Namespace) -> int:
    """Measure, deliver."""
    from stoker.cli.progress import watched
    from stoker.probe.attach import Progress
    from stoker.probe.storage.survey import SurveyPlan, survey
    from stoker.records.codec import to_json

    plan = SurveyPlan(seconds=args.seconds, most_bytes=args.bytes, allow_write=args.allow_write)
    with watched(quiet=args.quiet, stream=sys.stderr) as listener:

        def tell(text: str, done: float, left_s: float) -> None:
            if listener is not None:
                listener(Progress(leg="", text=text, fraction=done, left_s=left_s))

        report = survey(args.path, plan, on_step=tell)
    answer(args.json, lambda: to_json(report), lambda: _print(report))
    return EXIT_OK


def _print(report: StorageReport) -> None:
    from stoker.report.canvas import canvas_for
    from stoker.report.storage import render_storage, storage_view

    if sys.stdout is not None:
        write_stdout(render_storage(storage_view(report), canvas_for(sys.stdout)))
