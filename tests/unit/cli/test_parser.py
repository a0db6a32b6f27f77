"""Where our options end and the script's begin."""

from __future__ import annotations

import argparse

import pytest

from stoker.cli import doctor
from stoker.cli.parser import Parser, ScriptCall, did_you_mean
from stoker.errors import UsageError


def _read(*argv: str) -> argparse.Namespace:
    parser = Parser("doctor", description="")
    doctor.add_arguments(parser)
    return parser.read(argv, takes_script=True)


def _refusal(*argv: str) -> UsageError:
    with pytest.raises(UsageError) as refusal:
        _read(*argv)
    return refusal.value


@pytest.mark.parametrize(
    ("argv", "call"),
    [
        (["train.py"], ScriptCall("script", ("train.py",))),
        (["train.py", "--json", "x"], ScriptCall("script", ("train.py", "--json", "x"))),
        (["train.py", "--", "-m"], ScriptCall("script", ("train.py", "--", "-m"))),
        (["train.py", "--help"], ScriptCall("script", ("train.py", "--help"))),
        (["train.py", "-m", "x"], ScriptCall("script", ("train.py", "-m", "x"))),
        (["train.py", "--unknown=1", "-"], ScriptCall("script", ("train.py", "--unknown=1", "-"))),
        (["-m", "pkg.train", "--quiet"], ScriptCall("module", ("pkg.train", "--quiet"))),
        (["-mpkg.train", "-m", "b"], ScriptCall("module", ("pkg.train", "-m", "b"))),
        (["-m", "pkg", "--", "x"], ScriptCall("module", ("pkg", "--", "x"))),
        (
            ["--", "torchrun", "--nproc-per-node", "2", "train.py", "--json", "x"],
            ScriptCall(
                "launcher", ("torchrun", "--nproc-per-node", "2", "train.py", "--json", "x")
            ),
        ),
        (["--", "--odd-program"], ScriptCall("launcher", ("--odd-program",))),
        (["", "x"], ScriptCall("script", ("", "x"))),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_follows_the_script_belongs_to_it_untouched(argv: list[str], call: ScriptCall) -> None:
    args = _read("--budget", "5", *argv)

    assert args.call == call
    assert args.budget == 5.0
    assert args.json is None
    assert not args.quiet


@pytest.mark.parametrize(
    "argv",
    [
        ["--json", "-", "--quiet", "--steps", "9", "train.py"],
        ["--quiet", "--json=-", "--steps=9", "train.py"],
        ["--steps", "9", "--quiet", "--json", "-", "train.py"],
    ],
    ids=" ".join,
)
def test_our_options_are_read_in_any_order_before_the_script(argv: list[str]) -> None:
    args = _read(*argv)

    assert (args.json.given, args.quiet, args.steps) == ("-", True, 9)
    assert args.call == ScriptCall("script", ("train.py",))


def test_the_value_of_an_option_is_not_taken_for_the_script() -> None:
    assert _read("--budget", "9", "-m", "train").call == ScriptCall("module", ("train",))


def test_an_option_that_takes_no_value_does_not_swallow_the_script() -> None:
    assert _read("--allow-writes", "train.py").call == ScriptCall("script", ("train.py",))


@pytest.mark.parametrize(
    ("argv", "happened"),
    [
        ([], "no script was named"),
        (["--quiet"], "no script was named"),
        (["--"], "expected a program behind --"),
        (["-m"], "expected a module behind -m"),
        (["-m", ""], "expected a module behind -m"),
        (["--json"], "--json: expected a value"),
        (["--json", "--quiet", "train.py"], "--json: expected a value"),
        (["--jsn", "x", "train.py"], "unknown option '--jsn'; did you mean '--json'?"),
        (["--jsn=x", "train.py"], "unknown option '--jsn'; did you mean '--json'?"),
        (["--quie", "train.py"], "unknown option '--quie'; did you mean '--quiet'?"),
        (["--zzz", "train.py"], "unknown option '--zzz'"),
        (["--quiet=yes", "train.py"], "--quiet takes no value"),
        (["--budget", "-3", "train.py"], "--budget: '-3' is not a time"),
        (["--budget=-3", "train.py"], "--budget: '-3' is not a time, allowed are seconds above 0"),
        (["--budget", "soon", "train.py"], "--budget: 'soon' is not a time"),
        (["--budget", "inf", "train.py"], "--budget: 'inf' is not a time"),
        (["--budget", "nan", "train.py"], "--budget: 'nan' is not a time"),
        (["--steps", "0", "train.py"], "--steps: '0' is not a count"),
        (["--steps", "1.5", "train.py"], "--steps: '1.5' is not a count"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_command_line_is_refused_by_name(argv: list[str], happened: str) -> None:
    refusal = _refusal(*argv)

    assert refusal.happened.startswith(happened)
    assert refusal.exit_code == 2


def test_a_refusal_repeats_the_command_line_and_names_the_help() -> None:
    refusal = _refusal("--jsn", "a file", "train.py")

    assert refusal.looked_at == "stoker doctor --jsn 'a file' train.py"
    assert refusal.run_next == "stoker doctor --help"


def test_options_cannot_be_abbreviated() -> None:
    """Or a new option of ours could change what an old command line means."""
    assert _refusal("--allow", "train.py").happened.startswith("unknown option '--allow'")


def test_without_a_script_a_surplus_word_is_refused() -> None:
    parser = Parser("report", description="")
    parser.add_argument("file")

    with pytest.raises(UsageError, match="unexpected argument 'b'"):
        parser.read(["a", "b"])


def test_the_nearest_known_word_is_offered_and_nothing_when_none_is_near() -> None:
    assert did_you_mean("docter", ["doctor", "report"]) == "; did you mean 'doctor'?"
    assert did_you_mean("xyz", ["doctor", "report"]) == ""
