"""Tells what a pack holds: fields, statistics, classes, how it was made, what was left out.

Nothing is changed and no sample is decoded, except for --sheet.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from stoker.cli.files import add_json, answer
from stoker.cli.streams import write_stdout
from stoker.errors import EXIT_OK


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the pack and where the answer goes."""
    parser.epilog = "examples:\n  stoker info packed/\n  stoker info packed/ --sheet sheet.png\n"
    parser.add_argument("pack", metavar="PACK", help="the folder of a pack")
    parser.add_argument(
        "--sheet", type=Path, metavar="FILE", help="write pictures from all over the pack as a PNG"
    )
    add_json(parser, "write it as JSON as well; - writes it to stdout, in place of the text")


def run(args: argparse.Namespace) -> int:
    """Open, tell."""
    from stoker.pack.reader import open_pack
    from stoker.pack.summary import summarise, write_sheet
    from stoker.records.codec import to_json
    from stoker.report.pack import render_info

    pack = open_pack(args.pack)
    found = summarise(pack)
    if args.sheet is not None:
        write_sheet(pack, args.sheet)
    answer(args.json, lambda: to_json(found), lambda: write_stdout(render_info(found)))
    return EXIT_OK
