"""Writes a pack as WebDataset tars or Arrow streams, into a new folder.

Raw pictures become PNG, which loses nothing; JPEGs and files kept whole go over byte by byte.
Samples in quarantine are left out.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from stoker.cli.streams import write_stdout
from stoker.errors import EXIT_OK


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the pack, the format and the folder."""
    parser.epilog = "examples:\n  stoker export packed/ --to webdataset tars/\n"
    parser.add_argument("pack", metavar="PACK", help="the folder of a pack")
    parser.add_argument("target", metavar="DST", help="a new folder")
    parser.add_argument("--to", choices=("webdataset", "arrow"), required=True, help="the format")


def run(args: argparse.Namespace) -> int:
    """Open, write, tell."""
    from stoker.pack.export import export
    from stoker.pack.reader import open_pack
    from stoker.report.numbers import amount, counted

    pack = open_pack(args.pack)
    files = export(pack, Path(args.target), args.to)
    size = sum(path.stat().st_size for path in files)
    write_stdout(
        f"{args.target}: {counted(len(pack.usable), 'sample')} in {counted(len(files), 'file')}, "
        f"{amount(size, 'bytes')}\n"
    )
    return EXIT_OK
