"""`stoker COMMAND …`: finds the command, runs it, and turns what it raises into an exit code."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from stoker import __version__
from stoker.errors import EXIT_INTERRUPTED, EXIT_OK, StokerError, UsageError

_EXIT_CODES = """exit codes:
  0  answered, whatever the verdict      3  inconclusive: the intervals overlap
  1  an error, or a gate that failed     130  Ctrl-C
  2  the command line makes no sense     a script that fails: its own code
"""


def run() -> NoReturn:
    """Run with the process's own arguments, and exit."""
    from stoker.cli.streams import open_closed

    open_closed()
    sys.exit(main(sys.argv[1:]))


def main(argv: Sequence[str]) -> int:
    """Run a command line; what went wrong is told on stderr. Returns the exit code."""
    try:
        return _dispatch(argv)
    except StokerError as error:
        _tell(error)
        return error.exit_code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED


def _dispatch(argv: Sequence[str]) -> int:
    from stoker.cli.commands import COMMANDS
    from stoker.cli.parser import Parser
    from stoker.cli.streams import write_stdout

    name, rest = (argv[0], argv[1:]) if argv else ("", ())
    if name in ("-h", "--help"):
        write_stdout(_help())
        return EXIT_OK
    if name in ("-V", "--version"):
        write_stdout(f"stoker {__version__}\n")
        return EXIT_OK
    for entry in COMMANDS:
        if entry.name == name:
            command = entry.load()
            parser = Parser(name, description=(command.__doc__ or "").strip())
            command.add_arguments(parser)
            return command.run(parser.read(rest, takes_script=entry.takes_script))
    raise _unknown(name)


def _unknown(name: str) -> UsageError:
    """What to say when the first word is no command."""
    from stoker.cli.commands import COMMANDS
    from stoker.cli.parser import did_you_mean

    names = [entry.name for entry in COMMANDS]
    looked_at = f"the commands {', '.join(names)}"
    if not name:
        return UsageError(
            "no command was named", looked_at=looked_at, run_next="stoker doctor SCRIPT"
        )
    if name.startswith("-"):
        near = did_you_mean(name, ("--help", "--version"))
        return UsageError(
            f"unknown option {name!r}{near}",
            looked_at="options in front of a command",
            run_next="stoker --help",
        )
    if Path(name).is_file():
        return UsageError(
            f"{name!r} is a file, not a command",
            looked_at=looked_at,
            run_next=f"stoker doctor {name}",
        )
    return UsageError(
        f"unknown command {name!r}{did_you_mean(name, names)}",
        looked_at=looked_at,
        run_next="stoker --help",
    )


def _help() -> str:
    from stoker.cli.commands import COMMANDS

    width = max(len(entry.name) for entry in COMMANDS)
    lines = [f"  {entry.name:<{width}}  {entry.summary}" for entry in COMMANDS]
    return "\n".join(
        [
            "usage: stoker COMMAND [OPTIONS] …",
            "",
            "Keeps an accelerator fed: finds out why a training run starves, and what helps.",
            "",
            "commands:",
            *lines,
            "",
            "  stoker COMMAND --help tells a command's options; stoker --version the version.",
            "",
            _EXIT_CODES,
        ]
    )


def _tell(error: StokerError) -> None:
    """The three parts of an error, on stderr."""
    first, *others = str(error).splitlines()
    print(f"error: {first}", *(f"  {line}" for line in others), sep="\n", file=sys.stderr)
