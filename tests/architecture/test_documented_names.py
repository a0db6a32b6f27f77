"""What a user can write or read is documented: options, codes, keys, settings, public names."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

import stoker
from stoker.cli.commands import COMMANDS
from stoker.cli.parser import Parser
from stoker.diagnose.ranking import answers
from stoker.loader.stats import LoaderStats
from stoker.records.diagnosis import Diagnosis, Dont, FixCode, RankedFix, Step, VerdictCode
from stoker.remedy.ledger import LoaderAccount
from stoker.remedy.request import VALUES

DOCS = Path(__file__).parents[2] / "docs"


def page(name: str) -> str:
    return (DOCS / name).read_text()


def section(text: str, heading: str) -> str:
    """What stands below a heading, up to the next one."""
    found = text.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    assert found, f"there is no section {heading!r}"
    return found


def rows(text: str) -> dict[str, str]:
    """The rows of a section's tables, by the code in their first column."""
    return {
        found[1]: found[0] for found in re.finditer(r"^\| `([\w-]+)` \|.*$", text, re.MULTILINE)
    }


def names(kind: type[msgspec.Struct]) -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(kind)}


def said(text: str, word: str) -> bool:
    """True where the word stands by itself."""
    return re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", text) is not None


@pytest.mark.parametrize("entry", COMMANDS, ids=lambda entry: entry.name)
def test_every_option_and_choice_of_a_command_stands_on_its_page(entry: Any) -> None:
    parser = Parser(entry.name, description="")
    entry.load().add_arguments(parser)
    text = page(f"commands/{entry.name}.md")
    options = {name for action in parser._actions for name in action.option_strings}
    wanted = {name for name in options if name.startswith("--")} - {"--help"}
    if entry.name != "plan":  # its page leads to that of predict
        wanted |= {str(one) for action in parser._actions for one in action.choices or ()}
    assert sorted(name for name in wanted if not said(text, name)) == []


def test_every_command_stands_in_readme() -> None:
    readme = (DOCS.parent / "README.md").read_text()
    assert [one.name for one in COMMANDS if f"docs/commands/{one.name}.md" not in readme] == []


def test_every_verdict_is_explained_with_the_fixes_that_answer_it() -> None:
    found = rows(section(page("doctor.md"), "The verdicts, and what to do"))
    assert set(found) == set(VerdictCode)
    lacking = {
        code.value: [fix.value for fix in answers(code) if f"`{fix}`" not in found[code]]
        for code in VerdictCode
    }
    assert {code: fixes for code, fixes in lacking.items() if fixes} == {}


def test_every_fix_can_be_made_by_hand_or_is_told_to_be_a_dont() -> None:
    text = section(page("remedies.md"), "Every fix, and how it is made by hand")
    donts = {code for code in FixCode if code not in rows(text)}
    assert donts == set(list(FixCode)[-4:])
    assert [code for code in donts if f"`{code}`" not in text] == []


def test_every_remedy_stands_with_what_it_means_for_the_data() -> None:
    text = section(page("remedies.md"), "What `stoker run` applies")
    found = re.findall(r"^\| `([\w-]+)", text, re.MULTILINE)
    assert sorted(found) == sorted(VALUES)
    assert [name for name in VALUES if not said(page("commands/run.md"), name)] == []


@pytest.mark.parametrize("kind", [Diagnosis, Step, RankedFix, Dont], ids=lambda one: one.__name__)
def test_every_key_of_a_diagnosis_stands_on_the_page_of_its_file(kind: Any) -> None:
    text = page("commands/report.md")
    assert sorted(name for name in names(kind) if not said(text, name)) == []


def test_every_key_of_what_a_run_writes_stands_on_its_page() -> None:
    text = section(page("commands/run.md"), "The JSON")
    keys = LoaderAccount("data set").as_record()
    assert [key for key in keys if f"`{key}`" not in text] == []


def test_every_public_name_has_its_row() -> None:
    text = page("python.md")
    assert [name for name in stoker.__all__ if f"`stoker.{name}`" not in text] == []


def test_every_setting_of_a_loader_and_what_it_tells_have_their_place() -> None:
    text = section(page("loader.md"), "Settings")
    settings = set(inspect.signature(stoker.Loader).parameters)
    assert sorted(name for name in settings | names(LoaderStats) if f"`{name}`" not in text) == []
