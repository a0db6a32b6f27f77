"""The table of commands and the modules that it names."""

from __future__ import annotations

import pytest

from stoker.cli.commands import COMMANDS, Entry
from stoker.cli.main import main
from stoker.cli.parser import Parser


@pytest.mark.parametrize("entry", COMMANDS, ids=lambda entry: entry.name)
def test_every_command_offers_help_arguments_and_run(entry: Entry) -> None:
    command = entry.load()
    parser = Parser(entry.name, description="")

    command.add_arguments(parser)

    assert command.__doc__
    assert callable(command.run)


def test_no_two_commands_share_a_name() -> None:
    names = [entry.name for entry in COMMANDS]

    assert len(set(names)) == len(names)


@pytest.mark.parametrize("entry", COMMANDS, ids=lambda entry: entry.name)
def test_the_help_names_every_command_with_its_summary_at_80_columns(
    entry: Entry, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--help"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert any(entry.name in line and entry.summary in line for line in lines)
    assert max(map(len, lines)) <= 80
