"""Shows a diagnosis again that `stoker doctor --json FILE` wrote; nothing is measured.

FILE may be - for stdin. The exit code is 0 when it could be shown, whatever the verdict in it.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from stoker.cli.files import add_json, answer, read_diagnosis
from stoker.cli.streams import write_stdout
from stoker.errors import EXIT_OK

if TYPE_CHECKING:
    from stoker.records.diagnosis import Diagnosis


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the file and where else it may go."""
    parser.add_argument("file", metavar="FILE", help="the diagnosis; - reads it from stdin")
    add_json(
        parser, "write the diagnosis as JSON as well; - writes it to stdout, in place of the report"
    )


def run(args: argparse.Namespace) -> int:
    """Read, show."""
    from stoker.records.codec import to_json

    diagnosis = read_diagnosis(args.file)
    answer(args.json, lambda: to_json(diagnosis), lambda: print_report(diagnosis))
    return EXIT_OK


def print_report(diagnosis: Diagnosis) -> None:
    """The report on stdout, as wide and as colourful as stdout allows."""
    from stoker.report.canvas import canvas_for
    from stoker.report.terminal import render
    from stoker.report.view import view

    if sys.stdout is not None:
        write_stdout(render(view(diagnosis), canvas_for(sys.stdout)))
