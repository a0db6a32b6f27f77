"""Our options apart from the script's: argparse for the former, hands off the latter."""

from __future__ import annotations

import argparse
import difflib
import re
import shlex
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, NoReturn

from stoker.cli.streams import write_stdout
from stoker.errors import UsageError


class ScriptCall(NamedTuple):
    """What is to be examined: argv[0] is the script, the module or the launcher's program."""

    kind: Literal["script", "module", "launcher"]
    argv: tuple[str, ...]


# A subclass, because overriding `error` is the only way argparse offers to say a mistake otherwise
# than by printing and exiting.
class Parser(argparse.ArgumentParser):
    """argparse without abbreviations, whose mistakes are UsageErrors."""

    def __init__(self, command: str, *, description: str) -> None:
        super().__init__(
            prog=f"stoker {command}",
            description=description,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        # argparse takes -1 for a value but -3ms and -1/2 for options, so that "expected a value"
        # was all that it said of them. None of ours begins with a digit.
        self._negative_number_matcher = re.compile(r"-\.?\d")
        self._argv: Sequence[str] = ()

    def read(self, argv: Sequence[str], *, takes_script: bool = False) -> argparse.Namespace:
        """Parse; with `takes_script`, `call` of the result is the ScriptCall.

        Raises UsageError for an unknown option (the nearest one is offered), a missing or
        surplus argument, or a value that an option can't take.
        """
        self._argv = argv
        own, call = self._split(argv) if takes_script else (argv, None)
        args, unread = self.parse_known_args(own)
        for text in unread:
            self._refuse(text)
        if takes_script:
            if call is None:
                self.error("no script was named")
            args.call = call
        return args

    def _print_message(self, message: str, file: object = None) -> None:
        """Write the help as any payload is written: its reader may go away."""
        del file  # only help texts come here, and they are what was asked for
        write_stdout(message)

    def error(self, message: str) -> NoReturn:
        """Raise what argparse would have printed."""
        raise UsageError(
            message.removeprefix("argument ").replace("one argument", "a value"),
            looked_at=f"{self.prog} {shlex.join(self._argv)}".rstrip(),
            run_next=f"{self.prog} --help",
        )

    def _split(self, argv: Sequence[str]) -> tuple[Sequence[str], ScriptCall | None]:
        """Our options, and the call behind them: SCRIPT …, -m MODULE … or -- LAUNCHER ….

        The first word that is no option of ours and no option's value begins the call; nothing
        behind it is looked at.
        """
        position = 0
        while position < len(argv):
            word, own, rest = argv[position], argv[:position], tuple(argv[position + 1 :])
            if word == "--":
                return own, ScriptCall("launcher", self._named(rest, "a program behind --"))
            if word == "-m":
                return own, ScriptCall("module", self._named(rest, "a module behind -m"))
            if word.startswith("-m") and not word.startswith("--"):  # -mMODULE, as python has it
                return own, ScriptCall("module", (word[2:], *rest))
            if not word.startswith("-") or word == "-":
                return own, ScriptCall("script", (word, *rest))
            position += self._words_of(word)
        return argv, None

    def _named(self, words: tuple[str, ...], wanted: str) -> tuple[str, ...]:
        if not words or not words[0]:
            self.error(f"expected {wanted}")
        return words

    def _words_of(self, word: str) -> int:
        """How many words an option of ours takes, its value included."""
        name, equals, _ = word.partition("=")
        action = self._option_string_actions.get(name)
        if action is None:
            self._refuse(word)
        takes_value = action.nargs is None
        if equals and not takes_value:
            self.error(f"{name} takes no value")
        return 2 if takes_value and not equals else 1

    def _refuse(self, word: str) -> NoReturn:
        name = word.partition("=")[0]
        if not name.startswith("-"):
            self.error(f"unexpected argument {word!r}")
        self.error(f"unknown option {name!r}{did_you_mean(name, self._option_string_actions)}")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """ "; did you mean 'doctor'?", or nothing when nothing is near."""
    near = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
