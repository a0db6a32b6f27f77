"""Three parts in every message, one exit code for every kind."""

from __future__ import annotations

import inspect

import pytest

from stoker import errors
from stoker.errors import InputError, NoLoopFound, ProbeError, StokerError, UsageError


def _kinds() -> list[type[StokerError]]:
    members = inspect.getmembers(errors, inspect.isclass)
    return [kind for _, kind in members if issubclass(kind, StokerError)]


def test_a_message_has_its_three_parts_in_order() -> None:
    error = InputError("no such file", looked_at="/data", run_next="stoker doctor SCRIPT")

    assert str(error).splitlines() == [
        "no such file",
        "looked at: /data",
        "next: stoker doctor SCRIPT",
    ]


def test_a_part_that_is_not_given_is_left_out() -> None:
    assert str(InputError("no such file")) == "no such file"


@pytest.mark.parametrize("kind", _kinds(), ids=lambda kind: kind.__name__)
def test_every_error_exits_with_1_but_a_wrong_command_line_with_2(
    kind: type[StokerError],
) -> None:
    assert kind("it failed").exit_code == (2 if kind is UsageError else 1)


@pytest.mark.parametrize("kind", [ProbeError, NoLoopFound])
def test_a_failed_script_passes_its_own_exit_code_on(kind: type[ProbeError]) -> None:
    assert kind("it failed", exit_code=7).exit_code == 7


def test_a_wrong_command_line_is_wrong_input() -> None:
    assert issubclass(UsageError, InputError)


@pytest.mark.parametrize("kind", _kinds(), ids=lambda kind: kind.__name__)
def test_the_tree_in_the_docstring_names_every_error(kind: type[StokerError]) -> None:
    assert kind.__name__ in (errors.__doc__ or "")


def test_exit_codes_are_told_apart() -> None:
    codes = [value for name, value in vars(errors).items() if name.startswith("EXIT_")]

    assert len(set(codes)) == len(codes) == 5
