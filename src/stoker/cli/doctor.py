"""Runs a training script as it is, measures by experiment what limits it, and says what to do.

The script's loop is given its own batches, batches that lie ready, and batches beside a busy
loader, in short turns; its loader is drained alone. Then the script is stopped. It needs no change,
its files are kept from harm, and what it prints goes to stderr.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from stoker.cli import gate
from stoker.cli.files import JsonOutput, add_json, require_apart
from stoker.cli.quantities import count, seconds
from stoker.errors import EXIT_ERROR, EXIT_INCONCLUSIVE, EXIT_OK

if TYPE_CHECKING:
    from stoker.records.diagnosis import Diagnosis
    from stoker.records.profile import Profile

_USAGE = """stoker doctor [OPTIONS] SCRIPT [ARGS...]
       stoker doctor [OPTIONS] -m MODULE [ARGS...]
       stoker doctor [OPTIONS] -- LAUNCHER [ARGS...]"""

_EPILOG = """Everything behind SCRIPT, MODULE or -- belongs to the script, options too.

examples:
  stoker doctor train.py --epochs 3
  stoker doctor --json diagnosis.json --budget 60 -m trainer.main --config small.yaml
  stoker doctor --fail-on 'starved>10%' -- torchrun --nproc-per-node 2 train.py

exit codes:
  0 answered, 1 error or failed gate, 2 usage, 3 inconclusive, 130 Ctrl-C,
  143 a request to terminate, 129 a terminal that was closed, 131 SIGQUIT;
  a script that fails passes its own code on
"""
# A process that a signal ended is -SIGNAL to us and 128 + SIGNAL to a shell.
_SIGNAL_BASE = 128


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options; the script and its arguments are split off before."""
    parser.usage = _USAGE
    parser.epilog = _EPILOG
    add_json(parser, "write the diagnosis as JSON; - writes it to stdout, in place of the report")
    parser.add_argument(
        "--quiet",
        action="store_true",
        help="no progress, and no report when the diagnosis goes to a file",
    )
    parser.add_argument(
        "--budget",
        type=seconds,
        default=30.0,
        metavar="SECONDS",
        help="the longest that the legs may take together (default: 30)",
    )
    parser.add_argument(
        "--try",
        dest="tries",
        action="store_true",
        help="then try other settings of the loader in the script's own loop, in turn with the "
        "loop as it is; takes up to twice the budget on top",
    )
    parser.add_argument(
        "--steps", type=count, metavar="N", help="end after N steps of the script's own loop"
    )
    parser.add_argument(
        "--allow-writes",
        action="store_true",
        help="let the script write its files, instead of keeping them apart",
    )
    parser.add_argument(
        "--fail-on",
        type=gate.parse,
        default=(),
        metavar="EXPR",
        help="fail with exit code 1 when it holds: 'starved>10%%', 'au<0.9', 'cores_needed>8', "
        "several with commas",
    )


def run(args: argparse.Namespace) -> int:
    """Examine, diagnose, report."""
    from stoker.cli.progress import watched
    from stoker.diagnose.diagnosis import diagnose
    from stoker.probe.attach import Options, Target, examine
    from stoker.probe.command import source_of
    from stoker.zoo.load import load_zoo

    if args.json is not None:
        require_apart(args.json.given, [source_of(args.call.kind, args.call.argv)])
    target = Target(kind=args.call.kind, argv=args.call.argv)
    options = Options(
        budget_s=args.budget, steps=args.steps, allow_writes=args.allow_writes, tries=args.tries
    )
    with watched(quiet=args.quiet, stream=sys.stderr) as on_progress:
        profile = examine(target, options, on_progress=on_progress)
    diagnosis = diagnose(profile, load_zoo())
    _deliver(diagnosis, args.json, is_quiet=args.quiet)
    return _exit_code(diagnosis, args.fail_on)


def _deliver(diagnosis: Diagnosis, json: JsonOutput | None, *, is_quiet: bool) -> None:
    """The JSON first: it is complete even when nobody reads the report to its end."""
    from stoker.cli.report import print_report
    from stoker.records.codec import to_json

    try:
        if json is not None:
            json.write(to_json(diagnosis))
    finally:  # a disk that filled up meanwhile must not cost the report as well
        if json is None or not (json.is_stdout or is_quiet):
            print_report(diagnosis)
    if json is not None and not json.is_stdout and not is_quiet:
        print(f"diagnosis written to {json.given}", file=sys.stderr)


def _exit_code(diagnosis: Diagnosis, gates: tuple[gate.Gate, ...]) -> int:
    from stoker.records.diagnosis import VerdictCode
    from stoker.records.profile import End

    profile = diagnosis.profile
    if profile.end is End.INTERRUPTED:
        return profile.exit_code
    if profile.end is End.CRASHED or profile.exit_code != 0:
        return _of_script(profile)
    failures = [text for text in (one.failure(diagnosis) for one in gates) if text]
    for text in failures:
        print(text, file=sys.stderr)
    if failures:
        return EXIT_ERROR
    return EXIT_INCONCLUSIVE if diagnosis.verdict.code is VerdictCode.INCONCLUSIVE else EXIT_OK


def _of_script(profile: Profile) -> int:
    code = profile.exit_code
    return _SIGNAL_BASE - code if code < 0 else code or EXIT_ERROR
