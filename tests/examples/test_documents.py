"""Every code block of README and docs runs, in a folder like a user's (conftest.py).

Blocks fenced `python` are run as a script, `bash` line by line, `console` for its lines that
begin with `$ `; all others (`text`, `json`, `toml`, …) are output or data. A comment on the
line before a fence changes that, in sight of whoever edits the page:

    <!-- run as: COMMAND -->      a shorter command is run in the block's place
    <!-- not run: REASON -->      only shown, because …
    <!-- output of: COMMAND -->   every line is one of the command's output, in order; a line
                                  that is only … stands for lines left out
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
Run = Callable[..., "subprocess.CompletedProcess[str]"]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
RUN_LANGUAGES = {"python", "bash", "console"}
FENCE = re.compile(
    r"(?:^<!-- (?P<how>run as|not run|output of): (?P<what>.*?) -->\n)?"
    r"^```(?P<language>\w*)\n(?P<body>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


class Block(NamedTuple):
    """A fenced block and what its comment says about it."""

    where: str
    language: str
    body: str
    how: str
    what: str

    def shell(self) -> str:
        """The commands of a bash or console block."""
        if self.language == "bash":
            return self.body
        lines = [line[2:] for line in self.body.splitlines() if line.startswith("$ ")]
        return "\n".join(lines) + "\n"


def blocks_of(text: str, name: str) -> list[Block]:
    """All fenced blocks of a document, in order."""
    return [
        Block(
            where=f"{name}:{text.count(chr(10), 0, found.start()) + 1}",
            language=found["language"],
            body=found["body"],
            how=found["how"] or "",
            what=found["what"] or "",
        )
        for found in FENCE.finditer(text)
    ]


def _all_blocks() -> list[Block]:
    found = []
    for path in DOCUMENTS:
        found += blocks_of(path.read_text(), str(path.relative_to(ROOT)))
    return found


def _is_run(block: Block) -> bool:
    return block.language in RUN_LANGUAGES and block.how in {"", "run as"}


@pytest.mark.parametrize(
    "block", [block for block in _all_blocks() if _is_run(block)], ids=lambda block: block.where
)
def test_a_code_block_of_the_documents_runs(block: Block, run: Run) -> None:
    if block.how == "run as":
        run("bash", "-euo", "pipefail", "-c", block.what)
    elif block.language == "python":
        run(sys.executable, "-", stdin=block.body)
    else:
        run("bash", "-euo", "pipefail", "-c", block.shell())


@pytest.mark.parametrize(
    "block",
    [block for block in _all_blocks() if block.how == "output of"],
    ids=lambda block: block.where,
)
def test_output_shown_in_the_documents_is_output(block: Block, run: Run) -> None:
    printed = run("bash", "-euo", "pipefail", "-c", block.what).stdout
    assert missing_from(printed, block.body) is None


def missing_from(printed: str, shown: str) -> str | None:
    """The first stretch between two … of `shown` that `printed` does not have in its turn."""
    position = 0
    for stretch in re.split(r"^…$\n?", shown, flags=re.MULTILINE):
        found = printed.find(stretch.strip("\n"), position)
        if found < 0:
            return stretch
        position = found + len(stretch.strip("\n"))
    return None


def test_output_that_was_changed_or_reordered_is_found_out() -> None:
    assert missing_from("a\nb\nc\nd\n", "a\nb\n…\nd\n") is None
    assert missing_from("a\nb\nc\nd\n", "a\nc\n") == "a\nc\n"
    assert missing_from("a\nb\nc\nd\n", "d\n…\na\n") == "a\n"


def test_every_fence_names_its_language_and_every_comment_gives_its_reason() -> None:
    wrong = [
        block.where
        for path in DOCUMENTS
        for block in blocks_of(path.read_text(), str(path.relative_to(ROOT)))
        if not block.language or (block.how and len(block.what) < 5)
    ]
    assert wrong == []


def test_every_link_to_a_file_leads_somewhere() -> None:
    broken = [
        f"{path.relative_to(ROOT)}: {link}"
        for path in DOCUMENTS
        for link in re.findall(r"\]\((?!https?:|#)([^)#\s]+)", path.read_text())
        if not (path.parent / link).exists()
    ]
    assert broken == []


def headings(text: str) -> set[str]:
    """The places of a page that a link may name, as GitHub spells them."""
    lines = re.findall(r"^#+ (.*)$", FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", line).lower().replace(" ", "-") for line in lines}


def test_every_link_to_a_place_on_a_page_leads_there() -> None:
    links = [
        (path, link.partition("#"))
        for path in DOCUMENTS
        for link in re.findall(r"\]\((?!https?:)([^)\s]+#[^)\s]+)", path.read_text())
    ]
    broken = [
        f"{path.relative_to(ROOT)}: {''.join(link)}"
        for path, link in links
        if link[2] not in headings((path.parent / link[0] if link[0] else path).read_text())
    ]
    assert links and broken == []


SAMPLE = """Text.

```python
print(1)
```

<!-- not run: it takes an hour -->
```bash
./train
```

```console
$ echo one
one
$ echo two
two
```
"""


def test_blocks_are_found_with_what_is_said_about_them() -> None:
    python, bash, console = blocks_of(SAMPLE, "sample.md")
    assert (python.language, python.body, python.how) == ("python", "print(1)\n", "")
    assert (bash.how, bash.what) == ("not run", "it takes an hour")
    assert console.shell() == "echo one\necho two\n"
    assert console.where == "sample.md:12"
