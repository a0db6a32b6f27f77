"""Runs a training script with remedies applied, without a change of its code.

`--apply auto` takes what a diagnosis found to help: of --diagnosis FILE, or of a short doctor's run
that comes first. The script's own loader comes back where a remedy fails or does not help. Nothing
is added to stdout; what was done, and what it saved, goes to stderr.
"""

from __future__ import annotations

import argparse
import math
import os
import shlex
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from stoker.cli.files import JsonOutput, read_diagnosis, require_apart
from stoker.cli.quantities import count, seconds
from stoker.errors import (
    EXIT_INTERRUPTED,
    EXIT_OK,
    FolderError,
    InputError,
    NoLoopFound,
    ProbeError,
    UsageError,
)

if TYPE_CHECKING:
    from stoker.cli.parser import ScriptCall
    from stoker.records.diagnosis import Diagnosis
    from stoker.remedy.request import Request

_USAGE = """stoker run [OPTIONS] SCRIPT [ARGS...]
       stoker run [OPTIONS] -m MODULE [ARGS...]
       stoker run [OPTIONS] -- LAUNCHER [ARGS...]"""

_EPILOG = """Everything behind SCRIPT, MODULE or -- belongs to the script, options too.

remedies, with commas between:
  overlap[=N]  workers=N  persistent-workers  prefetch-depth=N  unordered  pinned-async
  native-threads[=N]  restore-affinity  allocator  cache-ram=SIZE  cache-local=DIR:SIZE
  pack=DIR

examples:
  stoker run train.py --epochs 3
  stoker run --diagnosis diagnosis.json train.py --epochs 90
  stoker run --apply workers=4,persistent-workers,cache-ram=4GB -m trainer.main
  stoker run --dry-run --apply overlap=4 train.py

exit codes:
  the script's own; 1 error, 2 usage, before it was started
"""
# The doctor's run that comes first is short: it has to find one cause, not to fill a report.
_BUDGET_S = 20.0
# Several rounds of workers, and not long beside a training.
_TRIAL_S = 2.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options; the script and its arguments are split off before."""
    parser.usage = _USAGE
    parser.epilog = _EPILOG
    parser.add_argument(
        "--apply", default="auto", metavar="LIST", help="auto (default), or remedies with commas"
    )
    parser.add_argument(
        "--diagnosis", metavar="FILE", help="what stoker doctor --json wrote for this script"
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="do not train; show what would be applied, and as a change of the code on stdout",
    )
    parser.add_argument(
        "--json", metavar="FILE", help="write what was applied and what it saved as JSON"
    )
    parser.add_argument(
        "--certify",
        type=count,
        default=0,
        metavar="N",
        help="compare the first N batches with what the script's own way gives",
    )
    parser.add_argument(
        "--trial",
        type=seconds,
        default=_TRIAL_S,
        metavar="SECONDS",
        help="compare remedies and the script's own way for so long each (default: 2)",
    )
    parser.add_argument("--quiet", action="store_true", help="no lines and no summary on stderr")
    parser.add_argument(
        "--budget",
        type=seconds,
        default=_BUDGET_S,
        metavar="SECONDS",
        help="the longest that the legs of the doctor's run before may take (default: 20)",
    )


def run(args: argparse.Namespace) -> int:
    """Choose the remedies, then become the script or show what would be done."""
    from stoker.probe.command import command_of, source_of
    from stoker.remedy.request import parse

    requests = parse(args.apply)
    _open_packs(requests)
    _refuse_contradictions(args, requests)
    command = command_of(args.call.kind, args.call.argv, asked="run")
    path = _json_path(args.json)
    if path is not None:
        require_apart(path, [source_of(args.call.kind, args.call.argv), args.diagnosis])
    diagnosis = read_diagnosis(args.diagnosis) if args.diagnosis is not None else None
    if diagnosis is not None:
        _require_same_script(diagnosis, args.call, args.diagnosis)
    if not requests:
        diagnosis = diagnosis or _examine(args)
        requests = _prescribed(diagnosis, args) if diagnosis is not None else ()
    if args.dry_run:
        return _show(args.call, requests)
    if path is not None:
        _forget(Path(path))
    if not requests:
        _tell("nothing is applied, the script runs as it is", is_quiet=args.quiet)
        if path is not None:
            from stoker.remedy.ledger import account_text

            try:
                JsonOutput(path).write(account_text(args.call.argv, ()))
            except InputError as error:  # the disk may have filled up meanwhile
                _tell(error.happened, is_quiet=args.quiet)
        return _become(command, {})
    return _become(command, _environment(requests, diagnosis, path, args))


def _forget(path: Path) -> None:
    """What an earlier run has left is no account of this one; a pipe or a device is no file."""
    if path.is_file():
        with suppress(OSError):
            path.resolve().unlink()


def _refuse_contradictions(args: argparse.Namespace, requests: tuple[Request, ...]) -> None:
    if args.dry_run:
        for option, given in (("--json", args.json), ("--certify", args.certify)):
            if given:
                raise UsageError(
                    f"{option} tells what came of a run, and --dry-run starts none",
                    looked_at=f"--dry-run {option} {given}",
                    run_next=f"leave out --dry-run or {option}",
                )
    if args.certify and any(request.name == "unordered" for request in requests):
        raise UsageError(
            "--certify compares batches one by one, and unordered gives them in any order",
            looked_at=f"--certify {args.certify} --apply {args.apply}",
            run_next="leave out --certify or unordered",
        )


def _open_packs(requests: tuple[Request, ...]) -> None:
    """Raise what is wrong with a pack before anything is started."""
    for request in requests:
        if request.name == "pack" and request.folder is not None:
            from stoker.pack import open_pack

            open_pack(request.folder)


def _json_path(given: str | None) -> str | None:
    if given is None:
        return None
    output = JsonOutput.checked(given)
    if output.is_stdout:
        raise UsageError(
            "--json -: stdout belongs to the script",
            looked_at="--json -",
            run_next="--json FILE",
        )
    return str(Path(given).absolute())


def _examine(args: argparse.Namespace) -> Diagnosis | None:
    """A short doctor's run; None where it sees no loop, or none can be made: no reason not to
    train.
    """
    from stoker.cli.progress import watched
    from stoker.cli.stdin_twice import read_twice
    from stoker.diagnose.diagnosis import diagnose
    from stoker.probe.attach import Options, Target, examine
    from stoker.records.profile import End

    target = Target(kind=args.call.kind, argv=args.call.argv)
    try:
        with watched(quiet=args.quiet, stream=sys.stderr) as on_progress, read_twice() as stdin:
            profile = examine(
                target, Options(budget_s=args.budget), on_progress=on_progress, stdin=stdin
            )
    except (NoLoopFound, FolderError) as error:
        _tell(error.happened, is_quiet=args.quiet)
        return None
    if profile.end is End.INTERRUPTED:
        # Whoever stops the doctor doesn't want the training either.
        if profile.exit_code in (EXIT_OK, EXIT_INTERRUPTED):
            raise KeyboardInterrupt
        raise ProbeError(
            "told to end before the training was begun",
            looked_at="the doctor's run that comes first",
            run_next="--diagnosis FILE, or --apply with a list, begins without one",
            exit_code=profile.exit_code,
        )
    return diagnose(profile)


def _require_same_script(diagnosis: Diagnosis, call: ScriptCall, given: str) -> None:
    from stoker.probe.command import as_typed, digest_of, source_of

    def refused(problem: str) -> InputError:
        return InputError(
            f"{given} is the diagnosis of another script: {problem}",
            looked_at=f"it was made of: {' '.join(diagnosis.script.argv)}",
            run_next=f"stoker doctor --json {given} {_words(call)}",
        )

    argv, diagnosed = as_typed(call.kind, call.argv), diagnosis.script.argv
    first = 1 if call.kind == "script" else 2
    # A script may be named by another path, its file tells; started another way it is another run.
    is_started_alike = diagnosed[:first] == argv[:first] or (
        call.kind == "script" and not diagnosed[0].startswith("-")
    )
    if not is_started_alike:
        raise refused(f"this is {' '.join(argv[:first])}")
    digest = digest_of(call.kind, call.argv)
    if digest is None or diagnosis.script.sha256 is None:
        # Nothing tells what trains but the words themselves.
        if diagnosed[: first + 1] != argv[: first + 1]:
            raise refused(f"this is {' '.join(argv[: first + 1])}")
    elif digest != diagnosis.script.sha256:
        path = source_of(call.kind, call.argv)
        shown = call.argv[0] if call.kind == "script" or path is None else os.path.relpath(path)
        is_named_so = any(Path(word).name == Path(shown).name for word in diagnosed)
        is_changed = is_named_so or diagnosed == argv or call.kind == "module"
        raise refused(f"{shown} was changed since" if is_changed else f"this is {shown}")


def _words(call: ScriptCall) -> str:
    """As it is written behind a command of Stoker."""
    from stoker.probe.command import as_typed

    return shlex.join(as_typed(call.kind, call.argv))


def _prescribed(diagnosis: Diagnosis, args: argparse.Namespace) -> tuple[Request, ...]:
    from stoker.diagnose.prescribe import prescribe
    from stoker.records.diagnosis import VerdictCode

    chosen = prescribe(diagnosis)
    for line in chosen.reasons:
        _tell(line, is_quiet=args.quiet)
    if not chosen.requests and diagnosis.verdict.code is VerdictCode.INCONCLUSIVE:
        longer = f"{3 * args.budget:g}"
        again = (
            f"a longer look, --budget {longer} in place of {args.budget:g}"
            if args.diagnosis is None
            else f"a longer look, stoker doctor --budget {longer} --json {args.diagnosis} "
            f"{_words(args.call)}"
        )
        _tell(f"next: {again}; or try one, --apply overlap", is_quiet=args.quiet)
    _show_by_hand("\n".join(chosen.by_hand), args)
    if not args.certify:
        return chosen.requests
    # It compares batches one by one.
    return tuple(request for request in chosen.requests if request.name != "unordered")


def _show_by_hand(code: str, args: argparse.Namespace) -> None:
    """What only the author of the script can change, as code: no remedy does it."""
    from stoker.cli.streams import write_stdout

    if code and args.dry_run:
        write_stdout(code)
    elif code and not args.quiet:
        print(code, end="", file=sys.stderr)


def _show(call: ScriptCall, requests: tuple[Request, ...]) -> int:
    from stoker.cli.streams import write_stdout
    from stoker.remedy.code import change_of

    asked = ", ".join(str(request) for request in requests) or "nothing"
    _tell(f"dry run: would apply {asked}", is_quiet=False)
    if requests:
        write_stdout(change_of(_source(call), requests))
    return EXIT_OK


def _source(call: ScriptCall) -> str | None:
    """Where the source of what trains is; absolute, for it may change its directory."""
    from stoker.probe.command import source_of

    path = source_of(call.kind, call.argv)
    return str(path) if path is not None and path.suffix == ".py" else None


def _environment(
    requests: tuple[Request, ...],
    diagnosis: Diagnosis | None,
    json: str | None,
    args: argparse.Namespace,
) -> dict[str, str]:
    import stoker
    from stoker.probe import attach
    from stoker.probe.session import ROOT_VARIABLE
    from stoker.remedy.orders import Orders

    loader = diagnosis.profile.loader if diagnosis is not None else None
    orders = Orders(
        requests=requests,
        **(_pace(diagnosis) if diagnosis is not None else {}),
        dataset=loader.dataset if loader is not None else None,
        batch_bytes=loader.batch_bytes if loader is not None else None,
        worker_bytes=diagnosis.profile.worker_bytes if diagnosis is not None else None,
        script=_source(args.call),
        json=json,
        checked_batches=args.certify,
        window_s=args.trial,
        is_quiet=args.quiet,
        pid=os.getpid(),
    )
    site = str(Path(attach.__file__).parent / "site")
    path = os.environ.get("PYTHONPATH")
    return {
        **orders.to_environment(),
        ROOT_VARIABLE: str(Path(stoker.__file__).parent),
        "PYTHONPATH": f"{site}{os.pathsep}{path}" if path else site,
    }


def _pace(diagnosis: Diagnosis) -> dict[str, Any]:
    """Seconds of a batch as the script has it, with half of their interval, and what of that the
    boundaries of epochs take: remedies are tried within epochs.
    """
    from stoker.records.diagnosis import Part

    step_s, loader, real = diagnosis.step.real_s, diagnosis.profile.loader, diagnosis.profile.real
    batches = loader.batches_per_step if loader is not None else 1.0
    edge_s = sum(row.seconds for row in diagnosis.ledger if row.part is Part.EPOCH_EDGE)
    found: dict[str, Any] = {"edge_s": max(0.0, edge_s) / batches}
    if step_s is not None:
        found["baseline_s"] = step_s / batches
    if step_s is not None and real is not None and math.isfinite(real.half_width_share):
        found["baseline_half_s"] = real.half_width_share * step_s / batches
        found["baseline_steps"] = real.count
    return found


def _become(command: list[str], variables: dict[str, str]) -> NoReturn:
    """Go on as the script: its signals, its exit code and its terminal are its own."""
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execvpe(command[0], command, {**os.environ, **variables})
    except OSError as error:
        raise InputError(
            f"{command[0]!r} can't be started: {error.strerror}",
            looked_at=command[0],
            run_next="start it by its interpreter: -- bash FILE, or -- python FILE",
        ) from error


def _tell(text: str, *, is_quiet: bool) -> None:
    if not is_quiet:
        print(f"stoker run: {text}", file=sys.stderr)
